import { expect, it } from 'vitest'
import { ANY_JOB } from '../../../src/job/search/filter.ts'
import { MAX_COMPARED_AT_ONCE, MAX_SORTED } from '../../../src/ledger/lists/limits.ts'
import type { SearchPage } from '../../../src/ledger/search.ts'
import { newJob } from '../../support/gateway/jobs.ts'
import { jobMessage, NOW, settleLazily, TERMS } from '../harness.ts'
import { ledgerOfTest } from './harness.ts'

const harness = ledgerOfTest()

const PAGE: SearchPage = {
  ...{ order: 'created_at', isAscending: false, after: null, offset: 0, limit: 3, isWhole: false },
}

/** Completes as many new jobs, one in each millisecond from `at` on; every other message has come back. */
async function completed(count: number, at: number): Promise<string[]> {
  const { ledger } = harness
  const jobs = Array.from({ length: count }, (_, i) => newJob({ createdAt: NOW + i }))
  for (let i = 0; i < jobs.length; i += 500) {
    const ids = jobs.slice(i, i + 500).map(({ id }) => id)
    await ledger.insertAll(jobs.slice(i, i + 500), NOW)
    await ledger.claim(
      ids.map((id) => jobMessage(id)),
      TERMS,
    )
    await Promise.all(
      ids.map((id, n) => ledger.complete(id, {}, { now: at + i + n, result: null })),
    )
    for (const id of ids.filter((_, n) => n % 2 === 0)) ledger.messageReturned(id, 0)
    await settleLazily(ledger)
  }
  return jobs.map(({ id }) => id)
}

it('finds jobs by the time of their end, as many as have ended, few or many', async () => {
  const { search } = harness.ledger.read
  const at = NOW + 1_000_000
  const ids = await completed(MAX_COMPARED_AT_ONCE + 10, at)
  const newest = ids.toReversed()
  const few = MAX_COMPARED_AT_ONCE - 10
  for (const until of [at + 7, at + few, at + MAX_COMPARED_AT_ONCE + 9]) {
    const filter = { ...ANY_JOB, ended: { from: at, until } }
    const wanted = newest.slice(newest.length - (until - at))
    const { jobs, searched } = await search.page(filter, PAGE)
    expect(jobs.map(({ id }) => id)).toEqual(wanted.slice(0, 3))
    expect(searched).toBe(null)
    const isFew = until - at <= few
    const exact = { count: until - at, isBound: false }
    expect(await search.count(filter, 10_000)).toMatchObject(isFew ? exact : { isBound: true })
  }
  const none = { ...ANY_JOB, ended: { from: at + MAX_COMPARED_AT_ONCE + 10, until: null } }
  expect(await search.page(none, PAGE)).toEqual({
    jobs: [],
    next: null,
    isEarly: false,
    searched: null,
  })
})

it('puts the newest in order, and says how many it has looked at if there are more', async () => {
  const { ledger } = harness
  const jobs = Array.from({ length: MAX_SORTED }, (_, i) =>
    newJob({ createdAt: NOW + i, priority: i % 3 }),
  )
  for (let i = 0; i < jobs.length; i += 500) await ledger.insertAll(jobs.slice(i, i + 500), NOW)
  const byPriority = { ...PAGE, order: 'priority', limit: 1 } as const
  const all = await ledger.read.search.page(ANY_JOB, byPriority)
  expect(all.searched).toBe(null)
  const oldest = newJob({ createdAt: NOW - 1, priority: 9 })
  await ledger.insert(oldest, NOW)
  const newest = await ledger.read.search.page(ANY_JOB, byPriority)
  expect(newest.jobs.map(({ id }) => id)).toEqual(all.jobs.map(({ id }) => id))
  expect(newest.searched).toBe(MAX_SORTED)
})
