import { beforeEach, describe, expect, it } from 'vitest'
import { isHeldByKey } from '../../../src/job/concurrency.ts'
import type { Carry, JobRow } from '../../../src/job/job.ts'
import { ANY_JOB, type JobFilter } from '../../../src/job/search/filter.ts'
import { MAX_COMPARED, MAX_COMPARED_AT_ONCE } from '../../../src/ledger/lists/limits.ts'
import type { JobOrder, PageEnd, Place, SearchPage } from '../../../src/ledger/search.ts'
import { newJob } from '../../support/gateway/jobs.ts'
import { newGraph } from '../../support/gateway/workflows.ts'
import {
  deleteDeadLetter,
  FAILED,
  failAttempt,
  fenceOf,
  jobMessage,
  NOW,
  settleLazily,
  TERMS,
  type UnderTest,
} from '../harness.ts'

const FIRST: SearchPage = {
  order: 'created_at',
  isAscending: false,
  after: null,
  offset: 0,
  limit: 100,
  isWhole: false,
}

const failed = (code: string) => ({
  ...FAILED,
  error: JSON.stringify({ code, type: code.replace('e', 'T'), message: 'm' }),
})

const filterOf = (given: Partial<JobFilter>): JobFilter => ({ ...ANY_JOB, ...given })
const exact = (text: string) => ({ text, isPrefix: false })
const prefix = (text: string) => ({ text, isPrefix: true })
const span = (from: number | null, until: number | null) => ({ from, until })
const texts = (given: Partial<JobFilter['text']>) => ({ ...ANY_JOB.text, ...given })

/** What each filter means, said again in the simplest way. */
const MEANINGS: [string, Partial<JobFilter>, (job: JobRow) => boolean][] = [
  ['nothing', {}, () => true],
  ['a state', { states: ['active'] }, ({ state }) => state === 'active'],
  [
    'two states',
    { states: ['discarded', 'available', 'available'] },
    ({ state }) => state === 'discarded' || state === 'available',
  ],
  ['a queue', { queues: ['a'] }, ({ queue }) => queue === 'a'],
  ['two queues', { queues: ['b', 'a', 'nowhere'] }, ({ queue }) => queue !== 'c'],
  ['a type', { types: [exact('mail.send')] }, ({ type }) => type === 'mail.send'],
  ['a prefix', { types: [prefix('mail.')] }, ({ type }) => type.startsWith('mail.')],
  [
    'a prefix, a longer one, and a type below it',
    { types: [prefix('mail.s'), prefix('mail.'), exact('mail.send'), exact('mailing')] },
    ({ type }) => type.startsWith('mail'),
  ],
  [
    'state, queue and type',
    { states: ['available'], queues: ['a', 'b'], types: [exact('mail.send'), exact('report')] },
    ({ state, queue, type }) =>
      state === 'available' && queue !== 'c' && ['mail.send', 'report'].includes(type),
  ],
  [
    'creation',
    { created: span(NOW + 10, NOW + 30) },
    ({ createdAt }) => createdAt >= NOW + 10 && createdAt < NOW + 30,
  ],
  [
    'creation and type',
    { created: span(null, NOW + 30), types: [prefix('m')] },
    ({ createdAt, type }) => createdAt < NOW + 30 && type.startsWith('m'),
  ],
  [
    'the queue’s time',
    { enqueued: span(NOW + 30, null) },
    ({ enqueuedAt }) => enqueuedAt >= NOW + 30,
  ],
  [
    'the end',
    { ended: span(NOW + 200, null) },
    ({ completedAt, cancelledAt, discardedAt }) =>
      (completedAt ?? cancelledAt ?? discardedAt ?? 0) >= NOW + 200,
  ],
  ['a worker', { workerId: 'w2' }, ({ workerId }) => workerId === 'w2'],
  [
    'a worker’s active jobs',
    { workerId: 'w1', states: ['active'] },
    ({ workerId, state }) => workerId === 'w1' && state === 'active',
  ],
  ['an error', { errorCode: 'e1' }, ({ error }) => error?.includes('"e1"') ?? false],
  [
    'an error of discarded jobs',
    { errorCode: 'e1', states: ['discarded'], queues: ['a'] },
    ({ error, state, queue }) =>
      state === 'discarded' && queue === 'a' && (error?.includes('"e1"') ?? false),
  ],
  [
    'a type of error',
    { text: texts({ errorType: 'T2' }) },
    ({ error }) => error?.includes('"T2"') ?? false,
  ],
  [
    'a priority',
    { priority: 2, queues: ['a', 'c'] },
    (job) => job.priority === 2 && job.queue !== 'b',
  ],
  ['jobs held back', { isHeld: true }, isHeldByKey],
  [
    'jobs not held back, and a state',
    { isHeld: false, states: ['available'], queues: ['c'] },
    (job) => job.state === 'available' && job.queue === 'c' && !isHeldByKey(job),
  ],
  [
    'a tag',
    { text: texts({ tags: ['urgent'] }) },
    ({ carry }) => carry?.tags?.includes('urgent') ?? false,
  ],
  [
    'two tags',
    { text: texts({ tags: ['urgent', 'eu'] }), queues: ['a'] },
    ({ carry, queue }) => carry?.tags?.length === 2 && queue === 'a',
  ],
  [
    'meta',
    { text: texts({ meta: [{ name: 'tenant', value: '3' }] }) },
    ({ envelope }) => /"tenant": ?"?3/.test(envelope),
  ],
  [
    'args',
    { text: texts({ args: [{ to: 'ada' }] }) },
    ({ envelope }) => envelope.includes('ada') || envelope.includes('\\u0061da'),
  ],
  [
    'args without a text',
    { text: texts({ args: [7] }) },
    ({ envelope }) => envelope.includes(',7]'),
  ],
]

function carryOf(i: number): Carry | null {
  const tags = [...(i % 6 === 0 ? ['urgent'] : []), ...(i % 4 === 0 ? ['eu'] : [])]
  const carry: Carry = {}
  if (tags.length > 0) carry.tags = tags
  if (i % 9 === 5) carry.concurrency = { key: 'k', limit: 1 }
  return Object.keys(carry).length > 0 ? carry : null
}

/** Finding jobs. */
export function searchContract({ harness, ledger, row, plant }: UnderTest): void {
  const ids: string[] = []
  const rows = () => Promise.all(ids.map(row))

  const push = async (i: number): Promise<string> => {
    const queue = ['a', 'b', 'c'][i % 3] ?? ''
    const type = ['mail.send', 'mail.read', 'mailing', 'report'][i % 4] ?? ''
    const to = i % 5 === 0 ? 'ada' : 'eve'
    const envelope =
      i % 10 === 0
        ? `{ "args" : [ { "to" : "\\u0061da" } ,7], "meta": { "tenant": "3" , "x":"tenant"} }`
        : JSON.stringify({ args: [{ to, n: i }, ...(i % 4 ? [] : [7])], meta: { tenant: i % 5 } })
    const job = newJob({
      ...{ queue, type, priority: i % 3, createdAt: NOW + Math.floor(i / 2), envelope },
      carry: carryOf(i),
      ...(i % 11 === 0 && { start: { state: 'scheduled', dueAt: NOW + 1_000 - i } as const }),
      ...(i % 13 === 1 && { start: { state: 'pending', dueAt: null } as const }),
    })
    // Some come into their queue long after they were created, and have ranges of their own.
    await ledger.insert(job, NOW + i + (i % 7 === 3 ? 5_000 : 0))
    ids.push(job.id)
    return job.id
  }

  const live = async (id: string, i: number): Promise<void> => {
    const workerId = `w${i % 3}`
    const [claimed] = await ledger.claim([jobMessage(id)], { ...TERMS, workerId })
    if (claimed?.verdict !== 'claimed') return
    const end = { ...failed(`e${1 + (i % 2)}`), now: NOW + 100 + i * 5 }
    const fence = fenceOf(claimed.job)
    if (i % 5 === 0) await ledger.complete(id, {}, { now: end.now, result: null })
    if (i % 5 === 1) {
      await failAttempt(ledger, id, fence, {
        ...end,
        to: 'discarded',
        isDeadLetter: true,
        copy: 'nack',
      })
    }
    if (i % 5 === 2) await ledger.cancel(id, end.now)
    // The messages of some have come back.
    if (i % 2 === 0) ledger.messageReturned(id, 0)
  }

  const found = async (filter: JobFilter, page: Partial<SearchPage> = {}): Promise<string[]> => {
    const { jobs } = await ledger.read.search.page(filter, { ...FIRST, ...page })
    return jobs.map(({ id }) => id)
  }

  /** All pages of `limit` jobs, each after the place that the one before told. */
  const walked = async (filter: JobFilter, page: Partial<SearchPage>): Promise<string[]> => {
    const all: string[] = []
    let after: PageEnd | null = null
    do {
      const part = await ledger.read.search.page(filter, { ...FIRST, ...page, after })
      all.push(...part.jobs.map(({ id }) => id))
      after = part.next
    } while (after !== null)
    return all
  }

  describe('search', () => {
    beforeEach(async () => {
      ids.length = 0
      for (let i = 0; i < 60; i++) await push(i)
      for (const [i, id] of ids.entries()) if (i % 2 === 0) await live(id, i / 2)
      await settleLazily(ledger)
    })

    it.each(MEANINGS)(
      'finds the jobs of a filter by %s, in both directions',
      async (_, given, is) => {
        const filter = filterOf(given)
        const wanted = (await rows()).filter(is)
        expect(wanted.length, 'the test has such jobs').toBeGreaterThan(0)
        // Arrival is the order of equal times.
        const oldestFirst = wanted.map(({ id }) => id)
        const newestFirst = oldestFirst.toReversed()
        expect(await found(filter)).toEqual(newestFirst)
        expect(await found(filter, { isAscending: true })).toEqual(oldestFirst)
        expect(await walked(filter, { limit: 2 })).toEqual(newestFirst)
        expect(await walked(filter, { limit: 3, isAscending: true })).toEqual(oldestFirst)
        expect(await found(filter, { offset: 1, limit: 4 })).toEqual(newestFirst.slice(1, 5))
        expect(await ledger.read.search.count(filter, 1_000)).toEqual({
          count: wanted.length,
          isBound: false,
        })
        const all: string[] = []
        let after: Place | null = null
        do {
          const page = await ledger.read.search.ids(filter, after, 2)
          all.push(...page.found.map(({ id }) => id))
          after = page.next
        } while (after !== null)
        expect(all).toEqual(oldestFirst)
      },
    )

    it('finds the same after a restart', async () => {
      await harness.reopen()
      expect(await found(ANY_JOB)).toEqual(ids.toReversed())
    })

    it('counts dead letters among the states that are asked for', async () => {
      const dead = (states: JobFilter['states']) =>
        ledger.read.search.count(filterOf({ isDeadLetter: true, states }), 1_000)
      const { count } = await dead([])
      expect(count).toBe(ledger.known.deadLetterCount())
      expect(count).toBeGreaterThan(0)
      expect(await dead(['available', 'discarded'])).toMatchObject({ count })
      expect(await dead(['available', 'completed'])).toEqual({ count: 0, isBound: false })
    })

    it('counts up to a bound where counts are not kept', async () => {
      const mail = filterOf({ types: [prefix('mail')] })
      expect(await ledger.read.search.count(mail, 3)).toEqual({ count: 3, isBound: true })
      const worker = filterOf({ workerId: 'w1' })
      expect(await ledger.read.search.count(worker, 1)).toEqual({ count: 1, isBound: true })
    })

    it('finds jobs by their ids', async () => {
      const some = [ids[3] ?? '', ids[1] ?? '', ids[2] ?? '', ids[1] ?? '', 'nobody']
      expect(await found(filterOf({ ids: some }))).toEqual([ids[3], ids[2], ids[1]])
      expect(await found(filterOf({ ids: some, queues: ['a'] }))).toEqual([ids[3]])
    })

    it.each<[JobOrder, (job: JobRow) => number]>([
      ['priority', ({ priority }) => priority],
      [
        'updated_at',
        ({ completedAt, cancelledAt, discardedAt, ...job }) => {
          const started = Math.max(job.enqueuedAt, job.startedAt ?? 0)
          return completedAt ?? cancelledAt ?? discardedAt ?? started
        },
      ],
      ['created_at', ({ createdAt }) => createdAt],
    ])('orders jobs by %s, and equal ones by their arrival', async (order, value) => {
      const sorted = (await rows())
        .map((job, i) => ({ id: job.id, value: value(job), i }))
        .sort((a, b) => a.value - b.value || a.i - b.i)
        .map(({ id }) => id)
      expect(await found(ANY_JOB, { order, isAscending: true })).toEqual(sorted)
      expect(await walked(ANY_JOB, { order, limit: 7 })).toEqual(sorted.toReversed())
    })

    it('orders jobs by their due time, and those without one come last', async () => {
      const due = (await rows())
        .filter(({ state }) => state === 'scheduled')
        .sort((a, b) => (a.dueAt ?? 0) - (b.dueAt ?? 0))
        .map(({ id }) => id)
      expect(due.length).toBeGreaterThan(3)
      const order = 'scheduled_at'
      for (const filter of [
        filterOf({ states: ['scheduled'] }),
        filterOf({ states: ['scheduled', 'retryable'] }),
      ]) {
        expect(await walked(filter, { order, isAscending: true, limit: 2 })).toEqual(due)
        expect(await walked(filter, { order, limit: 2 })).toEqual(due.toReversed())
      }
      const ofA = new Set(await found(filterOf({ queues: ['a'] })))
      const own = due.filter((id) => ofA.has(id))
      const scheduled = filterOf({ states: ['scheduled'], queues: ['a'] })
      expect(await found(scheduled, { order, isAscending: true })).toEqual(own)
      const withOthers = await found(filterOf({ queues: ['a'] }), { order, isAscending: true })
      expect(withOthers.slice(0, own.length)).toEqual(own)
      expect(withOthers).toHaveLength(ofA.size)
      const backwards = await found(filterOf({ queues: ['a'] }), { order })
      expect(backwards.slice(0, own.length)).toEqual(own.toReversed())
    })

    it('follows each change of a job', async () => {
      const { id } = (await rows()).find(({ state }) => state === 'available') ?? { id: '' }
      const inState = async (state: 'available' | 'active' | 'completed') =>
        (await found(filterOf({ states: [state] }))).includes(id)
      expect([await inState('available'), await inState('active')]).toEqual([true, false])
      await ledger.claim([jobMessage(id)], TERMS)
      expect([await inState('available'), await inState('active')]).toEqual([false, true])
      await ledger.complete(id, {}, { now: NOW, result: null })
      expect([await inState('completed'), await inState('active')]).toEqual([true, false])
    })

    it('does not find erased rows', async () => {
      const { id } = (await rows()).find(({ isDeadLetter }) => isDeadLetter) ?? { id: '' }
      await deleteDeadLetter(ledger, id, NOW)
      for (const filter of [ANY_JOB, filterOf({ ids: [id] }), filterOf({ errorCode: 'e1' })]) {
        const others = await found(filter)
        expect(others).not.toContain(id)
        expect(await ledger.read.search.count(filter, 1_000)).toMatchObject({
          count: others.length,
        })
      }
    })

    it('gives whole rows where they are asked for', async () => {
      const { jobs } = await ledger.read.search.page(ANY_JOB, { ...FIRST, limit: 3, isWhole: true })
      const newest = await Promise.all(
        ids
          .slice(-3)
          .toReversed()
          .map((id) => row(id)),
      )
      expect(jobs.map(({ whole }) => whole)).toEqual(newest)
    })
  })

  describe('search that compares many jobs', () => {
    const OTHERS = 100
    const made: string[] = []
    const one = filterOf({ queues: ['many'], text: texts({ args: [{ to: 'one' }] }) })
    const none = filterOf({ queues: ['many'], text: texts({ args: [{ to: 'none' }] }) })

    /** Two of the oldest match, and the newest. */
    beforeEach(async () => {
      const count = MAX_COMPARED_AT_ONCE + OTHERS
      const jobs = Array.from({ length: count }, (_, i) => {
        const to = [0, 50, count - 1].includes(i) ? 'one' : 'other'
        const envelope = JSON.stringify({ args: [{ to }] })
        return newJob({ queue: 'many', createdAt: NOW + i, envelope })
      })
      for (let i = 0; i < count; i += 500) await ledger.insertAll(jobs.slice(i, i + 500), NOW)
      const matching = [jobs[0], jobs[50], jobs.at(-1)]
      made.splice(0, made.length, ...matching.map((job) => job?.id ?? ''))
    }, 60_000)

    it('ends a page after some of them, from where the next goes on', async () => {
      const [oldest = '', older = '', newest = ''] = made
      const first = await ledger.read.search.page(one, { ...FIRST, limit: 10 })
      expect(first.jobs.map(({ id }) => id)).toEqual([newest])
      expect(first).toMatchObject({ isEarly: true, searched: MAX_COMPARED_AT_ONCE })
      const last = await ledger.read.search.page(one, { ...FIRST, limit: 10, after: first.next })
      expect(last.jobs.map(({ id }) => id)).toEqual([older, oldest])
      expect(last).toMatchObject({ next: null, isEarly: false, searched: null })
      expect(await walked(one, { limit: 10, isAscending: true })).toEqual(made)
      expect(await walked(one, { limit: 1 })).toEqual(made.toReversed())
      expect(await ledger.read.search.count(one, 10)).toEqual({ count: 1, isBound: true })
      const { found: all } = await ledger.read.search.ids(one, null, 10)
      expect(all.map(({ id }) => id)).toEqual(made)
    })

    it('skips on the next page what this one had to skip and did not find', async () => {
      const [oldest = '', older = ''] = made
      const from = async (offset: number) => {
        const first = await ledger.read.search.page(one, { ...FIRST, offset })
        expect(first.jobs).toEqual([])
        expect(first.next).not.toBe(null)
        return await found(one, { after: first.next })
      }
      expect(await from(1)).toEqual([older, oldest])
      expect(await from(2)).toEqual([oldest])
      expect(await from(3)).toEqual([])
      const empty = await ledger.read.search.page(one, { ...FIRST, limit: 0 })
      expect(empty).toMatchObject({ jobs: [], next: null })
    })

    it('ends the list after many in a row of which none matches', async () => {
      const from = (looked: number) =>
        ledger.read.search.page(none, { ...FIRST, after: [NOW + 1_000_000, 0, 0, looked] })
      const few = await from(0)
      expect(few).toMatchObject({ jobs: [], searched: MAX_COMPARED_AT_ONCE })
      expect(few.next).not.toBe(null)
      expect(await walked(none, {})).toEqual([])
      const many = await from(MAX_COMPARED - MAX_COMPARED_AT_ONCE)
      expect(many).toEqual({ jobs: [], next: null, isEarly: false, searched: MAX_COMPARED })
      // A match on the page begins the count anew.
      const after = [NOW + 1_000_000, 0, 0, MAX_COMPARED - 1] as const
      const page = await ledger.read.search.page(one, { ...FIRST, after })
      expect(page.searched).toBe(MAX_COMPARED_AT_ONCE)
      expect(page.next).not.toBe(null)
    })
  })

  describe('search by conditions that have indexes of their own', () => {
    const fail = async (id: string, code: string, more: object = { message: 'm' }) => {
      const [claimed] = await ledger.claim([jobMessage(id)], TERMS)
      if (claimed?.verdict !== 'claimed') throw new Error(claimed?.verdict)
      const end = { ...FAILED, error: JSON.stringify({ code, ...more }), now: NOW }
      const to = { to: 'discarded', isDeadLetter: false, copy: 'nack' } as const
      await failAttempt(ledger, id, fenceOf(claimed.job), { ...end, ...to })
    }

    it('finds the jobs of a workflow, and tells the workflow of a job', async () => {
      const graph = newGraph({ a: [], b: [], c: ['a'] })
      await ledger.workflows.create(graph, NOW)
      await ledger.insert(newJob(), NOW)
      const { jobs } = await ledger.read.search.page(filterOf({ workflowId: graph.id }), FIRST)
      expect(jobs).toHaveLength(2)
      expect(new Set(jobs.map(({ workflowId }) => workflowId))).toEqual(new Set([graph.id]))
      const { jobs: all } = await ledger.read.search.page(ANY_JOB, FIRST)
      expect(all.filter(({ workflowId }) => workflowId === null)).toHaveLength(1)
      expect(await found(filterOf({ workflowId: 'none' }))).toEqual([])
    })

    it('finds steps by the time of their end, with or without their message', async () => {
      const graph = newGraph({ a: [], b: [] })
      await ledger.workflows.create(graph, NOW)
      const both = await found(filterOf({ workflowId: graph.id }))
      for (const [i, id] of both.entries()) {
        await ledger.claim([jobMessage(id)], TERMS)
        await ledger.complete(id, {}, { now: NOW + 10 + i, result: null })
      }
      ledger.messageReturned(both[0] ?? '', 0)
      await settleLazily(ledger)
      const ended = (from: number, until: number | null) =>
        found(filterOf({ ended: span(from, until) }))
      expect(await ended(NOW + 10, null)).toEqual(both)
      expect(await ended(NOW + 10, NOW + 11)).toEqual([both[0]])
      expect(await ended(NOW + 11, NOW + 12)).toEqual([both[1]])
    })

    it('finds the jobs of a cron entry, ended or not', async () => {
      const template = { type: 'report.make', args: [], options: { queue: 'q' } }
      const registered = await ledger.cron.register(
        {
          ...{ name: 'nightly', expression: '* * * * *', timezone: 'UTC', overlap: 'allow' },
          ...{ isEnabled: true, description: null, template },
        },
        { nextRunAt: NOW, createdAt: NOW, limit: 9 },
      )
      if (registered.outcome !== 'registered') throw new Error(registered.outcome)
      const { name, seq } = registered.entry
      const made: string[] = []
      for (const i of [0, 1, 2]) {
        const job = newJob({ queue: 'q', createdAt: NOW + i })
        const change = { job, nextRunAt: NOW + i + 1, now: NOW, maxQueued: 1 }
        await ledger.cron.fire({ name, seq, at: NOW + i }, { ...change, isUnsettled: () => false })
        made.push(job.id)
      }
      const aside = newJob({ queue: 'q' })
      await ledger.insert(aside, NOW)
      await ledger.claim([jobMessage(made[1] ?? '')], TERMS)
      await ledger.complete(made[1] ?? '', {}, { now: NOW, result: null })
      expect(await found(filterOf({ cron: name }))).toEqual(made.toReversed())
      expect(await found(filterOf({ cron: name, states: ['completed'] }))).toEqual([made[1]])
      expect(await found(filterOf({ cron: 'other' }))).toEqual([])

      const [first = '', second = '', third = ''] = made
      const both = filterOf({ cron: name, ids: [first, third, aside.id] })
      expect(await found(both)).toEqual([third, first])
      expect(await found({ ...both, cron: 'other' })).toEqual([])
      expect(await found(filterOf({ cron: name, workflowId: 'none' }))).toEqual([])
      await fail(first, 'e1')
      await fail(third, 'e2')
      await fail(aside.id, 'e1')
      expect(await found(filterOf({ cron: name, errorCode: 'e1' }))).toEqual([first])
      expect(await found({ ...both, errorCode: 'e1' })).toEqual([first])
      const ofIds = filterOf({ ids: [first, second, third, aside.id], errorCode: 'e1' })
      expect(new Set(await found(ofIds))).toEqual(new Set([first, aside.id]))
      expect(await ledger.read.search.count(ofIds, 10)).toEqual({ count: 2, isBound: false })
    })

    it('finds the jobs of a workflow by their ids, error and cron entry, too', async () => {
      const graph = newGraph({ a: [], b: [] })
      await ledger.workflows.create(graph, NOW)
      const [one = '', two = ''] = await found(filterOf({ workflowId: graph.id }))
      await fail(one, 'e1')
      await fail(two, 'e2')
      const of = filterOf({ workflowId: graph.id })
      expect(await found({ ...of, errorCode: 'e1' })).toEqual([one])
      expect(await found({ ...of, ids: [two], errorCode: 'e1' })).toEqual([])
      expect(await found({ ...of, cron: 'none' })).toEqual([])
    })

    it('finds an error that is nothing but its code', async () => {
      const job = newJob()
      await ledger.insert(job, NOW)
      await fail(job.id, 'e"1', {})
      expect(await found(filterOf({ errorCode: 'e"1' }))).toEqual([job.id])
      expect(await found(filterOf({ errorCode: 'e"1', ids: [job.id] }))).toEqual([job.id])
      expect(await found(filterOf({ errorCode: 'e' }))).toEqual([])
      expect(await found(filterOf({ errorCode: '' }))).toEqual([])
    })
  })

  describe('priorities', () => {
    it('counts the available jobs of a queue by their priority', async () => {
      const push = (priority: number, queue = 'p', type = 'a') =>
        ledger.insert(newJob({ priority, queue, type }), NOW)
      expect(await ledger.read.search.priorities('p')).toEqual({
        counts: new Map(),
        searched: null,
      })
      for (const priority of [5, 0, 5, -100]) await push(priority)
      await push(5, 'p', 'b')
      await push(5, 'elsewhere')
      const active = newJob({ priority: 9, queue: 'p' })
      await ledger.insert(active, NOW)
      await ledger.claim([jobMessage(active.id)], TERMS)
      const { counts, searched } = await ledger.read.search.priorities('p')
      expect(new Map(counts)).toEqual(
        new Map([
          [5, 3],
          [0, 1],
          [-100, 1],
        ]),
      )
      expect(searched).toBe(null)
    })
  })

  describe('oldest', () => {
    const oldest = async (now = NOW, wall = NOW) => {
      const all = await ledger.read.search.oldest(['q', 'empty'], now, wall)
      expect(all.get('empty')).toEqual({ available: null, retryable: null, scheduled: null })
      return all.get('q')
    }
    const at = async (enqueuedAt: number, createdAt = enqueuedAt, type = 't'): Promise<string> => {
      const job = newJob({ queue: 'q', type, createdAt })
      await ledger.insert(job, enqueuedAt)
      return job.id
    }

    it('is the available job that waits longest, of any type', async () => {
      await at(NOW + 20, NOW + 15, 'a')
      const first = await at(NOW + 10, NOW + 5, 'z')
      await at(NOW + 30, NOW + 25, 'z')
      expect((await oldest())?.available).toBe(NOW + 10)
      await ledger.claim([jobMessage(first)], TERMS)
      expect((await oldest())?.available).toBe(NOW + 20)
    })

    it('goes by when the job came into its queue, not by when it was created', async () => {
      // As many as came back from retries and schedules: none of them hides the one that waits longer.
      for (let i = 0; i < 20; i++) await at(NOW + 90_000 + i, NOW - 500_000 + i)
      expect((await oldest())?.available).toBe(NOW + 90_000)
      await at(NOW + 50_000)
      expect((await oldest())?.available).toBe(NOW + 50_000)
      await at(NOW + 40_000, NOW + 900_000)
      expect((await oldest())?.available).toBe(NOW + 40_000)
    })

    it('is the most overdue retry and schedule, by their own clocks', async () => {
      const dueAt = (due: number) =>
        newJob({ queue: 'q', start: { state: 'scheduled', dueAt: due } })
      await ledger.insert(dueAt(NOW + 70), NOW)
      await ledger.insert(dueAt(NOW + 60), NOW)
      const retried = await at(NOW)
      await ledger.claim([jobMessage(retried)], TERMS)
      await plant({
        id: retried,
        state: 'retryable',
        dueAt: NOW + 10,
        leaseExpiresAt: null,
        holder: null,
      })
      expect(await oldest(NOW + 9, NOW + 59)).toMatchObject({ retryable: null, scheduled: null })
      expect(await oldest(NOW + 10, NOW)).toMatchObject({ retryable: NOW + 10, scheduled: null })
      expect(await oldest(NOW, NOW + 99)).toMatchObject({ retryable: null, scheduled: NOW + 60 })
    })
  })
}
