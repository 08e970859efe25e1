/** Operations on many jobs, a page at a time. */
import type { BulkOperation } from '../../ledger/bulk.ts'
import type { FoundId, Place } from '../../ledger/search.ts'
import type { Deps } from '../deps.ts'
import { tellCompleted } from './bulk.ts'
import { actTerms, followMany } from './steer.ts'

/** Jobs that are looked up at once; a search has to find its place again. */
const FOUND = 2_000
/** Jobs that one write is offered; it ends earlier when its time is up. */
const PAGE = 250

/** What was found of an operation, and is still to do. */
interface Ahead {
  place: Place | null
  found: readonly FoundId[]
  next: Place | null
}

/** Runs operations page by page; remembers only what it has found of each. */
export class OperationRunner {
  readonly #deps: Deps
  readonly #ahead = new Map<string, Ahead>()

  constructor(deps: Deps) {
    this.#deps = deps
  }

  /** Forgets what was found of operations that do not run any more. */
  keepOnly(running: readonly BulkOperation[]): void {
    const ids = new Set(running.map(({ id }) => id))
    for (const id of this.#ahead.keys()) if (!ids.has(id)) this.#ahead.delete(id)
  }

  /** One page. `acted`: how many jobs it met. */
  async page(operation: BulkOperation): Promise<{ acted: number; isOver: boolean }> {
    const { ledger } = this.#deps
    const { id, place, cause } = operation
    const ahead = await this.#next(operation)
    const found = ahead.found.slice(0, PAGE)
    const isLast = found.length === ahead.found.length
    const next = isLast ? ahead.next : (found.at(-1)?.place ?? null)
    const terms = { ...actTerms(this.#deps, { requestId: '' }), cause }
    const done = await ledger.bulk.advance(id, { from: place, found, next }, terms)
    if (done === null) return { acted: 0, isOver: true }
    const { acted, operation: now } = done
    followMany(this.#deps, operation.action, acted, cause.requestId)
    const rest = ahead.found.slice(acted.length)
    this.#ahead.set(id, { place: now.place, found: rest, next: ahead.next })
    const isOver = now.state !== 'running'
    if (isOver) this.#end(now)
    return { acted: acted.length, isOver }
  }

  async #next({ id, place, filter }: BulkOperation): Promise<Ahead> {
    const ahead = this.#ahead.get(id)
    const isAtPlace = ahead?.place?.[0] === place?.[0] && ahead?.place?.[1] === place?.[1]
    if (ahead !== undefined && isAtPlace && ahead.found.length > 0) return ahead
    return { place, ...(await this.#deps.ledger.read.search.ids(filter, place, FOUND)) }
  }

  #end(operation: BulkOperation): void {
    tellCompleted(this.#deps, operation.action, operation, operation.cause.requestId)
    this.#deps.bulk.ended(operation.id)
  }
}
