import { expect, it } from 'vitest'
import { prepareStatements } from '../../../src/ledger/sqlite/sql/statements.ts'
import { KeptKeys } from '../../../src/ledger/sqlite/state/kept-keys.ts'
import { newJob } from '../../support/gateway/jobs.ts'
import { NOW, pushed } from '../harness.ts'
import { ledgerOfTest } from './harness.ts'

const harness = ledgerOfTest()
const STATES = ['completed'] as const

/** Kept keys of at most 2 rows, with the rows `names`, the n-th of which has a period of n seconds. */
async function keptKeys(...names: string[]): Promise<KeptKeys> {
  const { db, ledger } = harness
  const keys = new KeptKeys(prepareStatements(db), 2)
  for (const [i, key] of names.entries()) {
    const unique = { key, states: STATES, periodMs: null, onConflict: 'reject' } as const
    const policy = { period: `PT${i + 1}S` }
    const envelope = JSON.stringify({ unique: policy, unique_extra: { states: STATES } })
    await pushed(ledger, newJob({ id: `job ${key}`, unique, envelope, createdAt: NOW }))
    keys.keep(seqOf(`job ${key}`), 'completed', NOW)
  }
  return keys
}

function seqOf(id: string): number {
  return (harness.db.prepare('SELECT seq FROM jobs WHERE id = ?').get(id) as { seq: number }).seq
}

function left(keys: KeptKeys, now = NOW): string[] {
  return ['a', 'b', 'c', 'd'].filter((key) =>
    keys.find({ key, states: STATES, createdAfter: 0, besides: '', limit: 1 }, now),
  )
}

it('kept keys beyond the limit are forgotten, those whose period ends first before others', async () => {
  const keys = await keptKeys('a', 'b', 'c', 'd')
  expect(left(keys)).toEqual(['a', 'b', 'c', 'd'])
  expect(keys.prune(NOW, 1)).toBe(1)
  expect(left(keys)).toEqual(['b', 'c', 'd'])
  expect(keys.prune(NOW + 2_000, 9)).toBe(1)
  expect(left(keys)).toEqual(['c', 'd'])
  expect(keys.prune(NOW, 9)).toBe(0)
})

it('boundWaits lets the period of kept keys that are ahead of the clock begin anew', async () => {
  const keys = await keptKeys('a', 'b')
  const now = NOW - 86_400_000
  await harness.ledger.boundWaits(now)
  expect([left(keys, now), left(keys, now + 999)]).toEqual([
    ['a', 'b'],
    ['a', 'b'],
  ])
  expect([left(keys, now + 1_000), left(keys, now + 2_000)]).toEqual([['b'], []])
})

it('a row whose policy cannot be read is pruned without keeping its key', async () => {
  const keys = await keptKeys('a')
  const { db } = harness
  db.exec(`UPDATE jobs SET envelope = '{"unique":{"period":"for ever"}}'`)
  keys.keep(seqOf('job a'), 'completed', NOW)
  expect(left(keys)).toEqual(['a'])
})
