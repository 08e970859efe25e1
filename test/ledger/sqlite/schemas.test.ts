import { expect, it } from 'vitest'
import { prepareSchemas } from '../../../src/ledger/sqlite/sql/schemas.ts'
import { openSqliteHarness, withTexts } from './harness.ts'

it('statements of schemas find them by their index, and list them in the order of the table', async () => {
  const harness = await openSqliteHarness()
  const { db } = harness
  const { noted, texts } = withTexts(db)
  const planOf = (statement: unknown) => {
    const plan = db.prepare(`EXPLAIN QUERY PLAN ${texts.get(statement)}`).all()
    return (plan as { detail: string }[]).map(({ detail }) => detail).join('; ')
  }
  const { find, content, delete: remove, page } = prepareSchemas(noted)
  for (const one of [find, remove]) {
    expect(planOf(one)).toMatch(
      /^SEARCH schemas USING (COVERING )?INDEX sqlite_autoindex_schemas_1/,
    )
  }
  expect(planOf(content)).toBe('SEARCH schemas USING INTEGER PRIMARY KEY (rowid=?)')
  expect(planOf(page)).toBe('SCAN schemas')
  await harness.destroy()
})
