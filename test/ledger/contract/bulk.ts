import { describe, expect, it } from 'vitest'
import { ANY_JOB, type JobFilter } from '../../../src/job/search/filter.ts'
import type { JobAction, Steering } from '../../../src/job/steer.ts'
import type { BulkOperation, NewOperation } from '../../../src/ledger/bulk.ts'
import type { Place } from '../../../src/ledger/search.ts'
import { newJob } from '../../support/gateway/jobs.ts'
import { newGraph } from '../../support/gateway/workflows.ts'
import { died, jobMessage, NOW, pushed, settleLazily, TERMS, type UnderTest } from '../harness.ts'

const CAUSE = { requestId: 'req_bulk', principal: 'ops' }
const DEAD = { ...ANY_JOB, states: ['discarded'], isDeadLetter: true } as const
const WAITING = { ...ANY_JOB, states: ['available'] } as const
const TIMES = { now: NOW + 500, wall: NOW + 500, cause: CAUSE, maxMs: 10_000 }

const steering = (action: JobAction): Steering => ({
  ...{ action, states: [action === 'cancel' ? 'available' : 'discarded'] },
  ...{ deadLettersOnly: false, sparesRetried: false, scope: null },
})

function operation(given: Partial<NewOperation> = {}): NewOperation {
  const action = given.action ?? 'cancel'
  return {
    ...{ id: newJob().id, action, asked: '{"queue":"q"}', filter: WAITING, cause: CAUSE },
    ...{ steering: steering(action), limit: null, createdAt: NOW + 400 },
    expected: { count: 3, isBound: false },
    ...given,
  }
}

/** Operations on all jobs that match a filter: each job is met once, whatever comes between. */
export function bulkContract({ harness, ledger, row }: UnderTest): void {
  async function begun(given: Partial<NewOperation> = {}): Promise<BulkOperation> {
    const one = operation(given)
    expect(await ledger.bulk.begin(one)).toBe(true)
    return await as(one.id)
  }

  async function as(id: string): Promise<BulkOperation> {
    const found = await ledger.read.bulk.find(id)
    if (found === null) throw new Error(`no operation ${id}`)
    return found
  }

  const waiting = async (count: number) => {
    const ids: string[] = []
    for (let i = 0; i < count; i++) ids.push((await pushed(ledger, { queue: 'q' })).id)
    return ids
  }

  /** The next page of an operation, as whoever runs it finds it. */
  async function page(from: Place | null, limit: number, filter: JobFilter = WAITING) {
    return { from, ...(await ledger.read.search.ids(filter, from, limit)) }
  }

  const statesOf = (ids: readonly string[]) =>
    Promise.all(ids.map(async (id) => (await row(id)).state))

  describe('an atomic action', () => {
    const actOn = (ids: readonly string[]) =>
      ledger.bulk.act(ids, steering('cancel'), { ...TIMES, isAtomic: true })

    it('changes nothing if one job of many is refused, and tells of that one only', async () => {
      const ids = await waiting(4)
      await ledger.cancel(ids[2] ?? '', NOW)
      const refused = { did: null, id: ids[2], reason: 'cancelled', state: 'cancelled' }
      expect(await actOn(ids)).toEqual([refused])
      expect(await statesOf(ids)).toEqual(['available', 'available', 'cancelled', 'available'])
      const others = ids.filter((_, i) => i !== 2)
      expect((await actOn(others)).map(({ did }) => did)).toEqual(['cancel', 'cancel', 'cancel'])
    })
  })

  describe('an operation on ended jobs', () => {
    it('leaves those alone that have ended since it began, and counts them nowhere', async () => {
      const ids = [await died(ledger), await died(ledger)].map(({ id }) => id)
      const ended = Math.max(
        ...(await Promise.all(ids.map(row))).map(({ discardedAt }) => discardedAt ?? 0),
      )
      const until = async (endedUntil: number) => {
        const given = { ...steering('retry'), endedUntil }
        const { id } = await begun({ action: 'retry', filter: DEAD, steering: given })
        await ledger.bulk.advance(id, await page(null, 10, DEAD), TIMES)
        return await as(id)
      }
      const none = { state: 'completed', matched: 0, succeeded: 0, failed: 0, refused: [] }
      expect(await until(ended - 1)).toMatchObject(none)
      expect(await statesOf(ids)).toEqual(['discarded', 'discarded'])
      expect(await until(ended)).toMatchObject({ state: 'completed', matched: 2, succeeded: 2 })
      expect(await statesOf(ids)).toEqual(['available', 'available'])
    })
  })

  describe('the completed step of a workflow', () => {
    it.each(['retry', 'delete'] as const)('is left alone by a %s', async (action) => {
      const workflow = newGraph({ a: [], b: ['a'] })
      await ledger.workflows.create(workflow, NOW)
      const stands = await ledger.read.workflows.find(workflow.id)
      const id = stands?.steps[0]?.jobId ?? ''
      await ledger.claim([jobMessage(id)], TERMS)
      await ledger.complete(id, {}, { now: NOW + 5, result: '1' })
      ledger.messageReturned(id, 0)
      await settleLazily(ledger)
      const steer: Steering = { ...steering(action), states: ['completed'] }
      const acted = await ledger.bulk.act([id], steer, { ...TIMES, isAtomic: true })
      expect(acted).toEqual([{ did: null, id, reason: 'workflow_step', state: 'completed' }])
      expect(await row(id)).toMatchObject({ state: 'completed', generation: 0, result: '1' })
    })
  })

  describe('bulk operations', () => {
    it('are kept as they were begun, newest first, also over a restart', async () => {
      const [one, other] = [operation(), operation({ action: 'retry', filter: DEAD, limit: 7 })]
      const fresh = {
        ...{ state: 'running', place: null, matched: 0, succeeded: 0, failed: 0, refused: [] },
        ...{ hasMore: false, updatedAt: NOW + 400, endedAt: null },
      }
      await ledger.bulk.begin(one)
      await ledger.bulk.begin(other)
      const look = async () => {
        expect(await ledger.read.bulk.find(one.id)).toEqual({ ...one, ...fresh })
        const { operations, total } = await ledger.read.bulk.list({ limit: 1, offset: 0 })
        expect([operations, total]).toEqual([[{ ...other, ...fresh }], 2])
        const rest = await ledger.read.bulk.list({ limit: 5, offset: 1 })
        expect(rest.operations.map(({ id }) => id)).toEqual([one.id])
        const running = await ledger.read.bulk.running()
        expect(running.map(({ id }) => id)).toEqual([one.id, other.id])
      }
      await look()
      await harness.reopen()
      await look()
      expect(await ledger.read.bulk.find(newJob().id)).toBeNull()
    })

    it('act on page after page, and say where they are', async () => {
      const ids = await waiting(5)
      const { id } = await begun()
      const first = await ledger.bulk.advance(id, await page(null, 2), TIMES)
      expect(first?.acted.map(({ did }) => did)).toEqual(['cancel', 'cancel'])
      expect(first?.operation).toMatchObject({ state: 'running', matched: 2, succeeded: 2 })
      expect(first?.operation).toEqual(await as(id))
      expect(await statesOf(ids)).toEqual([
        ...['cancelled', 'cancelled', 'available', 'available', 'available'],
      ])
      await harness.reopen()
      const { place } = await as(id)
      const last = await ledger.bulk.advance(id, await page(place, 10), TIMES)
      expect(last?.operation).toMatchObject({
        ...{ state: 'completed', matched: 5, succeeded: 5, failed: 0, hasMore: false },
        ...{ updatedAt: TIMES.now, endedAt: TIMES.now },
      })
      expect(await ledger.read.bulk.running()).toEqual([])
      expect(new Set(await statesOf(ids))).toEqual(new Set(['cancelled']))
      expect((await ledger.read.history.find(ids[0] ?? ''))?.changes.at(-1)).toMatchObject(CAUSE)
    })

    it('meet no job twice: a page that was read before another place changes nothing', async () => {
      const jobs = [await died(ledger), await died(ledger)]
      const { id } = await begun({ action: 'retry', filter: DEAD })
      const found = await page(null, 1, DEAD)
      // Both in one commit, as by two that run the operation.
      const both = await Promise.all([
        ledger.bulk.advance(id, found, TIMES),
        ledger.bulk.advance(id, found, TIMES),
      ])
      expect(both.map((done) => done?.acted.length)).toEqual([1, undefined])
      expect(await as(id)).toMatchObject({ matched: 1, succeeded: 1, failed: 0 })
      expect((await row(jobs[0]?.id ?? '')).generation).toBe(1)
      expect(await row(jobs[1]?.id ?? '')).toEqual(jobs[1])
    })

    it('go on behind the last job for which there was time, one at least', async () => {
      const ids = await waiting(3)
      const { id } = await begun()
      // The last page: the list has an end, but not for this operation yet.
      const found = await page(null, 10)
      const done = await ledger.bulk.advance(id, found, { ...TIMES, maxMs: 0 })
      expect(done?.acted).toHaveLength(1)
      expect(done?.operation).toMatchObject({ state: 'running', matched: 1 })
      expect(done?.operation.place).toEqual(found.found[0]?.place)
      expect(await statesOf(ids)).toEqual(['cancelled', 'available', 'available'])
      const rest = await ledger.bulk.advance(id, await page((await as(id)).place, 3), TIMES)
      expect(rest?.operation).toMatchObject({ state: 'completed', matched: 3, succeeded: 3 })
    })

    it('act on as many large jobs as are in memory at once, and go on behind them', async () => {
      const envelope = JSON.stringify({ args: ['x'.repeat(9 * 1024 * 1024)] })
      const ids: string[] = []
      for (let i = 0; i < 3; i++) ids.push((await pushed(ledger, { queue: 'q', envelope })).id)
      const { id } = await begun()
      const done = await ledger.bulk.advance(id, await page(null, 10), TIMES)
      expect(done?.operation).toMatchObject({ state: 'running', matched: 2, hasMore: false })
      expect(await statesOf(ids)).toEqual(['cancelled', 'cancelled', 'available'])
      const rest = await ledger.bulk.advance(id, await page((await as(id)).place, 10), TIMES)
      expect(rest?.operation).toMatchObject({ state: 'completed', matched: 3 })
    })

    it('end at their limit, and say whether more may match', async () => {
      const ids = await waiting(4)
      const two = await begun({ limit: 2 })
      const cut = await ledger.bulk.advance(two.id, await page(null, 10), TIMES)
      expect(cut?.operation).toMatchObject({ state: 'completed', matched: 2, hasMore: true })
      expect(await statesOf(ids)).toEqual(['cancelled', 'cancelled', 'available', 'available'])
      const all = await begun({ limit: 2 })
      const exact = await ledger.bulk.advance(all.id, await page(null, 10), TIMES)
      expect(exact?.operation).toMatchObject({ state: 'completed', matched: 2, hasMore: false })
      await waiting(4)
      const pages = await begun({ limit: 3 })
      await ledger.bulk.advance(pages.id, await page(null, 2), TIMES)
      const second = await page((await as(pages.id)).place, 10)
      const more = await ledger.bulk.advance(pages.id, second, TIMES)
      expect(more?.operation).toMatchObject({ state: 'completed', matched: 3, hasMore: true })
      const last = await begun({ limit: 1 })
      await waiting(1)
      const end = await ledger.bulk.advance(last.id, await page(null, 1), TIMES)
      expect(end?.operation).toMatchObject({ state: 'completed', matched: 1, hasMore: true })
    })

    it('go on behind a page without jobs, and end with the last one', async () => {
      const [one] = await waiting(1)
      const { id } = await begun()
      const next: Place = [NOW + 7, 3]
      const none = await ledger.bulk.advance(id, { from: null, found: [], next }, TIMES)
      expect(none?.operation).toMatchObject({ state: 'running', matched: 0, place: next })
      expect(await ledger.bulk.advance(id, { from: null, found: [], next }, TIMES)).toBeNull()
      const end = { from: next, found: [], next: null }
      const done = await ledger.bulk.advance(id, end, TIMES)
      expect(done?.operation).toMatchObject({ state: 'completed', matched: 0, hasMore: false })
      expect((await row(one ?? '')).state).toBe('available')
    })

    it('name the first hundred jobs that they left alone, and why', async () => {
      const ids = await waiting(102)
      const { id } = await begun()
      const found = await page(null, 200)
      await ledger.cancel(ids[0] ?? '', NOW)
      for (const one of ids.slice(2)) await ledger.cancel(one, NOW)
      const done = await ledger.bulk.advance(id, found, TIMES)
      expect(done?.operation).toMatchObject({ matched: 102, succeeded: 1, failed: 101 })
      const { refused } = await as(id)
      expect(refused).toHaveLength(100)
      expect(refused.slice(0, 2)).toEqual([
        { id: ids[0], reason: 'cancelled' },
        { id: ids[2], reason: 'cancelled' },
      ])
    })

    it('can be stopped, and then touch nothing more', async () => {
      const ids = await waiting(3)
      const { id } = await begun()
      await ledger.bulk.advance(id, await page(null, 1), TIMES)
      const { place } = await as(id)
      const found = await page(place, 10)
      // In one commit: the stop came first.
      const [stopped, late] = await Promise.all([
        ledger.bulk.stop(id, NOW + 600),
        ledger.bulk.advance(id, found, TIMES),
      ])
      const end = { state: 'stopped', hasMore: true, updatedAt: NOW + 600, endedAt: NOW + 600 }
      expect(stopped).toMatchObject({ ...end, matched: 1, place })
      expect(late).toBeNull()
      expect(await ledger.read.bulk.running()).toEqual([])
      expect(await statesOf(ids)).toEqual(['cancelled', 'available', 'available'])
      expect(await ledger.bulk.stop(id, NOW + 900)).toEqual(stopped)
      await harness.reopen()
      expect(await as(id)).toEqual(stopped)
    })

    it('that have ended stay as they are when they are stopped; unknown ones are null', async () => {
      const { id } = await begun()
      const done = await ledger.bulk.advance(id, await page(null, 1), TIMES)
      expect(done?.operation.state).toBe('completed')
      expect(await ledger.bulk.stop(id, NOW + 900)).toEqual(done?.operation)
      expect(await ledger.bulk.stop(newJob().id, NOW)).toBeNull()
      const nowhere = { from: null, found: [], next: null }
      expect(await ledger.bulk.advance(newJob().id, nowhere, TIMES)).toBeNull()
    })

    it('are refused while a hundred run; the thousand that ended last are kept', async () => {
      const ids: string[] = []
      for (let round = 0; round < 11; round++) {
        const hundred = Array.from({ length: 100 }, () => operation())
        await Promise.all(hundred.map((one) => ledger.bulk.begin(one)))
        expect(await ledger.bulk.begin(operation())).toBe(false)
        ids.push(...hundred.map(({ id }) => id))
        await Promise.all(hundred.map(({ id }) => ledger.bulk.stop(id, NOW + 600)))
      }
      expect((await ledger.read.bulk.list({ limit: 1, offset: 0 })).total).toBe(1_100)
      const last = await begun()
      expect((await ledger.read.bulk.list({ limit: 1, offset: 0 })).total).toBe(1_001)
      expect(await ledger.read.bulk.find(ids[99] ?? '')).toBeNull()
      expect(await ledger.read.bulk.find(ids[100] ?? '')).not.toBeNull()
      expect(await ledger.read.bulk.find(last.id)).not.toBeNull()
    })
  })
}
