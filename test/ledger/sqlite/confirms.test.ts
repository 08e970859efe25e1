import { expect, it, vi } from 'vitest'
import { Access } from '../../../src/ledger/sqlite/commit/access.ts'
import type { Database } from '../../../src/ledger/sqlite/sql/driver.ts'
import { prepareStatements } from '../../../src/ledger/sqlite/sql/statements.ts'
import { prepareWorkflows } from '../../../src/ledger/sqlite/sql/workflow.ts'
import { openStore } from '../../../src/ledger/sqlite/state/store.ts'
import { WorkflowCounts } from '../../../src/ledger/sqlite/state/workflow-counts.ts'
import { Confirms } from '../../../src/ledger/sqlite/writes/confirms.ts'
import { promoteDue } from '../../../src/ledger/sqlite/writes/due.ts'
import { endStep } from '../../../src/ledger/sqlite/writes/workflow-run.ts'
import { SILENT } from '../../support/time/silent.ts'
import { FAILED, failAttempt, fenceOf, fetched, NOW, pushed, rowOf } from '../harness.ts'
import { ledgerOfTest } from './harness.ts'

const harness = ledgerOfTest()

/** Opens the parts of another ledger on the same connection. */
function openBeside(db: Database, maxLazy = 10_000) {
  const workflows = new WorkflowCounts(prepareWorkflows(db), endStep)
  const { store, committedStates } = openStore(prepareStatements(db), workflows, Date.now)
  const access = new Access({ db, committedStates, logger: SILENT, probe() {}, maxLazy })
  return { store, access, confirms: new Confirms(store, access) }
}

it('a confirm beyond the limit of lazy writes leaves its job message owed, and only that one', async () => {
  const { db, ledger } = harness
  const [dropped, kept] = [await pushed(ledger), await pushed(ledger)]
  const { store, access, confirms } = openBeside(db, 1)
  access.writeLazily(() => {})
  confirms.add(dropped.outbox)
  expect(store.confirming.has(dropped.outbox)).toBe(false)
  await access.write(() => {})
  confirms.add(kept.outbox)
  expect(store.confirming.has(kept.outbox)).toBe(true)
  await access.write(() => {})
  expect(
    await Promise.all([dropped, kept].map(async ({ id }) => (await rowOf(ledger, id)).outbox)),
  ).toEqual([dropped.outbox, null])
  expect(store.confirming.has(kept.outbox)).toBe(false)
})

it('a confirm that is not written yet counts for a promotion in an earlier group commit', async () => {
  const { db, ledger } = harness
  const job = await fetched(ledger)
  const waiting = { dueAt: NOW + 1, delayMs: 1, retryQueueMs: 250, isMessageBack: true } as const
  await failAttempt(ledger, job.id, fenceOf(job), { ...FAILED, to: 'retryable', ...waiting })
  const { outbox } = await rowOf(ledger, job.id)
  const { store, access, confirms } = openBeside(db)
  // As many lazy writes as one group commit takes come before the confirm.
  for (let i = 0; i < 1_000; i++) access.writeLazily(() => {})
  confirms.add(outbox ?? 0)
  const [promoted] = await promoteDue(access, store, { now: NOW + 1, wall: NOW, limit: 1 })
  expect(promoted).toMatchObject({ state: 'available', outbox: null, retryQueueMs: 250 })
  await access.write(() => {})
  expect(await rowOf(ledger, job.id)).toEqual(promoted)
})

it('a confirm whose commit fails is not published again, and is written once there is space', async () => {
  const { db, ledger } = harness
  const { id, outbox } = await pushed(ledger)
  const exec = db.exec.bind(db)
  const full = vi.spyOn(db, 'exec').mockImplementation((sql) => {
    if (sql === 'COMMIT') throw Object.assign(new Error('disk full'), { errcode: 13 })
    exec(sql)
  })
  ledger.confirmed(outbox)
  await expect(pushed(ledger)).rejects.toThrow('cannot be written')
  expect((await rowOf(ledger, id)).outbox).toBe(outbox)
  expect(await ledger.read.outboxPage(0, 9)).toEqual([])
  full.mockRestore()
  await pushed(ledger)
  expect((await rowOf(ledger, id)).outbox).toBeNull()
})
