import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { PublishOutcome } from '../../src/broker/broker.ts'
import type { JobRow } from '../../src/job/job.ts'
import { isStale } from '../../src/job/stale.ts'
import { cancel } from '../../src/operations/cancel.ts'
import type { Deps } from '../../src/operations/deps.ts'
import { push } from '../../src/operations/enqueue/push.ts'
import { sendThenSettle } from '../../src/operations/lease/lease-end.ts'
import { type Relay, relay } from '../../src/services/relay.ts'
import {
  FAILED,
  failAttempt,
  fetched,
  NOW,
  pushed,
  rowOf,
  settleLazily,
} from '../ledger/harness.ts'
import { ledgerOfTest } from '../ledger/sqlite/harness.ts'
import { onToldBroker } from '../operations/job-messages/told-broker.ts'
import { eventually } from '../support/gateway/in-process.ts'

const DELAY_MS = 125
const PERIOD_MS = 30_000

const harness = ledgerOfTest()
let deps: Deps
let outbox: Relay
let publishes: ((outcome: PublishOutcome) => void)[]
/** The ids of what was published, in order. */
let ids: string[]
let broadcasts: ((outcome: PublishOutcome) => void)[]
let isUp: boolean
let now: number
beforeEach(async () => {
  publishes = []
  ids = []
  broadcasts = []
  isUp = true
  now = NOW
  const publish = ({ id }: JobRow) => {
    ids.push(id)
    return new Promise<PublishOutcome>((resolve) => publishes.push(resolve))
  }
  const broadcast = () => new Promise<PublishOutcome>((resolve) => broadcasts.push(resolve))
  const status = () => ({ state: isUp ? ('up' as const) : ('blocked' as const), reason: 'memory' })
  const stage = onToldBroker(harness, { publish, broadcast, status })
  const clock = { now: () => now, wall: () => now }
  deps = { ...stage.deps, clock, wakeRelay: (what) => outbox.wake(what) }
  outbox = relay(deps)
  await outbox.start()
})
afterEach(async () => {
  await outbox.stop(AbortSignal.timeout(1_000))
})

/** Lets the relay read the outbox to its last page. */
async function looked(): Promise<void> {
  const pages = vi.spyOn(harness.ledger.read, 'outboxPage')
  outbox.wake()
  await eventually(() => {
    const last = pages.mock.settledResults.at(-1)
    return last?.type === 'fulfilled' && last.value.length === 0
  })
  pages.mockRestore()
}

/** A retry that became due while the publish into its retry queue was not confirmed yet. */
async function dueOnTheWay(): Promise<{ isSent: Promise<void> }> {
  const { ledger } = harness
  const { id } = await fetched(ledger)
  const record = { now: NOW, error: null, errors: null, isMessageBack: true }
  const wait = { dueAt: NOW + DELAY_MS, delayMs: DELAY_MS, retryQueueMs: DELAY_MS }
  const fence = { generation: 0, attempt: 1 }
  const row = await failAttempt(ledger, id, fence, { ...record, ...wait, to: 'retryable' })
  if (isStale(row)) throw new Error('the job is leased')
  const isSent = sendThenSettle(deps, row, undefined)
  await ledger.promote(NOW + DELAY_MS, NOW, 10)
  return { isSent }
}

/** The confirm of a short retry queue may take longer than its delay. */
it('the relay publishes no second job message of a retry that was due before its publish was confirmed', async () => {
  const { ledger } = harness
  const { isSent } = await dueOnTheWay()
  await looked()
  publishes[0]?.('confirmed')
  await isSent
  await looked()
  await settleLazily(ledger)
  await looked()
  expect([publishes.length, await ledger.read.outboxPage(0, 1)]).toEqual([1, []])
})

/** A retry queue without a leader does not confirm, and the job is due long before that is known. */
it('the relay publishes a retry that became due during a publish into its retry queue which failed', async () => {
  const { isSent } = await dueOnTheWay()
  await looked()
  expect(publishes).toHaveLength(1)
  publishes[0]?.('unknown')
  await isSent
  await eventually(() => publishes.length === 2)
  publishes[1]?.('confirmed')
})

it('the relay does not publish a job message that PUSH was sending and that is confirmed since', async () => {
  const pushed = push(deps, { type: 'a', args: [] }, { requestId: 'req_1' })
  await eventually(() => publishes.length === 1)
  await looked()
  publishes[0]?.('confirmed')
  const { job } = await pushed
  // The row owes the job message until the confirm is committed.
  expect((await harness.ledger.read.find(job.id))?.outbox).toBe(job.outbox)
  await looked()
  expect(publishes).toHaveLength(1)
})

describe('the relay', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }))
  afterEach(() => void vi.useRealTimers())

  /** Resolves when nothing is left to run without a timer. */
  async function settled(): Promise<void> {
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve))
  }

  async function woken(what?: 'all'): Promise<void> {
    outbox.wake(what)
    await settled()
  }

  /** Ends the last publish with this outcome. */
  async function answered(outcome: PublishOutcome): Promise<void> {
    publishes.at(-1)?.(outcome)
    await settled()
  }

  it('repeats a refused publish after one second, and publishes later job messages after it', async () => {
    const first = await pushed(harness.ledger)
    await woken()
    await answered('nacked')
    const second = await pushed(harness.ledger)
    await woken()
    expect(ids).toEqual([first.id])
    await vi.advanceTimersByTimeAsync(1_000)
    await settled()
    expect(ids).toEqual([first.id, first.id])
    await answered('confirmed')
    expect(ids).toEqual([first.id, first.id, second.id])
    await answered('confirmed')
  })

  it('repeats a refused publish at once when RabbitMQ is back', async () => {
    const { id } = await pushed(harness.ledger)
    await woken()
    await answered('unknown')
    await woken('all')
    expect(ids).toEqual([id, id])
    await answered('confirmed')
  })

  it('publishes the job messages of a queue although its dead letters cannot be published', async () => {
    const { id: dead } = await fetched(harness.ledger)
    const change = { ...FAILED, to: 'discarded', isDeadLetter: true, copy: 'publish' } as const
    await failAttempt(harness.ledger, dead, { generation: 0, attempt: 1 }, change)
    await woken()
    await answered('unknown')
    const { id } = await pushed(harness.ledger)
    await woken()
    expect(ids).toEqual([dead, id])
    await answered('confirmed')
  })

  it('reads the whole outbox every 30 s, since the commit of a confirm may fail', async () => {
    const { id } = await pushed(harness.ledger)
    vi.spyOn(harness.ledger.read, 'owed').mockResolvedValueOnce([])
    await woken()
    now += PERIOD_MS - 1
    await woken()
    expect(ids).toEqual([])
    now += 1
    await woken()
    expect(ids).toEqual([id])
    await answered('confirmed')
  })

  it('reads the whole outbox at once when RabbitMQ is back', async () => {
    const { id } = await pushed(harness.ledger)
    vi.spyOn(harness.ledger.read, 'owed').mockResolvedValueOnce([])
    await woken()
    await woken('all')
    expect(ids).toEqual([id])
    await answered('confirmed')
  })

  it('publishes nothing while RabbitMQ takes no publishes', async () => {
    const { id } = await pushed(harness.ledger)
    isUp = false
    await woken('all')
    expect(ids).toEqual([])
    isUp = true
    await woken()
    expect(ids).toEqual([id])
    await answered('confirmed')
  })

  it('publishes what was owed when it started', async () => {
    const { id } = await pushed(harness.ledger)
    const another = relay(deps)
    await another.start()
    await settled()
    expect(ids).toEqual([id])
    await answered('confirmed')
    await another.stop(AbortSignal.abort())
  })

  it('does not publish a schedule that the ledger holds, since its job message would come too early', async () => {
    await pushed(harness.ledger, { start: { state: 'scheduled', dueAt: NOW + 3_600_000 } })
    // The state after FETCH took a job message that came an hour early.
    harness.db.exec('UPDATE jobs SET outbox = 1')
    await woken()
    expect(ids).toEqual([])
  })

  it('publishes a job message soon after another publish of it ended without success', async () => {
    const { id } = await pushed(harness.ledger)
    deps.jobMessages.sending.add(id)
    await woken()
    expect(ids).toEqual([])
    deps.jobMessages.sending.delete(id)
    await expect.poll(() => ids).toEqual([id])
  })

  it('looks only once at a job message that another publish has sent', async () => {
    const { id, outbox: nonce } = await pushed(harness.ledger)
    deps.jobMessages.sending.add(id)
    await woken()
    harness.ledger.confirmed(nonce)
    await settleLazily(harness.ledger)
    deps.jobMessages.sending.delete(id)
    const reads = vi.spyOn(harness.ledger.read, 'owed')
    for (let i = 0; i < 3; i++) await woken()
    expect(reads).toHaveBeenCalledTimes(1)
    expect(ids).toEqual([])
  })

  it('reads the rows of what it sends together at once', async () => {
    const jobs = await Promise.all(Array.from({ length: 300 }, () => pushed(harness.ledger)))
    const reads = vi.spyOn(harness.ledger.read, 'owed')
    await woken()
    for (const end of publishes.splice(0)) end('confirmed')
    await settled()
    expect(ids).toEqual(jobs.map(({ id }) => id))
    expect(reads.mock.calls.map(([nonces]) => nonces.length)).toEqual([256, 44])
    for (const end of publishes) end('confirmed')
  })

  it('does not publish the job message of a job that is cancelled while its row is read', async () => {
    const { ledger } = harness
    const { id, outbox: nonce } = await pushed(ledger)
    const [row] = await ledger.read.owed([nonce])
    let answer = (_: JobRow[]) => {}
    const answered = new Promise<JobRow[]>((resolve) => {
      answer = resolve
    })
    vi.spyOn(ledger.read, 'owed').mockReturnValueOnce(answered)
    await woken()
    await cancel(deps, id, { requestId: 'req_1' })
    await settleLazily(ledger)
    // Its message may be published yet, as far as the operation knows.
    expect(await rowOf(ledger, id)).toMatchObject({ state: 'cancelled', messageOut: true })
    answer(row === undefined ? [] : [row])
    await settled()
    await settleLazily(ledger)
    expect(ids).toEqual([])
    expect(await rowOf(ledger, id)).toMatchObject({ messageOut: false })
  })

  it('tries again when rows cannot be read', async () => {
    const { id } = await pushed(harness.ledger)
    vi.spyOn(harness.ledger.read, 'owed').mockRejectedValueOnce(new Error('away'))
    await woken()
    expect(ids).toEqual([])
    await vi.advanceTimersByTimeAsync(1_000)
    await settled()
    expect(ids).toEqual([id])
    await answered('confirmed')
  })

  it('does not publish a job message that is confirmed before its turn', async () => {
    const jobs = await Promise.all(Array.from({ length: 257 }, () => pushed(harness.ledger)))
    await woken()
    const last = jobs.find(({ id }) => !ids.includes(id))
    harness.ledger.confirmed(last?.outbox ?? 0)
    await settleLazily(harness.ledger)
    for (const end of publishes) end('confirmed')
    await settled()
    expect(ids).toHaveLength(256)
  })

  it('repeats the broadcast of a pause, one at a time, until it is confirmed', async () => {
    await harness.ledger.pauses.pause('default', NOW)
    for (const outcome of ['unknown', 'confirmed'] as const) {
      for (let i = 0; i < 3; i++) await woken()
      expect(broadcasts).toHaveLength(1)
      broadcasts.pop()?.(outcome)
      await settled()
      await settleLazily(harness.ledger)
    }
    await woken()
    expect(broadcasts).toEqual([])
  })

  it('warns once that a job is too large for RabbitMQ, and publishes the next', async () => {
    const warn = vi.spyOn(deps.logger, 'warn')
    const large = await pushed(harness.ledger)
    const next = await pushed(harness.ledger)
    for (let i = 0; i < 2; i++) {
      publishes.splice(0)
      await woken('all')
      publishes[0]?.('too-large')
      publishes[1]?.('confirmed')
      await settled()
      await settleLazily(harness.ledger)
    }
    expect(ids).toEqual([large.id, next.id, large.id])
    const told = warn.mock.calls.map(([fields]) => fields)
    warn.mockRestore()
    expect(told).toEqual([{ jobId: large.id, queue: 'default' }])
  })

  it('reports for how long a queue is stuck', async () => {
    await pushed(harness.ledger)
    await woken()
    now += 60_000
    expect([...outbox.stuck()]).toEqual([])
    await answered('nacked')
    now += 5_000
    expect([...outbox.stuck()]).toEqual([['default', 5_000]])
    await woken('all')
    await answered('confirmed')
    expect([...outbox.stuck()]).toEqual([])
  })

  it('logs a stuck queue once after 10 s, and once more when it moves again', async () => {
    const [warn, info] = [vi.spyOn(deps.logger, 'warn'), vi.spyOn(deps.logger, 'info')]
    await pushed(harness.ledger)
    for (const ms of [0, 1_000, 8_999, 1, 60_000]) {
      now += ms
      await woken('all')
      await answered('nacked')
    }
    await woken('all')
    await answered('confirmed')
    const told = [warn, info].map(({ mock }) =>
      mock.calls.filter(([, message]) => message.startsWith('RabbitMQ accepts')),
    )
    warn.mockRestore()
    info.mockRestore()
    expect(told).toEqual([
      [
        [
          { queue: 'default', state: 'available', forMs: 10_000 },
          'RabbitMQ accepts none of the messages owed to a queue',
        ],
      ],
      [
        [
          { queue: 'default', state: 'available' },
          'RabbitMQ accepts the messages owed to a queue again',
        ],
      ],
    ])
  })

  it('reports a queue as stuck until a minute after one of its jobs was last too large', async () => {
    await pushed(harness.ledger)
    await woken()
    await answered('too-large')
    now += 30_000
    await woken()
    await answered('too-large')
    expect([...outbox.stuck()]).toEqual([['default', 30_000]])
    now += 61_000
    expect([...outbox.stuck()]).toEqual([])
  })

  it('stops at once when no publish is under way', async () => {
    const { id } = await pushed(harness.ledger)
    await woken()
    await answered('confirmed')
    await outbox.stop(new AbortController().signal)
    expect(ids).toEqual([id])
  })

  it('begins no publish once it is stopped, and waits for those under way', async () => {
    await Promise.all(Array.from({ length: 300 }, () => pushed(harness.ledger)))
    await woken()
    expect(ids).toHaveLength(256)
    let isStopped = false
    const stopping = outbox.stop(new AbortController().signal).then(() => {
      isStopped = true
    })
    for (const end of publishes.slice(1)) end('confirmed')
    await settled()
    expect([isStopped, ids.length]).toEqual([false, 256])
    publishes[0]?.('confirmed')
    await stopping
    expect(ids).toHaveLength(256)
  })
})
