/** See `ConcurrencyLedger`. */
import type { ConcurrencyLedger, KeyNews, KeyStanding } from '../../concurrency.ts'
import type { Access } from '../commit/access.ts'
import { activeOf, freedKey, standingsOf } from '../concurrency/lines.ts'
import type { Store } from '../state/store.ts'

export class SqliteConcurrency implements ConcurrencyLedger {
  readonly #store: Store
  readonly #access: Access

  constructor(store: Store, access: Access) {
    this.#store = store
    this.#access = access
  }

  onNews(listener: (news: KeyNews) => void): void {
    this.#store.keyed.listen(listener)
  }

  active(key: string): Promise<number> {
    return this.#access.ask(() => activeOf(this.#store, key))
  }

  keys(after: string, limit: number): Promise<string[]> {
    return this.#access.ask(() => {
      const { nextKey } = this.#store.statements
      const keys: string[] = []
      for (let last = after; keys.length < limit; ) {
        const key = nextKey.get(last)?.key ?? null
        if (key === null) break
        keys.push(key)
        last = key
      }
      return keys
    })
  }

  standings(keys: readonly string[]): Promise<ReadonlyMap<string, KeyStanding>> {
    return this.#access.ask(() => standingsOf(this.#store, keys))
  }

  async review(after: string, limit: number): Promise<string | null> {
    const keys: string[] = []
    this.#access.read(() => {
      const { nextHeldKey } = this.#store.statements
      for (let key = nextHeldKey.get(after)?.key; key !== undefined && keys.length < limit; ) {
        keys.push(key)
        key = nextHeldKey.get(key)?.key
      }
    })
    if (keys.length === 0) return null
    await this.#access.writeMany(keys.length, () => {
      for (const key of keys) this.#review(key)
    })
    return keys.length < limit ? null : (keys.at(-1) ?? null)
  }

  #review(key: string): void {
    let queue = ''
    for (;;) {
      const next = this.#store.statements.nextLineOfKey.get(key, queue)
      if (next === undefined) return
      queue = next.queue
      freedKey(this.#store, { key, queue })
    }
  }
}
