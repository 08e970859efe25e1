import { expect, it } from 'vitest'
import { prepareSchemaStatements } from '../../src/ledger/sqlite/schema-statements.ts'
import { openSqliteHarness } from './sqlite-harness.ts'

it('finds schemas by their index, and lists them in the order of the table', async () => {
  const { db, destroy } = await openSqliteHarness()
  const plans = new Map<unknown, string>()
  const statements = prepareSchemaStatements({
    prepare: (sql) => {
      const statement = db.prepare(sql)
      const plan = db.prepare(`EXPLAIN QUERY PLAN ${sql}`).all() as { detail: string }[]
      plans.set(statement, plan.map(({ detail }) => detail).join('; '))
      return statement
    },
  })
  const { find, registration, delete: remove, page } = statements
  for (const one of [find, registration, remove]) {
    expect(plans.get(one)).toMatch(
      /^SEARCH schemas USING (COVERING )?INDEX sqlite_autoindex_schemas_1/,
    )
  }
  expect(plans.get(page)).toBe('SCAN schemas')
  await destroy()
})
