import fc from 'fast-check'
import { beforeEach, describe, expect, it } from 'vitest'
import { OjsError } from '../../../src/errors.ts'
import { isHeldByKey } from '../../../src/job/concurrency.ts'
import { isTerminal, type JobRow, type NewJob } from '../../../src/job/job.ts'
import type { ReportedEvent, Said } from '../../../src/job/native/report.ts'
import { compare } from '../../../src/job/values/canonical-json.ts'
import type { KeyNews } from '../../../src/ledger/concurrency.ts'
import type { Ledger } from '../../../src/ledger/ledger.ts'
import { newJob } from '../../support/gateway/jobs.ts'
import {
  askedBy,
  FAILED,
  failAttempt,
  fenceOf,
  giveBack,
  insertedOf,
  jobMessage,
  type LedgerHarness,
  NOW,
  pushed,
  revive,
  rowOf,
  settleLazily,
  TERMS,
  type UnderTest,
} from '../harness.ts'
import { eventOf, REPORT } from './reports.ts'

const of = (limit: number, given: Partial<NewJob> = {}, key = 'k'): Partial<NewJob> => ({
  carry: { concurrency: { key, limit } },
  ...given,
})

/** Concurrency keys: how many jobs of a key are active at once, and who is next. */
export function concurrencyContract({ harness, ledger, row, runs }: UnderTest): void {
  let news: KeyNews[] = []
  const listen = () => {
    news = []
    ledger.concurrency.onNews((one) => news.push(one))
  }
  const push = async (limit = 1, given: Partial<NewJob> = {}, key = 'k') =>
    (await pushed(ledger, of(limit, given, key))).id
  const isHeld = async (id: string) => isHeldByKey(await row(id))
  const released = () => news.flatMap((one) => one.released.map(({ id }) => id))
  const claim = async (id: string, attempt = 1, given: Parameters<typeof jobMessage>[1] = {}) => {
    const [result] = await ledger.claim([jobMessage(id, { attempt, ...given })], TERMS)
    return result?.verdict
  }
  const running = async (limit = 1, given: Partial<NewJob> = {}) => {
    const id = await push(limit, given)
    expect(await claim(id)).toBe('claimed')
    return id
  }
  const complete = (id: string) => ledger.complete(id, {}, { now: NOW + 1, result: null })

  beforeEach(listen)

  describe('keys, as a list shows them', () => {
    const standing = async (key: string) =>
      (await ledger.read.concurrency.standings([key])).get(key)

    it('are those of active and of available jobs, in their order', async () => {
      expect(await ledger.read.concurrency.keys('', 10)).toEqual([])
      expect(await ledger.read.concurrency.standings(['k'])).toEqual(new Map())
      const running = await push(1, {}, 'b')
      expect(await claim(running)).toBe('claimed')
      await push(1, {}, 'ä')
      await push(1, {}, 'a')
      await push(1, { queue: 'other' }, 'c')
      // The second of each is held back; both lists have it.
      await push(1, {}, 'b')
      await push(1, {}, 'a')
      expect(await ledger.read.concurrency.keys('', 10)).toEqual(['a', 'b', 'c', 'ä'])
      expect(await ledger.read.concurrency.keys('a', 2)).toEqual(['b', 'c'])
      await ledger.cancel(await push(1, {}, 'd'), NOW)
      expect(await ledger.read.concurrency.keys('c', 10)).toEqual(['ä'])
      const both = await ledger.read.concurrency.standings(['c', 'd', 'b'])
      expect([...both.keys()].toSorted(compare)).toEqual(['b', 'c'])
    })

    it('have the limit of whoever is next, and count those that run and those that are held back', async () => {
      const first = await push(2)
      expect(await standing('k')).toEqual({ limit: 2, active: 0, waiting: 0 })
      expect(await claim(first)).toBe('claimed')
      expect(await standing('k')).toEqual({ limit: 2, active: 1, waiting: 0 })
      await push(2)
      await push(1, { priority: 5 })
      await push(3)
      // The one of priority 5 is next.
      expect(await standing('k')).toEqual({ limit: 1, active: 1, waiting: 2 })
      await complete(first)
      expect(await standing('k')).toMatchObject({ active: 0 })
    })
  })

  describe('a job whose key has as many messages in its queue as it has room', () => {
    it('is held back, and owes no message', async () => {
      const first = insertedOf(await ledger.insert(newJob(of(1)), NOW))
      const second = insertedOf(await ledger.insert(newJob(of(1)), NOW))
      expect(first).toMatchObject({ isHeld: false, outbox: expect.any(Number) })
      expect(second).toMatchObject({ isHeld: true, outbox: null })
      expect(news).toEqual([{ held: ['default'], released: [] }])
      expect(ledger.known).toMatchObject({})
      expect(ledger.known.held('default')).toBe(1)
      expect(ledger.known.claimable('default')).toBe(1)
      expect(ledger.known.counts('default').available).toBe(2)
    })

    it('does not wait for jobs of other keys, nor of none', async () => {
      await push(1)
      expect(await isHeld(await push(1, {}, 'other'))).toBe(false)
      expect((await row((await pushed(ledger)).id)).outbox).not.toBeNull()
    })

    it('goes with 99 others at most at once; a review lets the rest go', async () => {
      const first = await running(1)
      const blocking = await push(1, { priority: 9 })
      const jobs = Array.from({ length: 130 }, () => newJob(of(1_000)))
      await ledger.insertAll(jobs, NOW)
      expect(ledger.known.held('default')).toBe(131)
      await complete(first)
      expect(released()).toHaveLength(100)
      expect(released()[0]).toBe(blocking)
      expect(ledger.known.held('default')).toBe(31)
      await ledger.concurrency.review('', 10)
      expect(ledger.known.held('default')).toBe(0)
      expect(new Set(released())).toEqual(new Set([blocking, ...jobs.map(({ id }) => id)]))
    })

    it('is held back behind 256 of them, whatever the limit, and goes when one of them starts', async () => {
      const jobs = Array.from({ length: 260 }, () => newJob(of(10_000)))
      await ledger.insertAll(jobs, NOW)
      expect(ledger.known.held('default')).toBe(4)
      const ids = jobs.map(({ id }) => id)
      const some = ids.slice(0, 3).map((id) => jobMessage(id))
      await ledger.claim(some, TERMS)
      expect(released()).toEqual(ids.slice(256, 259))
      expect(ledger.known.held('default')).toBe(1)
    })

    it('is held back in a batch too, and the batch can be withdrawn', async () => {
      const jobs = [newJob(of(2)), newJob(of(2)), newJob(of(2))]
      const all = await ledger.insertAll(jobs, NOW)
      if (all.outcome !== 'inserted') throw new Error(all.outcome)
      expect(all.stored.map((one) => 'isHeld' in one && one.isHeld)).toEqual([false, false, true])
      expect(await ledger.withdrawAll(jobs.map(({ id }) => ({ id, generation: 0 })))).toEqual([])
      expect(ledger.known.held('default')).toBe(0)
      expect(await isHeld(await push())).toBe(false)
    })

    it('waits in a line for each queue, so that no queue waits for a consumer of another', async () => {
      const first = await push(1, { queue: 'idle' })
      const other = await push(1, { queue: 'busy' })
      expect(await isHeld(other)).toBe(false)
      expect(await claim(other)).toBe('claimed')
      expect(await claim(first)).toBe('held')
      const next = await push(1, { queue: 'busy' })
      expect(await isHeld(next)).toBe(true)
      await complete(other)
      expect(new Set(released())).toEqual(new Set([first, next]))
    })

    it('is let go when the job before it is withdrawn', async () => {
      const first = await pushed(ledger, of(1))
      const second = await push()
      expect(await ledger.withdraw(first.id, first.outbox)).toBe(true)
      expect(released()).toEqual([second])
      expect(await row(second)).toMatchObject({ holder: null, outbox: expect.any(Number) })
    })

    it('is let go when the job before it is cancelled while it waits', async () => {
      const first = await push()
      const second = await push()
      await ledger.cancel(first, NOW)
      expect(released()).toEqual([second])
    })
  })

  describe('a claim', () => {
    it('starts as many jobs as the limit allows, in one transaction as well', async () => {
      const ids = [await push(2, { queue: 'a' }), await push(2, { queue: 'b' })]
      ids.push(await push(2, { queue: 'c' }), await push(2, { queue: 'd' }))
      const results = await ledger.claim(
        ids.map((id) => jobMessage(id)),
        TERMS,
      )
      expect(results.map(({ verdict }) => verdict)).toEqual(['claimed', 'claimed', 'held', 'held'])
      expect(await ledger.read.concurrency.active('k')).toBe(2)
    })

    it('tests each job with its own limit', async () => {
      await running(3)
      const strict = await push(1, { queue: 'a' })
      const loose = await push(3, { queue: 'b' })
      expect(await claim(strict)).toBe('held')
      expect(await claim(loose)).toBe('claimed')
    })

    it('holds a job back without its attempt, and with the errors of attempts that nobody reported', async () => {
      const waits = await push(1, { queue: 'a' })
      await running(1)
      expect(await claim(waits, 3)).toBe('held')
      expect(await row(waits)).toMatchObject({ state: 'available', attempt: 2, holder: 'ledger' })
      expect(JSON.parse((await row(waits)).errors ?? '[]')).toHaveLength(2)
    })

    it('knows that the message of a held job is back, once that is said', async () => {
      const waits = await push(1, { queue: 'a' })
      await running(1)
      expect(await claim(waits)).toBe('held')
      expect(await row(waits)).toMatchObject({ messageOut: true })
      ledger.messageReturned(waits, 0, 1)
      await settleLazily(ledger)
      expect(await row(waits)).toMatchObject({ messageOut: false })
      await ledger.cancel(waits, NOW)
      expect(await row(waits)).toMatchObject({ messageOut: false, outbox: null })
    })

    it('starts a held job whose message comes once more when there is room', async () => {
      const waits = await push(2, { queue: 'a' })
      const [one, two] = [await running(2), await running(2)]
      expect(await claim(waits)).toBe('held')
      await complete(one)
      await complete(two)
      expect(await claim(waits)).toBe('claimed')
      expect(ledger.known.held('a')).toBe(0)
    })

    it('that holds a job back is news, no change of state, and lets one before it go that may start', async () => {
      const strict = await push(1)
      const other = await push(1, { queue: 'b' })
      expect(await claim(other)).toBe('claimed')
      // Behind the message of the strict one, of which it does not know that it may not start.
      const before = await push(2, { priority: 9 })
      expect(await isHeld(before)).toBe(true)
      listen()
      expect(await claim(strict)).toBe('held')
      expect(news.flatMap(({ held }) => held)).toEqual(['default'])
      expect(released()).toEqual([before])
      expect((await ledger.read.history.find(strict))?.changes).toHaveLength(1)
    })

    it('holds back a due retry, and a due schedule, that come before the promoter', async () => {
      const retried = await running(2)
      const terms = { dueAt: NOW, delayMs: 1, retryQueueMs: 1_000, isMessageBack: true }
      await failAttempt(ledger, retried, fenceOf(await row(retried)), {
        ...FAILED,
        to: 'retryable',
        ...terms,
      })
      await running(1, { queue: 'b' })
      const strict = await push(1, { start: { state: 'scheduled', dueAt: NOW } })
      expect(await claim(strict)).toBe('held')
      expect(await claim(retried, 2)).toBe('claimed')
      expect(await row(strict)).toMatchObject({ state: 'available', attempt: 0, dueAt: null })
      expect(ledger.known.counts('default').scheduled).toBe(0)
    })
  })

  describe('when a job of the key ends', () => {
    const ends: [string, (id: string) => Promise<unknown>][] = [
      ['ACK', complete],
      ['CANCEL', (id) => ledger.cancel(id, NOW)],
      [
        'NACK with a retry',
        async (id) =>
          failAttempt(ledger, id, fenceOf(await row(id)), {
            ...{ ...FAILED, to: 'retryable', dueAt: NOW + 9_000, delayMs: 9_000 },
            ...{ retryQueueMs: 9_000, isMessageBack: true },
          }),
      ],
      [
        'the last NACK',
        async (id) =>
          failAttempt(ledger, id, fenceOf(await row(id)), {
            ...{ ...FAILED, to: 'discarded', isDeadLetter: true, copy: 'nack' },
          }),
      ],
      [
        'a report of its end',
        (id) =>
          ledger.applyReports(
            [eventOf(id, { event: 'completed', result: null }, { workerId: 'worker-1' })],
            REPORT,
          ),
      ],
      ['a purge', (id) => ledger.purge([id], { states: ['active'], now: NOW })],
    ]
    it.each(ends)('%s lets the next one go', async (_, end) => {
      const first = await running()
      const second = await push()
      expect(await isHeld(second)).toBe(true)
      listen()
      await end(first)
      expect(released()).toEqual([second])
      expect(await ledger.read.concurrency.active('k')).toBe(0)
      expect(await claim(second)).toBe('claimed')
    })

    it('the highest priority goes first, then whoever waits longest', async () => {
      const first = await running()
      const [low, high, next] = [
        await push(1, { priority: -1 }),
        await push(1, { priority: 5 }),
        await push(1, { priority: 5 }),
      ]
      await complete(first)
      expect(released()).toEqual([high])
      expect(await claim(high)).toBe('claimed')
      await complete(high)
      expect(await claim(next)).toBe('claimed')
      await complete(next)
      expect(released()).toEqual([high, next, low])
    })

    it('lets go only as many as have room, and those that are on their way count', async () => {
      const active = [await running(2), await running(2)]
      const waiting = [await push(2), await push(2), await push(2)]
      await complete(active[0] ?? '')
      await complete(active[1] ?? '')
      expect(released()).toEqual(waiting.slice(0, 2))
      expect(ledger.known.held('default')).toBe(1)
    })
  })

  describe('a job that goes back', () => {
    it('is held back behind those that waited longer, if its lease ran out', async () => {
      const first = await running(1)
      const urgent = await push(1, { priority: 9 })
      const end = { ...FAILED, to: 'available' } as const
      const job = await failAttempt(ledger, first, fenceOf(await row(first)), end)
      expect(job).toMatchObject({ state: 'available', holder: 'ledger', outbox: null })
      expect(released()).toEqual([urgent])
      await ledger.cancel(urgent, NOW)
      expect(released()).toEqual([urgent, first])
    })

    it('owes its message at once if it is the first', async () => {
      const first = await running(1)
      await push(1)
      const fence = { generation: 0, attempt: 1, messageAttempt: null, now: NOW }
      expect(await giveBack(ledger, first, fence)).toMatchObject({
        holder: null,
        outbox: expect.any(Number),
      })
      expect(released()).toEqual([])
    })

    it('makes room for another queue when its message goes back', async () => {
      const first = await running(1)
      const other = await push(1, { queue: 'other' })
      expect(await claim(other)).toBe('held')
      const fence = { generation: 0, attempt: 1, messageAttempt: 1, now: NOW }
      expect(await giveBack(ledger, first, fence)).toMatchObject({ holder: null, outbox: null })
      expect(released()).toEqual([other])
    })
  })

  describe('a job that becomes available', () => {
    it('is held back when it is due', async () => {
      await running(1)
      const id = await push(1, { start: { state: 'scheduled', dueAt: NOW } })
      const [job] = await ledger.promote(NOW, NOW, 10)
      expect(job).toMatchObject({ id, state: 'available', holder: 'ledger', outbox: null })
    })

    it('is held back when it is activated', async () => {
      await running(1)
      const id = await push(1, { start: { state: 'pending', dueAt: null } })
      expect(await ledger.activate(id, NOW, NOW)).toMatchObject({ holder: 'ledger', outbox: null })
    })

    it('is held back when a dead letter is retried', async () => {
      const dead = await running(1)
      const end = { ...FAILED, to: 'discarded', isDeadLetter: true, copy: 'nack' } as const
      await failAttempt(ledger, dead, fenceOf(await row(dead)), end)
      await running(1)
      expect(await revive(ledger, dead, NOW)).toMatchObject({ holder: 'ledger', outbox: null })
    })

    it('is held back when an operator retries it', async () => {
      const done = await running(1)
      await complete(done)
      expect(await isHeld(await push(1))).toBe(false)
    })
  })

  it('keeps its lines and counts over a restart', async () => {
    const first = await running(1)
    const second = await push(1)
    await harness.reopen()
    listen()
    expect(await ledger.read.concurrency.active('k')).toBe(1)
    expect(ledger.known.held('default')).toBe(1)
    await complete(first)
    expect(released()).toEqual([second])
  })

  it('an expired job that is held back is discarded', async () => {
    await running(1)
    const id = await push(1, { expiresAt: NOW + 5 })
    const [expired] = await ledger.expire({ now: NOW + 6, wall: NOW + 6, limit: 10 })
    expect(expired?.job).toMatchObject({ id, state: 'discarded' })
    expect(ledger.known.held('default')).toBe(0)
  })

  it('jobs of one line that expire together let none of them go, and are counted once', async () => {
    for (let i = 0; i < 4; i++) await push(1, { expiresAt: NOW + 5 })
    const next = await push(1)
    listen()
    expect(await ledger.expire({ now: NOW + 6, wall: NOW + 6, limit: 10 })).toHaveLength(4)
    expect(ledger.known.counts('default')).toMatchObject({ discarded: 4, available: 1 })
    expect(ledger.known.held('default')).toBe(0)
    expect(released().at(-1)).toBe(next)
    expect(await isHeld(next)).toBe(false)
  })

  it('a queue that is lost gives no message to jobs that are held back', async () => {
    const first = await push(1)
    const second = await push(1)
    expect(await ledger.rearm('default', NOW)).toBe(1)
    expect(await isHeld(second)).toBe(true)
    expect(await isHeld(first)).toBe(false)
  })

  it('a start that a native worker reports counts, whatever the limit', async () => {
    const first = await running(1)
    const second = await push(1, { queue: 'native' })
    const said: Said = { event: 'started' }
    const started: ReportedEvent = eventOf(second, said)
    expect(await ledger.applyReports([started], REPORT)).toMatchObject([{ outcome: 'started' }])
    expect(await ledger.read.concurrency.active('k')).toBe(2)
    const third = await push(1)
    await complete(first)
    expect(await isHeld(third)).toBe(true)
  })

  it('a review lets go whom no write let go', async () => {
    const first = await push(1)
    const second = await push(1)
    await harness.plant([{ id: first, state: 'cancelled', outbox: null }])
    listen()
    expect(await ledger.concurrency.review('', 10)).toBeNull()
    expect(released()).toEqual([second])
    expect(await ledger.concurrency.review('', 10)).toBeNull()
    expect(released()).toEqual([second])
  })

  it('a review goes on where it stopped', async () => {
    for (const key of ['a', 'b', 'c']) {
      await push(1, {}, key)
      await push(1, {}, key)
    }
    expect(await ledger.concurrency.review('', 2)).toBe('b')
    expect(await ledger.concurrency.review('b', 2)).toBeNull()
  })

  describe('a claim by a native worker', () => {
    const ask = (
      id: string,
      given: Parameters<typeof askedBy>[2] = {},
    ): ReturnType<typeof ledger.claimNative> =>
      ledger.claimNative(askedBy('native-1', { id }, { isKeyed: true, ...given }), {
        ...{ now: NOW, wall: NOW, workerId: 'native-1', defaultLeaseMs: 30_000 },
      })
    const claimNative = async (id: string, given: { attempt?: number } = {}) =>
      await ask(id, { attempt: (await row(id)).attempt + 1, ...given })

    it('begins the attempt, which takes a place', async () => {
      const id = await push(1)
      expect(await claimNative(id)).toMatchObject({
        ...{ decision: 'run', attempt: 1, isBegun: true },
        start: { job: await row(id), promoted: false },
      })
      expect(await row(id)).toMatchObject({
        ...{ state: 'active', attempt: 1, holder: 'native', workerId: 'native-1', outbox: null },
        leaseExpiresAt: NOW + 30_000,
      })
      expect(await ledger.read.concurrency.active('k')).toBe(1)
      const started = eventOf(id, { event: 'started' })
      expect(await ledger.applyReports([started], REPORT)).toEqual([{ outcome: 'ignored' }])
      const done = eventOf(id, { event: 'completed', result: null })
      expect(await ledger.applyReports([done], REPORT)).toMatchObject([{ outcome: 'completed' }])
      expect(await ledger.read.concurrency.active('k')).toBe(0)
    })

    it('holds the job back if there is no place', async () => {
      await running(1)
      const id = await push(1, { queue: 'native' })
      expect(await claimNative(id, { attempt: 2 })).toEqual({ decision: 'drop', attempt: 2 })
      const held = { state: 'available', holder: 'ledger', attempt: 1, messageOut: false }
      expect(await row(id)).toMatchObject(held)
      expect(ledger.known.held('native')).toBe(1)
    })

    it('takes no second place for a job that runs already, as far as the row says', async () => {
      const id = await push(1)
      await claimNative(id)
      const again = await claimNative(id)
      expect(again).toMatchObject({ attempt: 2, start: { job: { attempt: 2 } } })
      expect(await ledger.read.concurrency.active('k')).toBe(1)
    })

    it('answers a question again as it was answered, and begins nothing', async () => {
      const id = await push(1)
      await claimNative(id)
      const begun = await row(id)
      const again = await ask(id, { isAgain: true })
      expect(again).toMatchObject({ decision: 'run', attempt: 1, isBegun: true, start: null })
      expect(await row(id)).toEqual(begun)
      // It is not for another worker.
      const other = askedBy('native-2', { id }, { isKeyed: true, isAgain: true })
      const terms = { now: NOW, wall: NOW, workerId: 'native-2', defaultLeaseMs: 30_000 }
      expect(await ledger.claimNative(other, terms)).toEqual({ decision: 'drop', attempt: 1 })
    })

    it('begins one attempt when two workers ask at once', async () => {
      const [first, second] = [await push(1), await push(1)]
      const answers = await Promise.all([ask(first), ask(second)])
      expect(answers.map(({ decision }) => decision)).toEqual(['run', 'drop'])
      expect(await ledger.read.concurrency.active('k')).toBe(1)
    })

    it('begins nothing for a worker that knows no keys', async () => {
      const id = await push(1)
      const before = await row(id)
      const plain = await ask(id, { isKeyed: false })
      expect(plain).toMatchObject({ decision: 'run', isBegun: false, start: null })
      expect(await row(id)).toEqual(before)
    })

    it('lets the line of another queue go when the job waits for its worker’s message again', async () => {
      const id = await push(1, { queue: 'native' })
      await claimNative(id)
      const other = await push(1)
      expect(await isHeld(other)).toBe(true)
      const lost = { ...FAILED, to: 'available' } as const
      await failAttempt(ledger, id, fenceOf(await row(id)), lost)
      expect(released()).toEqual([other])
    })

    describe('begins nothing for a worker that asks too late about a message', () => {
      const ask = (id: string, workerId: string) =>
        ledger.claimNative(askedBy(workerId, { id }, { isKeyed: true }), TERMS)

      it('that another worker was told to drop', async () => {
        const id = await push(4)
        await claimNative(id)
        expect(await ask(id, 'native-2')).toEqual({ decision: 'drop', attempt: 1 })
        const before = await row(id)
        expect(before).toMatchObject({ state: 'active', holder: 'ledger', attempt: 1 })
        expect(await ask(id, 'native-1')).toEqual({ decision: 'drop', attempt: 1 })
        expect(await row(id)).toEqual(before)
      })

      it('whose successor the ledger is about to publish', async () => {
        const id = await push(4)
        await claimNative(id)
        await ask(id, 'native-2')
        const said: Said = { event: 'released', messageAttempt: 1 }
        await ledger.applyReports([eventOf(id, said)], REPORT)
        const before = await row(id)
        expect(before).toMatchObject({ state: 'available', outbox: expect.any(Number) })
        expect(await ask(id, 'native-1')).toEqual({ decision: 'requeue', attempt: 1 })
        expect(await row(id)).toEqual(before)
      })

      it('of a job that the ledger holds back', async () => {
        const id = await push(4)
        await harness.plant([{ id, holder: 'ledger' }])
        expect(await ask(id, 'native-1')).toEqual({ decision: 'drop', attempt: 1 })
        expect(await row(id)).toMatchObject({ state: 'available', attempt: 0 })
      })
    })

    it('leaves the key in the list of keys when the job waits for its worker’s message again', async () => {
      const id = await push(4)
      await claimNative(id)
      const lost = { ...FAILED, to: 'available' } as const
      await failAttempt(ledger, id, fenceOf(await row(id)), lost)
      expect(await row(id)).toMatchObject({ state: 'available', holder: 'native' })
      expect(await ledger.read.concurrency.keys('', 9)).toEqual(['k'])
      const found = await ledger.read.concurrency.standings(['k'])
      expect(found.get('k')).toEqual({ limit: 4, active: 0, waiting: 0 })
    })

    it('frees the place when the worker gives the job back', async () => {
      const id = await push(1)
      await claimNative(id)
      const next = await push(1)
      const said: Said = { event: 'released', messageAttempt: 1 }
      expect(await ledger.applyReports([eventOf(id, said)], REPORT)).toMatchObject([
        { outcome: 'released' },
      ])
      expect(await ledger.read.concurrency.active('k')).toBe(0)
      // Its message goes back to the queue, so it is the one that is on its way.
      expect(await isHeld(next)).toBe(true)
    })

    it('adopts a job that was published natively, unless it is none or was cancelled', async () => {
      const job = newJob(of(1))
      expect(await ask(job.id)).toMatchObject({ decision: 'run', isBegun: false })
      expect(await ask(job.id, { adopt: () => job })).toMatchObject({
        start: { job: { attempt: 1 } },
      })
      expect(await ledger.read.concurrency.active('k')).toBe(1)
      const invalid = newJob().id
      const adopt = () => {
        throw new OjsError('invalid_request', 'no job')
      }
      expect(await ask(invalid, { adopt })).toEqual({ decision: 'discard', attempt: 1 })
      const cancelled = newJob(of(1))
      await ledger.cancelAny(cancelled.id, 'default', NOW)
      expect(await ask(cancelled.id, { adopt: () => cancelled })).toMatchObject({
        decision: 'drop',
      })
      expect(await ledger.read.find(cancelled.id)).toBeNull()
    })
  })

  describe('any sequence of moves', () => {
    const MOVES = [
      ...['push', 'push', 'push', 'batch', 'deliver', 'deliver', 'deliver', 'ack', 'ack'],
      ...['retry', 'expire', 'overdue', 'cancel', 'release', 'promote', 'native', 'reopen'],
    ] as const
    const step = fc.record({
      move: fc.constantFrom(...MOVES),
      pick: fc.nat(1_000),
      key: fc.constantFrom('a', 'b'),
      limit: fc.constantFrom(1, 1, 2, 3),
      queue: fc.constantFrom('x', 'y', 'z'),
      priority: fc.constantFrom(0, 0, 5),
    })

    it('never starts too many, leaves no place empty while a line waits, and lets every job end', async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
          const lines = new Lines(harness)
          for (const one of steps) await lines.play(one)
          await lines.drain()
        }),
        { numRuns: runs(100) },
      )
    })
  })
}

interface Step {
  move: string
  pick: number
  key: string
  limit: number
  queue: string
  priority: number
}

interface Sent {
  id: string
  attempt: number
}

/** Jobs of a few keys in a few queues, and the messages of them that RabbitMQ has. */
class Lines {
  readonly #harness: LedgerHarness
  /** In every run another one, as all runs share the ledger. */
  readonly #run = newJob().id
  readonly #ids: string[] = []
  #messages: Sent[] = []
  #now = NOW

  constructor(harness: LedgerHarness) {
    this.#harness = harness
  }

  get #ledger(): Ledger {
    return this.#harness.ledger
  }

  async play(step: Step): Promise<void> {
    this.#now += 10
    await this.#move(step)
    await this.#publish()
    await this.#check()
  }

  /** Delivers and ends until all jobs have ended. */
  async drain(): Promise<void> {
    const step = { pick: 0, key: 'a', limit: 1, queue: 'x', priority: 0 }
    for (let round = 0; (await this.#live()).length > 0; round++) {
      expect(round).toBeLessThan(300)
      for (const move of ['overdue', 'promote', 'deliver', 'ack'])
        await this.play({ ...step, move })
    }
  }

  async #move(step: Step): Promise<void> {
    const { move, pick } = step

    const live = await this.#live()
    const among = (state: string) => {
      const found = live.filter((job) => job.state === state)
      return found[pick % Math.max(1, found.length)]
    }
    const active = among('active')
    switch (move) {
      case 'push':
      case 'batch': {
        const jobs = Array.from({ length: move === 'push' ? 1 : 3 }, () => this.#job(step))
        await this.#ledger.insertAll(jobs, this.#now)
        this.#ids.push(...jobs.map(({ id }) => id))
        return
      }
      case 'deliver':
        return await this.#deliver(pick)
      case 'native': {
        const at = pick % Math.max(1, this.#messages.length)
        const sent = this.#messages[at]
        const job = live.find(({ id, attempt }) => id === sent?.id && attempt + 1 === sent.attempt)
        // A message that is not for a claim stays where it is.
        if (sent === undefined || job === undefined || job.state === 'active') return
        this.#messages.splice(at, 1)
        const { id, generation } = job
        const message = { id, generation, attempt: sent.attempt }
        const question = askedBy('native-1', message, { isKeyed: true })
        const terms = { ...TERMS, now: this.#now, wall: this.#now, workerId: 'native-1' }
        await this.#ledger.claimNative(question, terms)
        return
      }
      case 'ack':
        if (active) await this.#ledger.complete(active.id, {}, { now: this.#now, result: null })
        return
      case 'retry':
        if (!active) return
        await failAttempt(this.#ledger, active.id, fenceOf(active), {
          ...{ ...FAILED, to: 'retryable', dueAt: this.#now + 5, delayMs: 5 },
          ...{ retryQueueMs: null, isMessageBack: true },
        })
        return
      case 'expire':
        if (active)
          await failAttempt(this.#ledger, active.id, fenceOf(active), {
            ...FAILED,
            to: 'available',
          })
        if (active?.holder === 'native')
          this.#messages.push({ id: active.id, attempt: active.attempt })
        return
      case 'release': {
        if (active?.holder !== 'gateway') return
        const { id, generation, attempt } = active
        const fence = { generation, attempt, messageAttempt: attempt, now: this.#now }
        await giveBack(this.#ledger, id, fence)
        this.#messages.push({ id, attempt })
        return
      }
      case 'cancel': {
        const some = live[pick % Math.max(1, live.length)]
        if (some) await this.#ledger.cancel(some.id, this.#now)
        return
      }
      case 'overdue':
        await this.#ledger.expire({ now: this.#now, wall: this.#now + pick, limit: 100 })
        return
      case 'promote':
        await this.#ledger.promote(this.#now, this.#now, 100)
        return
      case 'reopen':
        return await this.#harness.reopen()
    }
  }

  #job({ key, limit, queue, priority, pick }: Step): NewJob {
    const concurrency = { key: `${key} ${this.#run}`, limit }
    const expiresAt = pick % 3 === 0 ? this.#now + pick : null
    return newJob({ queue, priority, expiresAt, maxAttempts: 1_000, carry: { concurrency } })
  }

  async #deliver(pick: number): Promise<void> {
    const [sent] = this.#messages.splice(pick % Math.max(1, this.#messages.length), 1)
    if (sent === undefined) return
    const { id, attempt } = sent
    const terms = { ...TERMS, now: this.#now, wall: this.#now }
    const [result] = await this.#ledger.claim([jobMessage(id, { attempt })], terms)
    if (result?.verdict === 'held') this.#ledger.messageReturned(id, 0, attempt)
    await settleLazily(this.#ledger)
  }

  async #publish(): Promise<void> {
    for (const { id, state, outbox, attempt } of await this.#live()) {
      if (state !== 'available' || outbox === null) continue
      this.#messages.push({ id, attempt: attempt + 1 })
      this.#ledger.confirmed(outbox)
    }
    await settleLazily(this.#ledger)
  }

  async #live(): Promise<JobRow[]> {
    const rows = await Promise.all(this.#ids.map((id) => rowOf(this.#ledger, id)))
    return rows.filter(({ state }) => !isTerminal(state))
  }

  async #check(): Promise<void> {
    const live = await this.#live()
    for (const name of ['a', 'b']) {
      const key = `${name} ${this.#run}`
      const jobs = live.filter(({ carry }) => carry?.concurrency?.key === key)
      const active = jobs.filter(({ state }) => state === 'active')
      expect(await this.#ledger.read.concurrency.active(key)).toBe(active.length)
      // No claim begins a job beyond its own limit. (Others of a higher limit may have begun after it.)
      const most = Math.max(0, ...active.map((job) => job.carry?.concurrency?.limit ?? 0))
      expect(active.length).toBeLessThanOrEqual(most)
      for (const queue of ['x', 'y', 'z']) this.#checkLine(jobs, queue, active.length)
    }
  }

  /** A line waits only while as many of it are on their way as its first may start beside the active ones. */
  #checkLine(jobs: readonly JobRow[], queue: string, active: number): void {
    const waiting = jobs.filter((job) => job.queue === queue && job.state === 'available')
    const [first] = waiting
      .filter(isHeldByKey)
      .sort((a, b) => b.priority - a.priority || a.enqueuedAt - b.enqueuedAt)
    if (first === undefined) return
    const onTheirWay = waiting.filter(({ holder }) => holder === null).length
    const limits = waiting
      .filter(
        ({ priority, enqueuedAt }) =>
          priority === first.priority && enqueuedAt === first.enqueuedAt,
      )
      .map(({ carry }) => carry?.concurrency?.limit ?? 0)
    expect(onTheirWay).toBeGreaterThanOrEqual(Math.min(...limits) - active)
  }
}
