import { setImmediate as nextTurn } from 'node:timers/promises'
import { beforeEach, describe, expect, it } from 'vitest'
import type { JobRow } from '../../../src/job/job.ts'
import { cancel } from '../../../src/operations/cancel.ts'
import { push } from '../../../src/operations/enqueue/push.ts'
import { fetch } from '../../../src/operations/fetch/fetch.ts'
import { ack } from '../../../src/operations/lease/ack.ts'
import { nack } from '../../../src/operations/lease/nack.ts'
import { followWorkflows } from '../../../src/operations/workflows/publish-steps.ts'
import { createWorkflow } from '../../../src/operations/workflows/workflows.ts'
import { workflowData } from '../../../src/telemetry/workflow-events.ts'
import {
  FAILED,
  failAttempt,
  fenceOf,
  jobMessage,
  NOW,
  settleLazily,
  TERMS,
} from '../../ledger/harness.ts'
import { ledgerOfTest } from '../../ledger/sqlite/harness.ts'
import { onToldBroker, type ToldStage, toldArrival } from '../job-messages/told-broker.ts'

const harness = ledgerOfTest()
let stage: ToldStage
/** What a worker does as soon as the job message is published. */
let work: (row: JobRow) => void
beforeEach(() => {
  work = () => {}
  stage = onToldBroker(harness, {
    ensureQueue: async () => 'ready',
    async publish(row) {
      work(row)
      return 'confirmed'
    },
  })
  harness.ledger.workflows.onNews((news) => followWorkflows(stage.deps, news))
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

it('followWorkflows emits job.enqueued once for a job that a workflow starts', async () => {
  expect(await told()).toEqual(['job.enqueued'])
})

it('followWorkflows emits job.enqueued before job.started, even if a worker starts during the publish', async () => {
  work = (row) => {
    stage.deps.events.emit({ type: 'job.started', job: { ...row, state: 'active', attempt: 1 } })
  }
  expect(await told()).toEqual(['job.enqueued', 'job.started'])
})

it.each<[string, (job_id: string) => Promise<unknown>, string[]]>([
  ['ACK', (job_id) => ack(stage.deps, { job_id }, CONTEXT), ['job.completed']],
  [
    'NACK',
    (job_id) => {
      const error = { code: 'e', message: 'm', retryable: false }
      return nack(stage.deps, { job_id, error }, CONTEXT)
    },
    ['job.failed', 'job.discarded', 'dead_letter.added'],
  ],
  ['CANCEL', (id) => cancel(stage.deps, id, CONTEXT), ['job.cancelled']],
])(
  'followWorkflows emits the events of a workflow after those of the job that %s ended',
  async (_, end, ends) => {
    const jobs = [{ type: 'a', args: [] }]
    const { workflow } = await createWorkflow(stage.deps, { type: 'group', jobs }, CONTEXT)
    const { steps } = workflow
    const id = steps[0]?.jobId ?? ''
    await harness.ledger.claim([jobMessage(id)], TERMS)
    await settled()
    stage.events.length = 0
    await end(id)
    await settled()
    const types = stage.events.map(({ type }) => type)
    const isGood = ends[0] === 'job.completed'
    const ofWorkflow = isGood
      ? ['workflow.step_completed', 'workflow.completed']
      : ['workflow.failed']
    expect(types).toEqual([...ends, ...ofWorkflow])
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
  const discard = { ...FAILED, to: 'discarded', isDeadLetter: true, copy: 'nack' } as const
  await failAttempt(ledger, first.id, fenceOf(first), discard)
  await ledger.complete(ids[1] ?? '', {}, { now: NOW, result: null })
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
