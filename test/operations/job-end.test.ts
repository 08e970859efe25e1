import { setImmediate as nextTurn } from 'node:timers/promises'
import { beforeEach, describe, expect, it } from 'vitest'
import type { DeadLetter, Delivery } from '../../src/broker/broker.ts'
import type { JobRow } from '../../src/job/job.ts'
import { cancel } from '../../src/operations/cancel.ts'
import { diedInBroker } from '../../src/operations/dead-letters/died-in-broker.ts'
import { push } from '../../src/operations/enqueue/push.ts'
import { fetch } from '../../src/operations/fetch/fetch.ts'
import { ack } from '../../src/operations/lease/ack.ts'
import { nack } from '../../src/operations/lease/nack.ts'
import { report } from '../../src/operations/native/report.ts'
import { createWorkflow } from '../../src/operations/workflows/workflows.ts'
import { expiry } from '../../src/services/expiry.ts'
import { reaper } from '../../src/services/reaper.ts'
import { workflowData } from '../../src/telemetry/workflow-events.ts'
import { jobMessage, NOW, settleLazily, TERMS } from '../ledger/harness.ts'
import { ledgerOfTest } from '../ledger/sqlite/harness.ts'
import { runningUntil } from '../services/running.ts'
import { onToldBroker, type ToldStage, toldArrival } from './job-messages/told-broker.ts'

const harness = ledgerOfTest()
let stage: ToldStage
/** What a worker does as soon as the job message is published. */
let work: (row: JobRow) => void
/** What time it is. */
let at: number
beforeEach(() => {
  work = () => {}
  at = NOW
  stage = onToldBroker(harness, {
    ensureQueue: async () => 'ready',
    controlBacklogConsumed: () => true,
    async publish(row) {
      work(row)
      return 'confirmed'
    },
  })
  Object.assign(stage.deps, { clock: { now: () => at, wall: () => at } })
})

const CONTEXT = { requestId: 'req_1' }
const ONLY_ONE = { type: 'a', args: [], options: { unique: { on_conflict: 'replace' } } }

const told = async () => {
  await createWorkflow(stage.deps, { type: 'group', jobs: [{ type: 'a', args: [] }] }, CONTEXT)
  await settled()
  return stage.events.map(({ type }) => type).filter((type) => type.startsWith('job.'))
}

async function settled(): Promise<void> {
  for (let i = 0; i < 3; i++) await nextTurn()
}

/** The types of the events of this job, in order. */
function storyOf(id: string): string[] {
  const own = stage.events.filter((event) => 'job' in event && event.job.id === id)
  return own.map(({ type }) => type)
}

it('emits job.enqueued once for a job that a workflow starts', async () => {
  expect(await told()).toEqual(['job.enqueued'])
})

it('emits job.enqueued before job.started, even if a worker starts during the publish', async () => {
  work = (row) => {
    stage.deps.events.emit({ type: 'job.started', job: { ...row, state: 'active', attempt: 1 } })
  }
  expect(await told()).toEqual(['job.enqueued', 'job.started'])
})

const FAILED = { code: 'e', message: 'm', retryable: false }
const DISCARDED = ['job.failed', 'job.discarded', 'dead_letter.added']

/** A job of a workflow ends; the types of the events of its own, before those of the workflow. */
const ENDS: [how: string, end: (job: JobRow) => Promise<unknown>, own: string[]][] = [
  [
    'ACK',
    ({ id }) => leased(id, () => ack(stage.deps, { job_id: id }, CONTEXT)),
    ['job.completed'],
  ],
  [
    'NACK',
    ({ id }) => leased(id, () => nack(stage.deps, { job_id: id, error: FAILED }, CONTEXT)),
    DISCARDED,
  ],
  ['CANCEL', ({ id }) => leased(id, () => cancel(stage.deps, id, CONTEXT)), ['job.cancelled']],
  [
    'a report',
    ({ id: job_id }) => {
      const events = [{ event: 'completed', job_id, attempt: 1, result: null } as const]
      return report(stage.deps, { worker_id: 'w', events }, CONTEXT)
    },
    ['job.started', 'job.completed'],
  ],
  [
    'a report of its expiry',
    ({ id: job_id }) => {
      at = AFTER_EXPIRY
      const events = [{ event: 'expired', job_id, attempt: 1 } as const]
      return report(stage.deps, { worker_id: 'w', events }, CONTEXT)
    },
    ['job.expired'],
  ],
  [
    'FETCH, after its expiry',
    ({ id }) => {
      at = AFTER_EXPIRY
      return fetched(toldArrival([], { id }))
    },
    ['job.expired'],
  ],
  [
    'FETCH, with no attempt left',
    ({ id }) => fetched(toldArrival([], { id, attempt: 2 })),
    ['job.discarded', 'dead_letter.added'],
  ],
  [
    'its death in RabbitMQ',
    ({ id }) => {
      const message = { content: Buffer.from(JSON.stringify({ id })), headers: {} }
      const died = { id, generation: 0, attempt: 1, reason: 'rejected', queue: 'default', message }
      return diedInBroker(stage.deps, died as unknown as DeadLetter)
    },
    DISCARDED,
  ],
  [
    'the expiry service',
    ({ id }) => {
      at = AFTER_EXPIRY
      return runningUntil(expiry(stage.deps), () => isIn(id, 'discarded'))
    },
    ['job.expired'],
  ],
  [
    'the reaper',
    ({ id }) =>
      leased(id, () => {
        at = NOW + 3_600_000
        return runningUntil(reaper(stage.deps), () => isIn(id, 'discarded'))
      }),
    DISCARDED,
  ],
]

/** When jobs that expire have expired. */
const AFTER_EXPIRY = Date.parse('2100-01-01T00:00:01Z')

async function leased(id: string, end: () => Promise<unknown>): Promise<void> {
  await harness.ledger.claim([jobMessage(id)], TERMS)
  await end()
}

function fetched(arrival: Delivery): Promise<unknown> {
  const arrivals = [arrival]
  stage.deps.broker.take = async () => arrivals.splice(0)
  stage.deps.broker.peek = () => []
  stage.deps.broker.takeThese = () => []
  const signal = new AbortController().signal
  return fetch(stage.deps, { queues: ['default'] }, CONTEXT, signal)
}

async function isIn(id: string, state: JobRow['state']): Promise<void> {
  expect((await harness.ledger.read.find(id))?.state).toBe(state)
}

it.each(ENDS)(
  'emits the events of a workflow after those of the job that is ended by %s',
  async (_, end, own) => {
    const options = { retry: { max_attempts: 1 }, expires_at: '2100-01-01T00:00:00Z' }
    const jobs = [{ type: 'a', args: [], options }]
    const { workflow } = await createWorkflow(stage.deps, { type: 'group', jobs }, CONTEXT)
    const job = await harness.ledger.read.find(workflow.steps[0]?.jobId ?? '')
    await settled()
    stage.events.length = 0
    if (job !== null) await end(job)
    await settled()
    const types = stage.events.map(({ type }) => type)
    const isGood = own.includes('job.completed')
    const ofWorkflow = isGood
      ? ['workflow.step_completed', 'workflow.completed']
      : ['workflow.failed']
    expect(types).toEqual([...own, ...ofWorkflow])
  },
)

it('workflow.failed names the failed step, even if another step ended last', async () => {
  const { ledger } = harness
  const jobs = ['a', 'b'].map((type) => ({ type, args: [] }))
  const { workflow } = await createWorkflow(stage.deps, { type: 'group', jobs }, CONTEXT)
  const ids = workflow.steps.map(({ jobId }) => jobId ?? '')
  const claimed = await ledger.claim(
    ids.map((id) => jobMessage(id)),
    TERMS,
  )
  const [first] = claimed.flatMap((one) => (one.verdict === 'claimed' ? [one.job] : []))
  if (!first) throw new Error('nothing was claimed')
  await nack(stage.deps, { job_id: first.id, error: FAILED }, CONTEXT)
  await ack(stage.deps, { job_id: ids[1] ?? '' }, CONTEXT)
  await settled()
  const told = stage.events.flatMap((event) =>
    event.type === 'workflow.failed' ? [workflowData(event)] : [],
  )
  expect(told).toMatchObject([
    { state: 'failed', failed_step_id: '0', failed_step_type: 'a', error: { code: 'e' } },
  ])
})

describe('a workflow step that replaces a job which another write of the same commit changed', () => {
  const replace = () => createWorkflow(stage.deps, { type: 'group', jobs: [ONLY_ONE] }, CONTEXT)

  it('emits job.enqueued of a pushed job before job.cancelled, and keeps its job message as out', async () => {
    stage.deps.broker.publish = async () => {
      await nextTurn()
      return 'confirmed'
    }
    const [{ job }] = await Promise.all([push(stage.deps, ONLY_ONE, CONTEXT), replace()])
    await settled()
    await settleLazily(harness.ledger)
    expect(storyOf(job.id)).toEqual(['job.enqueued', 'job.cancelled'])
    expect(await harness.ledger.read.find(job.id)).toMatchObject({
      state: 'cancelled',
      messageOut: true,
    })
  })

  it('acknowledges the delivery of a fetched job, and emits job.started before job.cancelled', async () => {
    const { job } = await push(stage.deps, ONLY_ONE, CONTEXT)
    const delivery: string[] = []
    stage.deps.broker.take = async () => [toldArrival(delivery, { id: job.id })]
    const signal = new AbortController().signal
    await Promise.all([fetch(stage.deps, { queues: ['default'] }, CONTEXT, signal), replace()])
    await settled()
    expect(storyOf(job.id)).toEqual(['job.enqueued', 'job.started', 'job.cancelled'])
    expect(delivery).toEqual(['ack'])
    expect(stage.deps.jobMessages.held.size).toBe(0)
  })

  it('emits both events of a callback that starts and is replaced in one commit', async () => {
    const callbacks = { on_failure: ONLY_ONE }
    const batch = { type: 'batch', jobs: [ONLY_ONE], callbacks }
    const { id } = (await createWorkflow(stage.deps, batch, CONTEXT)).workflow
    const { job } = await push(stage.deps, ONLY_ONE, CONTEXT)
    await settled()
    const [, callback] = (await harness.ledger.read.workflows.find(id))?.steps ?? []
    expect(storyOf(callback?.jobId ?? '')).toEqual(['job.enqueued', 'job.cancelled'])
    expect(await harness.ledger.read.find(callback?.jobId ?? '')).toMatchObject({
      state: 'cancelled',
    })
    expect(await harness.ledger.read.find(job.id)).toMatchObject({ state: 'available' })
    expect(harness.ledger.known.counts('default')).toMatchObject({ available: 1, cancelled: 2 })
  })
})
