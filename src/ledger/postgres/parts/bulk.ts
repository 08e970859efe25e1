/** Actions on many jobs, and what is known of operations. */
import type { BulkLedger, BulkOperation } from '../../bulk.ts'
import type { Reads } from '../../reads.ts'
import type { Row } from '../connection.ts'
import type { Groups } from '../group/groups.ts'
import { OPERATIONS, type OperationRow, toOperation } from '../group/operations.ts'
import { selectSide, wanted } from '../group/side.ts'
import { sizesOf } from '../group/sizes.ts'
import type { Reader } from '../reader.ts'
import { actOnMany, advance, begin, stop } from '../writes/bulk.ts'

export function bulkLedger(groups: Groups, schema: string): BulkLedger {
  return {
    act: (ids, steering, terms) =>
      groups.write({
        wants: terms.isAtomic ? { ids } : { short: ids, asked: [sizesOf(schema, ids)] },
        run: (draft) => actOnMany(draft, schema, ids, steering, terms),
        weight: ids.length,
      }),
    begin: (operation) =>
      groups.write({ wants: {}, run: (draft) => begin(draft, schema, operation), isAlone: true }),
    advance: (id, page, terms) => {
      const ids = page.found.map((found) => found.id)
      const sides = [wanted(OPERATIONS, [id])]
      return groups.write({
        wants: { short: ids, sides, asked: [sizesOf(schema, ids)] },
        run: (draft) => advance(draft, schema, id, page, terms),
        weight: ids.length,
      })
    },
    stop: (id, now) =>
      groups.write({
        wants: { sides: [wanted(OPERATIONS, [id])] },
        run: (draft) => stop(draft, id, now),
      }),
  }
}

export function bulkReads(schema: string, reader: Reader): Reads['bulk'] {
  const select = selectSide(schema, OPERATIONS)
  const all = async (rest: string, values: readonly unknown[] = []): Promise<BulkOperation[]> =>
    (await reader.rows(`${select} ${rest}`, values)).map(operationOf)
  return {
    find: async (id) => (await all('WHERE id = $1', [id]))[0] ?? null,
    list: async ({ limit, offset }) => {
      const operations = await all('ORDER BY seq DESC LIMIT $1 OFFSET $2', [limit, offset])
      // Of a thousand rows and some.
      const text = `SELECT count(*) AS n FROM ${schema}.${OPERATIONS.name}`
      return { operations, total: Number((await reader.rows(text))[0]?.['n']) }
    },
    running: () => all('WHERE ended_at IS NULL ORDER BY seq'),
  }
}

function operationOf({ sideKey, ...row }: Row): BulkOperation {
  return toOperation(String(sideKey), row as OperationRow)
}
