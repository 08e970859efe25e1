import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { EnsureOutcome } from '../../src/broker/broker.ts'
import { createNames } from '../../src/broker/names.ts'
import { QueueMarkers, type QueueMarkersDeps } from '../../src/broker/queue-markers.ts'
import type { ScratchChannel } from '../../src/broker/scratch-channel.ts'
import type { JobRow } from '../../src/job/job.ts'
import { cancel } from '../../src/operations/cancel.ts'
import { tellOwedPauses } from '../../src/operations/pause.ts'
import {
  lostWarnings,
  markerOf,
  onQueueMissing,
  onRungMissing,
} from '../../src/operations/queue-missing.ts'
import { recoverQueue } from '../../src/operations/recover.ts'
import { sendToken } from '../../src/operations/token/send-token.ts'
import { NOW, pushed } from '../ledger/harness.ts'
import { openSqliteHarness, SILENT, type SqliteHarness } from '../ledger/sqlite-harness.ts'
import { eventually } from '../support/in-process.ts'
import { onToldBroker, type ToldStage } from './told-broker.ts'

const CONTEXT = { requestId: 'req_1' }

let harness: SqliteHarness
let stage: ToldStage
/** What the last look at the queue has told. */
let silently: number
let unavailable: boolean
/** What workers were told, and whether RabbitMQ takes it. */
let told: string[]
let confirms: boolean
beforeEach(async () => {
  harness = await openSqliteHarness()
  silently = 0
  unavailable = false
  told = []
  confirms = true
  stage = onToldBroker(harness, {
    silentlyAcknowledged: () => silently,
    probeQueue: async () => 'missing',
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
afterEach(() => harness.destroy())

const missing = () => onQueueMissing(stage.deps, 'q', false)
const recover = () => recoverQueue(stage.deps, 'q', CONTEXT)

it('a queue that is gone is declared, with its jobs in it', async () => {
  expect(await missing()).toBe('declare')
  expect(stage.woken).toBe(1)
})

it('one whose jobs may have run is left to an operator, once its last look is old too', async () => {
  silently = 101
  expect(await missing()).toBe('leave')
  silently = 0
  expect(await missing()).toBe('leave')
  expect(stage.woken).toBe(0)
  expect(await recover()).toEqual({ queue: 'q', republished: 1 })
  expect(stage.woken).toBe(1)
})

it('it is left to an operator by the next process too, which has not seen it', async () => {
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

it('nothing goes into another queue of its name meanwhile: `recover` would publish it twice', async () => {
  const [owed] = harness.ledger.outboxPage(0, 1)
  const row = () => harness.ledger.find(owed?.id ?? '') as JobRow
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
  expect(await sendToken(stage.deps, row())).toMatchObject({ outcome: 'refused' })
  expect(published).toEqual([])
  expect(harness.ledger.lost.all()).toEqual(['q'])
  // What is no token goes: the copy of a dead letter, and to workers a cancel.
  await sendToken(stage.deps, { ...row(), state: 'discarded' })
  expect(published.splice(0)).toEqual([row().id])
  const cancelled = await cancel(stage.deps, row().id, CONTEXT)
  expect(await sendToken(stage.deps, { ...row(), outbox: 99 })).toMatchObject({
    outcome: 'confirmed',
  })
  expect(cancelled.job.state).toBe('cancelled')
  const next = await pushed(harness.ledger, { queue: 'q' })
  await recover()
  expect(harness.ledger.lost.all()).toEqual([])
  const sent = await sendToken(stage.deps, harness.ledger.find(next.id) as JobRow)
  expect([sent.outcome, published]).toEqual(['confirmed', [next.id]])
})

it('is new to RabbitMQ when it is declared, and not where it is left to an operator', async () => {
  const { unwritten } = harness.ledger
  await missing()
  expect(unwritten.has('q')).toBe(true)
  await unwritten.settle('q')
  silently = 101
  await missing()
  expect(unwritten.has('q')).toBe(false)
  await recover()
  expect(unwritten.has('q')).toBe(true)
})

it('another of its name is never taken for it, whatever was bound to either', async () => {
  expect(markerOf(stage.deps, 'q')).toBeNull()
  await harness.ledger.recordMarker('q', 'q-1')
  expect(markerOf(stage.deps, 'q')).toBe('q-1')
  silently = 101
  await missing()
  // One that the broker layer had set before, and records now.
  await harness.ledger.recordMarker('q', 'q-2')
  expect(markerOf(stage.deps, 'q')).toBe('q-lost')
  await recover()
  expect(markerOf(stage.deps, 'q')).toBeNull()
})

it.each([true, false])(
  'the broker layer does not mark another in its place (jobs: %s)',
  async (has) => {
    silently = 101
    await missing()
    const asked: string[] = []
    const gone: string[] = []
    const markers = new QueueMarkers({
      connection: { generation: 1 },
      names: createNames(''),
      logger: SILENT,
      hooks: {
        markerOf: (queue: string) => markerOf(stage.deps, queue),
        onMarked: async () => {},
        hasTokens: () => has,
      },
      readyQueues: () => ['q'],
      options: { declare: 'lazy' },
      onGone: (queue: string) => gone.push(queue),
    } as unknown as QueueMarkersDeps)
    const checkExchange = (name: string) => {
      asked.push(name)
      throw Object.assign(new Error(`NOT_FOUND - no exchange '${name}'`), { code: 404 })
    }
    const scratch = { run: async (work: (channel: object) => unknown) => work({ checkExchange }) }
    expect(await markers.isSame(scratch as unknown as ScratchChannel, 'q')).toBe(false)
    for (let i = 0; i < 2; i++) await markers.look(scratch as unknown as ScratchChannel)
    expect(gone).toEqual(has ? ['q', 'q'] : [])
    expect(new Set(asked)).toEqual(new Set(['ojs.system.marker.q-lost']))
  },
)

it('it may be recovered also when another of its name is there, and no other may', async () => {
  stage.deps.broker.probeQueue = async () => 'exists'
  await expect(recover()).rejects.toMatchObject({ status: 409 })
  silently = 101
  await missing()
  expect(await recover()).toEqual({ queue: 'q', republished: 1 })
})

it('an operator speaks of one time only', async () => {
  silently = 101
  await missing()
  await recover()
  expect(await missing()).toBe('leave')
  silently = 0
  await recover()
  expect(await missing()).toBe('declare')
})

it('what an operator could not have now is to be asked for again', async () => {
  silently = 101
  await missing()
  unavailable = true
  await expect(recover()).rejects.toMatchObject({ status: 503 })
  expect(await missing()).toBe('leave')
})

it('a queue that nobody knows cannot be recovered', async () => {
  await expect(recoverQueue(stage.deps, 'nobody', CONTEXT)).rejects.toMatchObject({ status: 404 })
  await harness.ledger.recordQueue('nobody', NOW)
  expect(await recoverQueue(stage.deps, 'nobody', CONTEXT)).toMatchObject({ republished: 0 })
})

it('the jobs of a retry queue that is gone are looked for by the relay, once', async () => {
  const { id } = await pushed(harness.ledger, { queue: 'q' })
  await harness.plant([{ id, state: 'retryable', attempt: 1, rungMs: 500, dueAt: NOW, outbox: 0 }])
  stage = onToldBroker(harness, {})
  const rung = { queue: 'q', delayMs: 500 }
  await onRungMissing(stage.deps, rung)
  expect(stage.woken).toBe(1)
  await onRungMissing(stage.deps, rung)
  expect(stage.woken).toBe(1)
})

describe('another queue in its place', () => {
  const renewed = () => onQueueMissing(stage.deps, 'q', true)
  const anew = ['ojs.control.pause q', 'ojs.control.resume q']

  it('is consumed anew by its workers, whom RabbitMQ may have told nothing', async () => {
    await missing()
    expect(told).toEqual([])
    expect(await renewed()).toBe('declare')
    expect(told).toEqual(anew)
    await tellOwedPauses(stage.deps)
    expect(told).toEqual(anew)
  })

  it('is told of again where the broker did not take it', async () => {
    confirms = false
    await renewed()
    confirms = true
    await eventually(() => stage.deps.transient.renewed.size === 1)
    await tellOwedPauses(stage.deps)
    expect(told).toEqual([...anew, ...anew])
    await tellOwedPauses(stage.deps)
    expect(told).toHaveLength(4)
  })

  it('is not resumed where it is paused', async () => {
    await harness.ledger.pauses.pause('q', NOW)
    await renewed()
    expect(told).toEqual([])
    // Who has not heard of the pause would take the resume for nothing.
    await harness.ledger.pauses.resume('q', NOW)
    await tellOwedPauses(stage.deps)
    expect(told.slice(-2)).toEqual(anew)
    expect(stage.deps.transient.renewed.size).toBe(0)
  })
})
