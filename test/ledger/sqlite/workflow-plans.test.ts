import { expect, it } from 'vitest'
import { prepareStatements } from '../../../src/ledger/sqlite/sql/statements.ts'
import { prepareWorkflows } from '../../../src/ledger/sqlite/sql/workflow.ts'
import { openSqliteHarness, withTexts } from './harness.ts'

/** How each statement of workflows finds its rows; a statement that counts at a start may read all. */
const PLANS: Readonly<Record<string, RegExp>> = {
  result: /^SEARCH jobs USING INDEX sqlite_autoindex_jobs_1/,
  counts: /^SCAN workflows USING COVERING INDEX workflows_state$/,
  head: /^SEARCH workflows USING INDEX sqlite_autoindex_workflows_1/,
  bySeq: /^SEARCH workflows USING INTEGER PRIMARY KEY/,
  // In the order of the table.
  all: /^SCAN workflows$/,
  ofState: /^SEARCH workflows USING INDEX workflows_state/,
  isStep: /^SEARCH workflow_steps USING COVERING INDEX workflow_steps_job/,
  steps:
    /^SEARCH s USING INDEX sqlite_autoindex_workflow_steps_1 .*; SEARCH j USING INDEX sqlite_autoindex_jobs_1/,
  error:
    /^SEARCH s USING INDEX sqlite_autoindex_workflow_steps_1 .*; SEARCH j USING INDEX sqlite_autoindex_jobs_1/,
  briefError:
    /^SEARCH s USING INDEX sqlite_autoindex_workflow_steps_1 .*; SEARCH j USING INDEX sqlite_autoindex_jobs_1/,
  lastFailed: /^SEARCH workflow_steps USING INDEX sqlite_autoindex_workflow_steps_1/,
  source: /^SEARCH workflow_steps USING INDEX sqlite_autoindex_workflow_steps_1/,
  results:
    /^SCAN wanted .*; SEARCH s USING INDEX sqlite_autoindex_workflow_steps_1 .*; SEARCH j USING INDEX sqlite_autoindex_jobs_1/,
  create: /^$/,
  addNode: /^$/,
  endStep: /^SEARCH workflow_steps USING INDEX workflow_steps_job/,
  arrive: /^SEARCH workflow_steps USING INDEX sqlite_autoindex_workflow_steps_1/,
  startStep: /^SEARCH workflow_steps USING INDEX sqlite_autoindex_workflow_steps_1/,
  endNode: /^SEARCH workflow_steps USING INDEX sqlite_autoindex_workflow_steps_1/,
  progress: /^SEARCH workflows USING INTEGER PRIMARY KEY/,
  cancel: /^SEARCH workflows USING INDEX sqlite_autoindex_workflows_1/,
  cancelSteps: /^SEARCH workflow_steps USING INDEX sqlite_autoindex_workflow_steps_1/,
  oldestEnded: /^SEARCH workflows USING INDEX workflows_ended/,
  boundEnds: /^SEARCH workflows USING /,
  forgetSteps: /^SEARCH workflow_steps USING .*INDEX sqlite_autoindex_workflow_steps_1/,
  forget: /^SEARCH workflows USING INTEGER PRIMARY KEY/,
}

it('every statement of workflows finds its rows by an index, and no page is sorted', async () => {
  const harness = await openSqliteHarness()
  const found: Record<string, string> = {}
  const explain = (prepare: (db: typeof harness.db) => object) => {
    const { noted, texts } = withTexts(harness.db)
    const statements = prepare(noted)
    for (const [name, statement] of Object.entries(statements)) {
      const sql = `EXPLAIN QUERY PLAN ${texts.get(statement)}`
      const plan = harness.db.prepare(sql).all() as { detail: string }[]
      found[name] = plan.map(({ detail }) => detail).join('; ')
    }
  }
  explain(prepareWorkflows)
  expect(new Set(Object.keys(found))).toEqual(new Set(Object.keys(PLANS)))
  for (const [name, plan] of Object.entries(PLANS)) expect(found[name], name).toMatch(plan)
  explain(prepareStatements)
  expect(found['prunable']).toMatch(/SEARCH workflow_steps USING COVERING INDEX workflow_steps_job/)
  await harness.destroy()
})
