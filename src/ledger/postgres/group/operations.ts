/** The table of operations on many jobs. */
import type { BulkOperation, NewOperation } from '../../bulk.ts'
import { termsOf } from '../../writes/operations.ts'
import type { SideTable } from './side.ts'

export interface OperationRow {
  state: BulkOperation['state']
  createdAt: number
  updatedAt: number
  endedAt: number | null
  placeAt: number | null
  placeRow: number | null
  matched: number
  succeeded: number
  failed: number
  hasMore: boolean
  /** JSON texts. */
  refused: string
  terms: string
}

export const OPERATIONS: SideTable<OperationRow> = {
  name: 'bulk_operations',
  key: 'id',
  columns: {
    state: 'text',
    createdAt: 'bigint',
    updatedAt: 'bigint',
    endedAt: 'bigint',
    placeAt: 'bigint',
    placeRow: 'bigint',
    matched: 'bigint',
    succeeded: 'bigint',
    failed: 'bigint',
    hasMore: 'boolean',
    refused: 'text',
    terms: 'text',
  },
}

export function toOperation(id: string, row: OperationRow): BulkOperation {
  const { placeAt, placeRow, refused, terms, ...rest } = row
  return {
    ...(JSON.parse(terms) as Omit<NewOperation, 'id' | 'createdAt'>),
    ...rest,
    id,
    place: placeAt === null || placeRow === null ? null : [placeAt, placeRow],
    refused: JSON.parse(refused) as BulkOperation['refused'],
  }
}

export function toRow(operation: BulkOperation): OperationRow {
  const { state, createdAt, updatedAt, endedAt, place, refused } = operation
  const { matched, succeeded, failed, hasMore } = operation
  const [placeAt = null, placeRow = null] = place ?? []
  return {
    ...{ state, createdAt, updatedAt, endedAt, placeAt, placeRow },
    ...{ matched, succeeded, failed, hasMore },
    refused: JSON.stringify(refused),
    terms: termsOf(operation),
  }
}
