/** Actions on many jobs: by ids, and operations by filter, which page through the ledger. */
import type { Acted, BulkLedger, BulkOperation, NewOperation } from '../../bulk.ts'
import type { FoundId, Place } from '../../search.ts'
import { actOnAll, actOnSome } from '../../writes/acting.ts'
import type { Access } from '../commit/access.ts'
import { onlyRow } from '../sql/driver.ts'
import type { Store } from '../state/store.ts'
import { actOn } from './act.ts'
import { toOperation } from './operation-row.ts'

const MAX_RUNNING = 100
/** Ended operations that are kept. */
const MAX_ENDED = 1_000
const MAX_REFUSED = 100

type Page = Parameters<BulkLedger['advance']>[1]

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

  begin({ id, createdAt, ...rest }: NewOperation): Promise<boolean> {
    const { beginBulk, bulkCounts, pruneBulk } = this.#store.statements
    return this.#access.writeMany(1, () => {
      if (onlyRow(bulkCounts.get()).running >= MAX_RUNNING) return false
      beginBulk.run(id, createdAt, JSON.stringify(rest))
      pruneBulk.run(MAX_ENDED)
      return true
    })
  }

  advance(...[id, page, terms]: Parameters<BulkLedger['advance']>) {
    return this.#access.writeMany(page.found.length, () => {
      const before = this.#find(id)
      const isAtPlace = before !== null && isSame(before.place, page.from)
      if (before?.state !== 'running' || !isAtPlace) return null
      const left = before.limit === null ? page.found.length : before.limit - before.matched
      const found = page.found.slice(0, left)
      const ids = found.map((one) => one.id)
      const acted = actOnSome(ids, terms, (id) => actOn(this.#store, id, before.steering, terms))
      const operation = moved(before, { ...page, found }, acted, page.found.length > left)
      return { operation: this.#keep({ ...operation, updatedAt: terms.now }), acted }
    })
  }

  stop(id: string, now: number): Promise<BulkOperation | null> {
    return this.#access.writeMany(1, () => {
      const operation = this.#find(id)
      if (operation?.state !== 'running') return operation
      return this.#keep({ ...operation, state: 'stopped', hasMore: true, updatedAt: now })
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

  #keep(operation: BulkOperation): BulkOperation {
    const { id, state, place, matched, succeeded, failed, refused, hasMore, updatedAt } = operation
    const [at = null, row = null] = place ?? []
    const endedAt = state === 'running' ? null : updatedAt
    const counts = [matched, succeeded, failed] as const
    this.#store.statements.keepBulk.run(
      ...([id, state, at, row, ...counts, JSON.stringify(refused)] as const),
      hasMore ? 1 : 0,
      updatedAt,
      endedAt,
    )
    return { ...operation, endedAt }
  }
}

function isSame(one: Place | null, other: Place | null): boolean {
  return one?.[0] === other?.[0] && one?.[1] === other?.[1]
}

/** The operation behind the jobs that were acted on. `isCut`: its limit left some of the page. */
function moved(
  before: BulkOperation,
  { found, next }: Page,
  acted: readonly Acted[],
  isCut: boolean,
): BulkOperation {
  const isAll = acted.length === found.length
  const last: FoundId | undefined = found[acted.length - 1]
  const refused = acted.filter((one) => one.did === null)
  const matched = before.matched + acted.length
  const isAtLimit = before.limit !== null && matched >= before.limit
  const isOver = isAtLimit || (isAll && next === null)
  return {
    ...before,
    state: isOver ? 'completed' : 'running',
    place: isAll && next !== null && !isCut ? next : (last?.place ?? before.place),
    matched,
    succeeded: before.succeeded + acted.length - refused.length,
    failed: before.failed + refused.length,
    refused: [...before.refused, ...refused.map(({ id, reason }) => ({ id, reason }))].slice(
      0,
      MAX_REFUSED,
    ),
    hasMore: isOver && (isCut || !isAll || next !== null),
  }
}
