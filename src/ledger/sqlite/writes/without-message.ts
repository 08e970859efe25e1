import { setImmediate as nextTurn } from 'node:timers/promises'
import type { EnqueuedSpan, TokenlessJobs } from '../../queues.ts'
import type { Access } from '../commit/access.ts'
import type { Store } from '../state/store.ts'
import { inPages, nextOf, REARM_PAGE, type RearmCursor, rearmRow, spanOf } from './republish.ts'

/** See `TokenlessJobs`. Reads page by page, because a queue may have any number of rows of other kinds. */
export class SqliteTokenless implements TokenlessJobs {
  readonly #store: Store
  readonly #access: Access

  constructor(store: Store, access: Access) {
    this.#store = store
    this.#access = access
  }

  async list(queue: string, span: EnqueuedSpan, limit: number): Promise<string[]> {
    const ids: string[] = []
    let cursor: RearmCursor | null = null
    do {
      const page = this.#access.read(() => this.#page(queue, span, cursor))
      ids.push(...page.rows.map(({ id }) => id))
      cursor = page.next
      await nextTurn()
    } while (cursor !== null && ids.length < limit)
    return ids.slice(0, limit)
  }

  rearm(queue: string, span: EnqueuedSpan): Promise<number> {
    return inPages(this.#access, (cursor) => {
      const { rows, next } = this.#page(queue, span, cursor)
      for (const row of rows) rearmRow(this.#store, row, { isOwed: true, isMessageGone: true })
      return { rearmed: rows.length, next }
    })
  }

  #page(queue: string, { after, before }: EnqueuedSpan, cursor: RearmCursor | null) {
    const { statements } = this.#store
    const span = spanOf(this.#store, queue, cursor)
    const since = after ?? Number.MIN_SAFE_INTEGER
    const rows = statements.tokenless.all(queue, span.after, span.to, REARM_PAGE, since, before)
    return { rows, next: nextOf(rows, span) }
  }
}
