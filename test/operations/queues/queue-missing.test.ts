import { beforeEach, describe, expect, it } from 'vitest'
import type { EnsureOutcome } from '../../../src/broker/broker.ts'
import type { ScratchChannel } from '../../../src/broker/connection/temporary-channel.ts'
import {
  QueueIdentities,
  type QueueIdentitiesDeps,
} from '../../../src/broker/monitoring/queue-identity.ts'
import { createNames } from '../../../src/broker/names.ts'
import type { JobRow } from '../../../src/job/job.ts'
import { cancel } from '../../../src/operations/cancel.ts'
import { sendJobMessage } from '../../../src/operations/job-messages/send.ts'
import { tellOwedPauses } from '../../../src/operations/queues/pause.ts'
import {
  identityOf,
  lostWarnings,
  onQueueMissing,
  onRetryQueueMissing,
} from '../../../src/operations/queues/queue-missing.ts'
import { recoverQueue } from '../../../src/operations/queues/recover.ts'
import { NOW, pushed } from '../../ledger/harness.ts'
import { ledgerOfTest } from '../../ledger/sqlite/harness.ts'
import { eventually } from '../../support/gateway/in-process.ts'
import { SILENT } from '../../support/time/silent.ts'
import { onToldBroker, type ToldStage } from '../job-messages/told-broker.ts'

const CONTEXT = { requestId: 'req_1' }

const harness = ledgerOfTest()
let stage: ToldStage
/** How many jobs were silently acknowledged, by the last look at the queue. */
let silently: number
let unavailable: boolean
/** The broadcasts to workers, and whether RabbitMQ confirms them. */
let told: string[]
let confirms: boolean
beforeEach(async () => {
  silently = 0
  unavailable = false
  told = []
  confirms = true
  stage = onToldBroker(harness, {
    silentlyAcknowledged: () => silently,
    probeQueue: async () => 'missing',
    driftedBefore: () => null,
    broadcast: async ({ queue, type }) => {
      told.push(`${type} ${queue}`)
      return confirms ? 'confirmed' : 'refused'
    },
    recheckQueue: async (queue): Promise<EnsureOutcome> => {
      if (unavailable) return 'unavailable'
      return (await onQueueMissing(stage.deps, queue, false)) === 'declare' ? 'ready' : 'lost'
    },
  })
  await pushed(harness.ledger, { queue: 'q' })
})

const missing = () => onQueueMissing(stage.deps, 'q', false)
const recover = () => recoverQueue(stage.deps, 'q', CONTEXT)

it('a missing queue is declared again, and the relay publishes its jobs', async () => {
  expect(await missing()).toBe('declare')
  expect(stage.woken).toBe(1)
})

it('a missing queue with silent acknowledgements is left to an operator, later too', async () => {
  silently = 101
  expect(await missing()).toBe('leave')
  silently = 0
  expect(await missing()).toBe('leave')
  expect(stage.woken).toBe(0)
  expect(await recover()).toEqual({ queue: 'q', republished: 1 })
  expect(stage.woken).toBe(1)
})

it('a lost queue is left to an operator after a restart too, with the warning queue_lost', async () => {
  const nextProcess = async () => {
    await harness.reopen()
    Object.assign(stage.deps, { ledger: harness.ledger })
  }
  silently = 101
  await missing()
  silently = 0
  await nextProcess()
  expect(await missing()).toBe('leave')
  expect(lostWarnings(stage.deps)).toMatchObject([{ code: 'queue_lost', details: { queue: 'q' } }])
  await recover()
  await nextProcess()
  expect(await missing()).toBe('declare')
  expect(lostWarnings(stage.deps)).toEqual([])
})

it('a lost queue gets no job messages until it is recovered, since `recover` would publish them twice', async () => {
  const [owed] = await harness.ledger.read.outboxPage(0, 1)
  const row = async () => (await harness.ledger.read.find(owed?.id ?? '')) as JobRow
  const published: string[] = []
  const told = {
    publish: async ({ id }: { id: string }) => {
      published.push(id)
      return 'confirmed' as const
    },
    broadcast: async () => 'confirmed' as const,
  }
  Object.assign(stage.deps.broker, told)
  silently = 101
  await missing()
  expect(await sendJobMessage(stage.deps, await row())).toMatchObject({ outcome: 'refused' })
  expect(published).toEqual([])
  expect(harness.ledger.known.lost.all()).toEqual(['q'])
  // The copy of a dead letter and a cancel broadcast are still sent, since they are no job messages.
  await sendJobMessage(stage.deps, { ...(await row()), state: 'discarded' })
  expect(published.splice(0)).toEqual([(await row()).id])
  const cancelled = await cancel(stage.deps, (await row()).id, CONTEXT)
  expect(await sendJobMessage(stage.deps, { ...(await row()), outbox: 99 })).toMatchObject({
    outcome: 'confirmed',
  })
  expect(cancelled.job.state).toBe('cancelled')
  const next = await pushed(harness.ledger, { queue: 'q' })
  await recover()
  expect(harness.ledger.known.lost.all()).toEqual([])
  const sent = await sendJobMessage(stage.deps, (await harness.ledger.read.find(next.id)) as JobRow)
  expect([sent.outcome, published]).toEqual(['confirmed', [next.id]])
})

it('a missing queue counts as unwritten when it is declared, but not while it is lost', async () => {
  const { unwritten } = harness.ledger.known
  await missing()
  expect(unwritten.has('q')).toBe(true)
  await harness.ledger.unwritten.settle('q')
  silently = 101
  await missing()
  expect(unwritten.has('q')).toBe(false)
  await recover()
  expect(unwritten.has('q')).toBe(true)
})

it('a lost queue has its own identity, which an identity recorded later does not replace', async () => {
  expect(await identityOf(stage.deps, 'q')).toBeNull()
  await harness.ledger.recordIdentity('q', 'q-1')
  expect(await identityOf(stage.deps, 'q')).toBe('q-1')
  silently = 101
  await missing()
  // The broker layer set this identity before the loss, and records it only now.
  await harness.ledger.recordIdentity('q', 'q-2')
  expect(await identityOf(stage.deps, 'q')).toBe('q-lost')
  await recover()
  expect(await identityOf(stage.deps, 'q')).toBeNull()
})

it.each([true, false])(
  'the broker layer does not mark another queue with the name of a lost one (jobs: %s)',
  async (has) => {
    silently = 101
    await missing()
    const asked: string[] = []
    const gone: string[] = []
    const identities = new QueueIdentities({
      connection: { generation: 1 },
      names: createNames(''),
      logger: SILENT,
      hooks: {
        queues: {
          identityOf: (queue: string) => identityOf(stage.deps, queue),
          recordIdentity: async () => {},
        },
        jobs: { hasMessages: () => has },
      },
      readyQueues: () => ['q'],
      options: { declare: 'lazy' },
      onGone: (queue: string) => gone.push(queue),
    } as unknown as QueueIdentitiesDeps)
    const checkExchange = (name: string) => {
      asked.push(name)
      throw Object.assign(new Error(`NOT_FOUND - no exchange '${name}'`), { code: 404 })
    }
    const scratch = { run: async (work: (channel: object) => unknown) => work({ checkExchange }) }
    expect(await identities.isSame(scratch as unknown as ScratchChannel, 'q')).toBe(false)
    for (let i = 0; i < 2; i++) await identities.look(scratch as unknown as ScratchChannel)
    expect(gone).toEqual(has ? ['q', 'q'] : [])
    expect(new Set(asked)).toEqual(new Set(['ojs.system.marker.q-lost']))
  },
)

it('`recover` is refused with 409 for a queue that exists, unless it is lost', async () => {
  stage.deps.broker.probeQueue = async () => 'exists'
  await expect(recover()).rejects.toMatchObject({ status: 409 })
  silently = 101
  await missing()
  expect(await recover()).toEqual({ queue: 'q', republished: 1 })
})

it('`recover` does not cover a later loss of the queue', async () => {
  silently = 101
  await missing()
  await recover()
  expect(await missing()).toBe('leave')
  silently = 0
  await recover()
  expect(await missing()).toBe('declare')
})

it('`recover` fails with 503 while the queue is unavailable, and leaves it lost', async () => {
  silently = 101
  await missing()
  unavailable = true
  await expect(recover()).rejects.toMatchObject({ status: 503 })
  expect(await missing()).toBe('leave')
})

it('`recover` answers 404 for an unknown queue', async () => {
  await expect(recoverQueue(stage.deps, 'nobody', CONTEXT)).rejects.toMatchObject({ status: 404 })
  await harness.ledger.recordQueue('nobody', NOW)
  expect(await recoverQueue(stage.deps, 'nobody', CONTEXT)).toMatchObject({ republished: 0 })
})

it('a missing retry queue wakes the relay once for its jobs', async () => {
  const { id } = await pushed(harness.ledger, { queue: 'q' })
  await harness.plant([
    { id, state: 'retryable', attempt: 1, retryQueueMs: 500, dueAt: NOW, outbox: 0 },
  ])
  stage = onToldBroker(harness, {})
  const retryQueue = { queue: 'q', delayMs: 500 }
  await onRetryQueueMissing(stage.deps, retryQueue)
  expect(stage.woken).toBe(1)
  await onRetryQueueMissing(stage.deps, retryQueue)
  expect(stage.woken).toBe(1)
})

describe('a queue that was deleted and declared again', () => {
  const renewed = () => onQueueMissing(stage.deps, 'q', true)
  const anew = ['ojs.control.pause q', 'ojs.control.resume q']

  it('is broadcast to its workers as pause and resume, so that they consume it again', async () => {
    await missing()
    expect(told).toEqual([])
    expect(await renewed()).toBe('declare')
    expect(told).toEqual(anew)
    await tellOwedPauses(stage.deps)
    expect(told).toEqual(anew)
  })

  it('is broadcast again when RabbitMQ did not confirm the first time', async () => {
    confirms = false
    await renewed()
    confirms = true
    await eventually(() => stage.deps.transient.renewed.size === 1)
    await tellOwedPauses(stage.deps)
    expect(told).toEqual([...anew, ...anew])
    await tellOwedPauses(stage.deps)
    expect(told).toHaveLength(4)
  })

  it('is not broadcast as resumed while it is paused', async () => {
    await harness.ledger.pauses.pause('q', NOW)
    await renewed()
    expect(told).toEqual([])
    // A worker that missed the pause would ignore the resume, so both are broadcast.
    await harness.ledger.pauses.resume('q', NOW)
    await tellOwedPauses(stage.deps)
    expect(told.slice(-2)).toEqual(anew)
    expect(stage.deps.transient.renewed.size).toBe(0)
  })
})
