import { expect, it } from 'vitest'
import { prepareSchemaStatements } from '../../../src/ledger/sqlite/writes/schemas.ts'
import { openSqliteHarness, withTexts } from './harness.ts'

it('statements of schemas find them by their index, and list them in the order of the table', async () => {
  const harness = await openSqliteHarness()
  const { db } = harness
  const { noted, texts } = withTexts(db)
  const planOf = (statement: unknown) => {
    const plan = db.prepare(`EXPLAIN QUERY PLAN ${texts.get(statement)}`).all()
    return (plan as { detail: string }[]).map(({ detail }) => detail).join('; ')
  }
  const { find, registration, delete: remove, page } = prepareSchemaStatements(noted)
  for (const one of [find, registration, remove]) {
    expect(planOf(one)).toMatch(
      /^SEARCH schemas USING (COVERING )?INDEX sqlite_autoindex_schemas_1/,
    )
  }
  expect(planOf(page)).toBe('SCAN schemas')
  await harness.destroy()
})
