import { expect, it } from 'vitest'
import { IDEMPOTENCY_MS } from '../../../src/ledger/idempotency.ts'
import { Access } from '../../../src/ledger/sqlite/commit/access.ts'
import { prepareStatements } from '../../../src/ledger/sqlite/sql/statements.ts'
import { SqliteIdempotency } from '../../../src/ledger/sqlite/writes/idempotency.ts'
import { newJob } from '../../support/gateway/jobs.ts'
import { SILENT } from '../../support/time/silent.ts'
import { NOW } from '../harness.ts'
import { ledgerOfTest } from './harness.ts'

const harness = ledgerOfTest()

it('boundWaits makes idempotency keys that are ahead of the clock expire like new ones', async () => {
  const { ledger } = harness
  const remember = (key: string, at: number) =>
    ledger.insert(newJob(), at, { request: { key, fingerprint: 'f' } })
  await remember('before', NOW - IDEMPOTENCY_MS)
  await remember('ahead', NOW + 1)
  await remember('far ahead', NOW + 365 * IDEMPOTENCY_MS)
  await ledger.boundWaits(NOW)
  const known = (at: number) =>
    keptOf(['before', 'ahead', 'far ahead'], (key) => ledger.read.idempotency.find(key, at))
  expect(await known(NOW)).toEqual(['ahead', 'far ahead'])
  expect(await known(NOW + IDEMPOTENCY_MS)).toEqual([])
  expect(await ledger.idempotency.prune(NOW + IDEMPOTENCY_MS, 9)).toBe(3)
})

it('prune keeps the newest idempotency keys up to their limit', async () => {
  const { db, ledger } = harness
  for (const key of ['a', 'b', 'c', 'd']) {
    await ledger.insert(newJob(), NOW, { request: { key, fingerprint: 'f' } })
  }
  const access = new Access({ db, committedStates: [], logger: SILENT, probe() {} })
  const keys = new SqliteIdempotency(access, prepareStatements(db), 2)
  expect(await keys.prune(NOW, 1)).toBe(1)
  expect(await keys.prune(NOW, 9)).toBe(1)
  expect(await keptOf(['a', 'b', 'c', 'd'], (key) => keys.find(key, NOW))).toEqual(['c', 'd'])
})

/** Those of the keys that are remembered. */
async function keptOf(
  keys: readonly string[],
  find: (key: string) => Promise<unknown>,
): Promise<string[]> {
  const found = await Promise.all(keys.map(find))
  return keys.filter((_, i) => found[i] !== null)
}
