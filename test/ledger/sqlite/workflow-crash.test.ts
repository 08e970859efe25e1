import { copyFileSync, existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { SqliteLedger } from '../../../src/ledger/sqlite/ledger.ts'
import { openLedgerFile } from '../../../src/ledger/sqlite/open.ts'
import type { Database } from '../../../src/ledger/sqlite/sql/driver.ts'
import { inOrder } from '../../support/broker/order.ts'
import { newGraph } from '../../support/gateway/workflows.ts'
import { temporaryDirectory } from '../../support/temporary-directory.ts'
import { SILENT } from '../../support/time/silent.ts'
import { jobMessage, NOW, TERMS } from '../harness.ts'
import { inspect } from './harness.ts'

/** Four layers of five steps; each step depends on two of the layer before it. */
const STEPS = Object.fromEntries(
  Array.from({ length: 20 }, (_, i) => {
    const layer = Math.floor(i / 5) - 1
    const before = layer < 0 ? [] : [`s${layer * 5 + (i % 5)}`, `s${layer * 5 + ((i + 1) % 5)}`]
    return [`s${i}`, before]
  }),
)

interface Lives {
  ledger: SqliteLedger
  db: Database
}

async function open(path: string, change: (db: Database) => Database = (db) => db): Promise<Lives> {
  const db = await openLedgerFile({ path, sync: 'full', logger: SILENT })
  return { ledger: new SqliteLedger(change(db), SILENT), db }
}

/** Completes every job of the workflow, two at a time. Returns the steps in that order. */
async function runToEnd(ledger: SqliteLedger, id: string): Promise<string[]> {
  const ended: string[] = []
  for (;;) {
    const open = (await ledger.read.workflows.find(id))?.steps.filter(
      ({ progress }) => progress === 'started',
    )
    if (open === undefined || open.length === 0) return ended
    await Promise.all(
      open.slice(0, 2).map(async ({ id: step, jobId, state }) => {
        const jobJobMessage = jobMessage(jobId ?? '')
        if (state === 'available') await ledger.claim([jobJobMessage], TERMS)
        await ledger.complete(jobId ?? '', {}, { now: NOW, result: `"${step}"` })
        ended.push(step)
      }),
    )
  }
}

function jobsByStep(db: Database): string[] {
  const rows = db.prepare('SELECT envelope FROM jobs').all() as { envelope: string }[]
  return rows.map(({ envelope }) => JSON.parse(envelope).workflow_step)
}

it('a graph of 20 steps survives a crash on either side of each commit', {
  timeout: 60_000,
}, async () => {
  const directory = temporaryDirectory()
  const path = join(directory.path, 'ojs.db')
  const copies: string[] = []
  // The files at this moment are what a process leaves that is killed now.
  const copy = () => {
    const to = join(directory.path, `copy-${copies.length}.db`)
    for (const suffix of ['', '-wal']) {
      if (existsSync(path + suffix)) copyFileSync(path + suffix, to + suffix)
    }
    copies.push(to)
  }
  const { ledger } = await open(path, (db) => ({
    ...db,
    exec(sql) {
      if (sql === 'COMMIT') copy()
      db.exec(sql)
      if (sql === 'COMMIT') copy()
    },
  }))
  const workflow = newGraph(STEPS)
  await ledger.workflows.create(workflow, NOW)
  await runToEnd(ledger, workflow.id)
  await ledger.close()
  expect(copies.length).toBeGreaterThan(40)

  for (const [i, file] of copies.entries()) {
    const after = await open(file)
    expect(inspect(after.db), `copy ${i}`).toEqual([])
    const found = await after.ledger.read.workflows.find(workflow.id)
    // Before its first commit the workflow is not stored, and its client has had no answer.
    if (found === null) expect(i).toBe(0)
    else {
      const before = found.steps.filter(({ progress }) => progress === 'completed')
      const ended = await runToEnd(after.ledger, workflow.id)
      const all = [...before.map(({ id }) => id), ...ended]
      expect(inOrder(all), `copy ${i}`).toEqual(inOrder(Object.keys(STEPS)))
      expect(inOrder(jobsByStep(after.db)), `copy ${i}`).toEqual(inOrder(Object.keys(STEPS)))
      expect(await after.ledger.read.workflows.find(workflow.id)).toMatchObject({
        state: 'completed',
        open: 0,
      })
    }
    await after.ledger.close()
  }
  directory.remove()
})
