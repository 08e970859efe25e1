/** Reads what is kept of records in memory, at a start. */
import type { Memory } from '../group/memory.ts'
import type { Reader } from '../reader.ts'

export async function rememberRecords(
  memory: Memory,
  schema: string,
  reader: Reader,
): Promise<void> {
  const all = (what: string) => reader.rows(`SELECT ${what}`)
  for (const { started_at, ends_at, reason } of await all(`* FROM ${schema}.maintenance`))
    memory.maintenance.set('now', { startedAt: started_at, endsAt: ends_at, reason })
  for (const { uri, registration } of await all(`uri, registration FROM ${schema}.schemas`))
    memory.schemas.set(uri, registration)
  const [newest] = await all(`coalesce(max(number), 0) AS number FROM ${schema}.audit`)
  memory.numbers.set('audit', Number(newest?.['number']))
}
