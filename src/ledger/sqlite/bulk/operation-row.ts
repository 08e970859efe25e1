/** The row of an operation on many jobs. */
import type { BulkOperation, NewOperation } from '../../bulk.ts'
import type { OperationRow } from '../sql/bulk.ts'

export function toOperation(row: OperationRow): BulkOperation {
  const { id, state, createdAt, terms, placeAt, placeRow, refused, hasMore, ...rest } = row
  const { matched, succeeded, failed, updatedAt, endedAt } = rest
  return {
    ...(JSON.parse(terms) as Omit<NewOperation, 'id' | 'createdAt'>),
    ...{ id, state, createdAt, matched, succeeded, failed, updatedAt, endedAt },
    place: placeAt === null || placeRow === null ? null : [placeAt, placeRow],
    refused: JSON.parse(refused) as BulkOperation['refused'],
    hasMore: hasMore === 1,
  }
}
