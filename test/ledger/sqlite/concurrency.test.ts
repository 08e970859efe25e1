import { expect, it } from 'vitest'
import { newJob } from '../../support/gateway/jobs.ts'
import { fetched, NOW, pushed, rowOf } from '../harness.ts'
import { ledgerOfTest } from './harness.ts'

const harness = ledgerOfTest()

it('a write that fails at the line of its key is undone, and it alone', async () => {
  const { ledger, db } = harness
  // The first job with a key came after the start.
  const job = await fetched(ledger, newJob({ carry: { concurrency: { key: 'k', limit: 1 } } }))
  const plain = await fetched(ledger)
  db.exec(`CREATE TRIGGER broken BEFORE UPDATE ON concurrency
    BEGIN SELECT RAISE(ABORT, 'broken by the test'); END`)
  const end = { now: NOW, result: null }
  const [failed, ended] = await Promise.allSettled([
    ledger.complete(job.id, {}, end),
    ledger.complete(plain.id, {}, end),
  ])
  db.exec('DROP TRIGGER broken')
  expect(failed.status).toBe('rejected')
  expect(ended.status).toBe('fulfilled')
  expect(await rowOf(ledger, job.id)).toEqual(job)
  expect(await ledger.read.concurrency.active('k')).toBe(1)
  expect(ledger.known.counts('default')).toMatchObject({ active: 1, completed: 1 })
  expect((await pushed(ledger)).outbox).toBeGreaterThan(0)
})
