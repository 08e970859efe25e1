import { expect, it } from 'vitest'
import { newJob } from '../../support/gateway/jobs.ts'
import { NOW, pushed } from '../harness.ts'
import { ledgerOfTest } from './harness.ts'

const harness = ledgerOfTest()
const seenAt = () => harness.ledger.read.epochs.seenAt()

it('a ledger of an earlier build was seen when its newest rows say', async () => {
  const { db, ledger } = harness
  await pushed(ledger, newJob({ createdAt: NOW }))
  expect(await seenAt()).toBe(NOW)
  const { id } = await pushed(ledger, newJob({ createdAt: NOW - 1_000 }))
  await ledger.cancel(id, NOW + 7)
  expect(await seenAt()).toBe(NOW + 7)
  db.exec(`INSERT INTO traffic
    VALUES (60000, ${Math.floor(NOW / 60_000) + 2}, 'q', 1, 1, 0, 0, 0, 0, 0, 0, '', '')`)
  expect(await seenAt()).toBe((Math.floor(NOW / 60_000) + 2) * 60_000)
})
