import { join } from 'node:path'
import { expect, it } from 'vitest'
import { SqliteLedger } from '../../../src/ledger/sqlite/ledger.ts'
import { openLedgerFile } from '../../../src/ledger/sqlite/open.ts'
import type { Database, SqlValue, Statement } from '../../../src/ledger/sqlite/sql/driver.ts'
import { newGraph } from '../../support/gateway/workflows.ts'
import { temporaryDirectory } from '../../support/temporary-directory.ts'
import { SILENT } from '../../support/time/silent.ts'
import { failAttempt, jobMessage, NOW, TERMS } from '../harness.ts'

const STEPS = 40

/** The same database, which notes the statements that are run in it. */
function counting(db: Database): { counted: Database; runs: string[] } {
  const runs: string[] = []
  const prepare = <P extends readonly SqlValue[], R>(sql: string): Statement<P, R> => {
    const statement = db.prepare<P, R>(sql)
    return {
      run: (...values) => {
        runs.push(sql)
        return statement.run(...values)
      },
      get: (...values) => {
        runs.push(sql)
        return statement.get(...values)
      },
      all: (...values) => {
        runs.push(sql)
        return statement.all(...values)
      },
    }
  }
  return { counted: { ...db, prepare }, runs }
}

/** The statements that the ledger runs while step `last` ends. All steps before it have completed. */
async function runsAtTheEnd(
  graph: Record<string, string[]>,
  last: string,
  end: (ledger: SqliteLedger, jobId: string) => Promise<unknown>,
): Promise<{ runs: string[]; states: Record<string, number> }> {
  const directory = temporaryDirectory()
  const path = join(directory.path, 'ojs.db')
  const { counted, runs } = counting(await openLedgerFile({ path, sync: 'normal', logger: SILENT }))
  const ledger = new SqliteLedger(counted, SILENT)
  const workflow = newGraph(graph)
  await ledger.workflows.create(workflow, NOW)
  const steps = async () => (await ledger.read.workflows.find(workflow.id))?.steps ?? []
  for (let isOver = false; !isOver; ) {
    for (const { id, jobId, state } of await steps()) {
      if (jobId === null || state !== 'available') continue
      await ledger.claim([jobMessage(jobId)], TERMS)
      isOver ||= id === last
      if (id === last) {
        runs.length = 0
        await end(ledger, jobId)
      } else await ledger.complete(jobId, {}, { now: NOW, result: `"of ${id}"` })
    }
  }
  const ran = [...runs]
  const states: Record<string, number> = {}
  for (const { state } of await steps()) states[state] = (states[state] ?? 0) + 1
  await ledger.close()
  directory.remove()
  return { runs: ran, states }
}

const names = (prefix: string) => Array.from({ length: STEPS }, (_, i) => `${prefix}${i}`)
const isArrival = (sql: string) => sql.includes('SET pending = pending')

it('the failure of a step is applied once to each step that depends on it', async () => {
  const all = names('s')
  const graph = Object.fromEntries(all.map((id, i) => [id, all.slice(0, i)]))
  const { runs, states } = await runsAtTheEnd(graph, 's0', (ledger, jobId) =>
    failAttempt(
      ledger,
      jobId,
      { generation: 0, attempt: 1 },
      { now: NOW, error: null, errors: null, isDeadLetter: false, to: 'discarded', copy: 'nack' },
    ),
  )
  expect(states).toEqual({ discarded: 1, cancelled: STEPS - 1 })
  // Plus the two nodes that lead to the end of the workflow.
  expect(runs.filter(isArrival)).toHaveLength(STEPS - 1 + 2)
})

it('the results that many jobs of one commit receive are read once', async () => {
  const roots = names('r')
  const leaves = names('l').map((id) => [id, ['hub']])
  const graph = Object.fromEntries([...roots.map((id) => [id, []]), ['hub', roots], ...leaves])
  const { runs, states } = await runsAtTheEnd(graph, 'hub', (ledger, jobId) =>
    ledger.complete(jobId, {}, { now: NOW, result: null }),
  )
  expect(states).toEqual({ completed: STEPS + 1, available: STEPS })
  expect(runs.filter((sql) => sql.includes('json_each'))).toHaveLength(1)
  expect(runs.filter((sql) => sql.startsWith('SELECT result FROM jobs'))).toHaveLength(STEPS)
})
