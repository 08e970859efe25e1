/** Actions on many jobs: by ids, and operations by filter, which page through the ledger. */
import type { Acted, BulkLedger, BulkOperation, NewOperation } from '../../bulk.ts'
import { actOnAll, actOnSome } from '../../writes/acting.ts'
import { advanced, MAX_ENDED, MAX_RUNNING, stopped, termsOf } from '../../writes/operations.ts'
import type { Access } from '../commit/access.ts'
import type { OperationRow } from '../sql/bulk.ts'
import { onlyRow } from '../sql/driver.ts'
import type { Store } from '../state/store.ts'
import { actOn } from './act.ts'

export class SqliteBulk implements BulkLedger {
  readonly #store: Store
  readonly #access: Access

  constructor(store: Store, access: Access) {
    this.#store = store
    this.#access = access
  }

  act(...[ids, steering, { isAtomic, ...terms }]: Parameters<BulkLedger['act']>): Promise<Acted[]> {
    const act = (id: string) => actOn(this.#store, id, steering, terms)
    return this.#access.writeMany(ids.length, () =>
      isAtomic ? actOnAll(ids, act) : actOnSome(ids, terms, act),
    )
  }

  begin(operation: NewOperation): Promise<boolean> {
    const { beginBulk, bulkCounts, pruneBulk } = this.#store.statements
    const { id, createdAt } = operation
    return this.#access.writeMany(1, () => {
      if (onlyRow(bulkCounts.get()).running >= MAX_RUNNING) return false
      beginBulk.run(id, createdAt, termsOf(operation))
      pruneBulk.run(MAX_ENDED)
      return true
    })
  }

  advance(...[id, page, terms]: Parameters<BulkLedger['advance']>) {
    return this.#access.writeMany(page.found.length, () => {
      const done = advanced(this.#find(id), page, terms, (one, { steering }) =>
        actOn(this.#store, one, steering, terms),
      )
      if (done !== null) this.#keep(done.operation)
      return done
    })
  }

  stop(id: string, now: number): Promise<BulkOperation | null> {
    return this.#access.writeMany(1, () => {
      const operation = this.#find(id)
      const after = operation && stopped(operation, now)
      if (after !== null) this.#keep(after)
      return after ?? operation
    })
  }

  async find(id: string): Promise<BulkOperation | null> {
    return this.#access.read(() => this.#find(id))
  }

  async list({ limit, offset }: { limit: number; offset: number }) {
    const { bulkList, bulkCounts } = this.#store.statements
    return this.#access.read(() => ({
      operations: bulkList.all(limit, offset).map(toOperation),
      total: onlyRow(bulkCounts.get()).all,
    }))
  }

  async running(): Promise<BulkOperation[]> {
    return this.#access.read(() => this.#store.statements.bulkRunning.all().map(toOperation))
  }

  #find(id: string): BulkOperation | null {
    const row = this.#store.statements.findBulk.get(id)
    return row === undefined ? null : toOperation(row)
  }

  #keep(operation: BulkOperation): void {
    const { id, state, place, matched, succeeded, failed, refused, hasMore } = operation
    const { updatedAt, endedAt } = operation
    const [at = null, row = null] = place ?? []
    const counts = [matched, succeeded, failed] as const
    this.#store.statements.keepBulk.run(
      ...([id, state, at, row, ...counts, JSON.stringify(refused)] as const),
      hasMore ? 1 : 0,
      updatedAt,
      endedAt,
    )
  }
}

function toOperation(row: OperationRow): BulkOperation {
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
