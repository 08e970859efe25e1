import { afterEach, describe, expect, it } from 'vitest'
import { JOB_STATES, type NewJob, type Unique } from '../../../src/job/job.ts'
import { sha256 } from '../../../src/job/values/canonical-json.ts'
import { SqliteLedger } from '../../../src/ledger/sqlite/ledger.ts'
import { newJob } from '../../support/gateway/jobs.ts'
import { SILENT } from '../../support/time/silent.ts'
import { deadLetterContract } from '../contract/dead-letters.ts'
import { retentionContract } from '../contract/retention.ts'
import { uniqueContract } from '../contract/unique.ts'
import { ledgerContract } from '../contract.ts'
import { insertedOf, jobMessage, NOW, pushed, TERMS } from '../harness.ts'
import { type SqliteHarness, sqliteHarnesses } from './harness.ts'

// A move of keys is under way most of the time: every job that is inserted begins one or goes on with it.
ledgerContract('SQLite, with unique keys on the move,', sqliteHarnesses(1), [
  uniqueContract,
  deadLetterContract,
  retentionContract,
])

const REJECT = { states: JOB_STATES, periodMs: null, onConflict: 'reject' } as const

function unique(key: string, over: Partial<Unique> = {}, given: Partial<NewJob> = {}): NewJob {
  return newJob({ createdAt: NOW, ...given, unique: { key: sha256(key), ...REJECT, ...over } })
}

describe('the index of unique keys', () => {
  let harness: SqliteHarness
  afterEach(async () => {
    expect(await harness.inspect()).toEqual([])
    await harness.destroy()
  })
  const openEvery = {
    1: sqliteHarnesses(1),
    8: sqliteHarnesses(8),
    16384: sqliteHarnesses(),
  }
  const number = (sql: string) => (harness.db.prepare(sql).get() as { n: number }).n
  const inFile = () => number('SELECT count(*) AS n FROM unique_keys')
  const movedTo = () => number("SELECT value AS n FROM settings WHERE name = 'unique_keys_to'")
  const crowded = () => number('SELECT count(*) AS n FROM jobs WHERE crowded = 1')
  const push = (job: NewJob) => harness.ledger.insert(job, NOW)

  it('takes no key into the file before 16,384 jobs, then all of them bit by bit, and finds each at any time', async () => {
    harness = await openEvery[16_384]()
    const { ledger } = harness
    const batch = (from: number, length: number) =>
      Array.from({ length }, (_, i) => unique(`${from + i}`))
    for (let from = 0; from < 16_000; from += 1000) await ledger.insertAll(batch(from, 1000), NOW)
    expect([inFile(), movedTo()]).toEqual([0, 0])
    const seen = new Set<number>()
    for (let from = 16_000; movedTo() === 0; from += 100) {
      await ledger.insertAll(batch(from, 100), NOW)
      seen.add(inFile())
      for (const key of [from, 0, 8000, 15_999])
        expect(await push(unique(`${key}`))).toMatchObject({ outcome: 'conflict' })
    }
    expect(seen.size).toBeGreaterThan(10)
    expect(inFile()).toBeGreaterThanOrEqual(16_384)
    expect(movedTo()).toBeLessThan(number('SELECT max(seq) AS n FROM jobs'))
  })

  it('is read again from the rows by the next process, and goes on to the file', async () => {
    harness = await openEvery[8]()
    for (let i = 0; i < 7; i++) await pushed(harness.ledger, unique(`${i}`))
    expect(inFile()).toBe(0)
    await harness.reopen()
    for (let i = 0; i < 7; i++)
      expect(await push(unique(`${i}`))).toMatchObject({ outcome: 'conflict' })
    for (let i = 7; i < 14; i++) await pushed(harness.ledger, unique(`${i}`))
    expect(inFile()).toBeGreaterThanOrEqual(8)
  })

  it('goes on with jobs that have no key, so that the next process has few rows to read', async () => {
    harness = await openEvery[8]()
    await pushed(harness.ledger, unique('only'))
    for (let i = 0; i < 9; i++) await pushed(harness.ledger, newJob())
    expect([inFile(), movedTo()]).toEqual([1, 8])
  })

  it('keeps in memory what a transaction has moved that cannot be committed', async () => {
    harness = await openEvery[8]()
    const { db } = harness
    let isFull = false
    const exec = (sql: string) => {
      if (isFull && sql === 'COMMIT') throw Object.assign(new Error('disk full'), { errcode: 13 })
      db.exec(sql)
    }
    const ledger = new SqliteLedger({ ...db, exec }, SILENT, Date.now, undefined, 8)
    for (let i = 0; i < 7; i++) await pushed(ledger, unique(`${i}`))
    isFull = true
    await expect(ledger.insert(unique('7'), NOW)).rejects.toMatchObject({ status: 503 })
    isFull = false
    expect(inFile()).toBe(0)
    for (let i = 0; i < 7; i++)
      expect(await ledger.insert(unique(`${i}`), NOW)).toMatchObject({ outcome: 'conflict' })
    await pushed(ledger, unique('7'))
    expect(inFile()).toBeGreaterThan(0)
    await ledger.close()
  })

  it('does not find a job whose write was undone, nor the next one that has its place', async () => {
    harness = await openEvery[16_384]()
    const { ledger } = harness
    const taken = await pushed(ledger, newJob())
    const refused = await ledger.insertAll([unique('k'), newJob({ id: taken.id })], NOW)
    expect(refused.outcome).toBe('duplicate')
    await pushed(ledger, newJob())
    insertedOf(await push(unique('k')))
  })

  it('has the rows of a key that many have in an index by state', async () => {
    harness = await openEvery[8]()
    const { ledger } = harness
    const running = { states: ['active'] } as const
    const ids: string[] = []
    for (let i = 0; i < 20; i++) ids.push((await pushed(ledger, unique('k', running))).id)
    expect(crowded()).toBe(16)
    const [first = '', , , , , sixth = ''] = ids
    for (const id of [first, sixth]) {
      await ledger.claim([jobMessage(id)], TERMS)
      expect(await push(unique('k', running))).toMatchObject({
        outcome: 'conflict',
        existing: { id },
      })
      await ledger.cancel(id, NOW)
      insertedOf(await push(unique('k', running)))
      const cancelled = { states: ['cancelled'], onConflict: 'ignore' } as const
      expect(await push(unique('k', cancelled))).toMatchObject({ outcome: 'existing' })
    }
  })
})
