import { expect, it } from 'vitest'
import { ANY_JOB } from '../../../src/job/search/filter.ts'
import { MAX_FEW_ENDED } from '../../../src/ledger/lists/limits.ts'
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
  const ids = await completed(MAX_FEW_ENDED + 10, at)
  const newest = ids.toReversed()
  for (const until of [at + 7, at + MAX_FEW_ENDED, at + MAX_FEW_ENDED + 9]) {
    const filter = { ...ANY_JOB, ended: { from: at, until } }
    const wanted = newest.slice(newest.length - (until - at))
    const { jobs, searched } = await search.page(filter, PAGE)
    expect(jobs.map(({ id }) => id)).toEqual(wanted.slice(0, 3))
    expect(searched).toBe(null)
    expect(await search.count(filter, 10_000)).toEqual({ count: until - at, isBound: false })
  }
  const none = { ...ANY_JOB, ended: { from: at + MAX_FEW_ENDED + 10, until: null } }
  expect(await search.page(none, PAGE)).toEqual({ jobs: [], next: null, searched: null })
})
