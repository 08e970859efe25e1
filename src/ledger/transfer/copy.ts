/** Copies a whole ledger into an empty one, and compares them before it counts. */
import { createHash } from 'node:crypto'
import type { Store } from './store.ts'
import { TABLES, type Table } from './tables.ts'

interface CopiedTable {
  table: string
  rows: number
}

interface Digest {
  rows: number
  digest: string
}

/** The two ledgers differ after the copy, which was not kept. */
class CopyDiffers extends Error {
  override readonly name = 'CopyDiffers'
}

/**
 * Copies all tables from `from` to `to` in one transaction of either. Rejects when `to` is not empty; if anything
 * fails, `to` stays empty, and the copy may be started again.
 */
export async function copyLedger(from: Store, to: Store): Promise<CopiedTable[]> {
  if (!(await to.isEmpty())) throw new Error(`${to.shown} is not empty`)
  const copied = new Map<Table, Digest>()
  for (const table of TABLES)
    copied.set(table, await digestOf(from, table, (rows) => to.write(table, rows)))
  for (const [table, read] of copied) {
    const written = await digestOf(to, table)
    if (read.rows !== written.rows || read.digest !== written.digest)
      throw new CopyDiffers(
        `${table.name} differs after the copy: ${read.rows} and ${written.rows} rows`,
      )
  }
  await to.finish(await from.settings())
  await to.commit()
  return [...copied].map(([{ name }, { rows }]) => ({ table: name, rows }))
}

async function digestOf(
  store: Store,
  table: Table,
  each: (rows: Parameters<Store['write']>[1]) => Promise<void> = async () => {},
): Promise<Digest> {
  const hash = createHash('sha256')
  let count = 0
  for await (const rows of store.read(table)) {
    for (const row of rows) hash.update(JSON.stringify(row)).update('\n')
    count += rows.length
    await each(rows)
  }
  return { rows: count, digest: hash.digest('hex') }
}
