import type { WithNews, WorkflowNews } from '../../src/ledger/ended.ts'

/** What an outcome may have in it that has news of its own. */
interface Parts extends WithNews {
  jobs?: unknown
  cancelled?: unknown
  replacing?: unknown
  stored?: unknown
  acted?: unknown
}

/** All news in the outcome of a write, in order. */
export function newsIn(outcome: unknown): WorkflowNews[] {
  if (Array.isArray(outcome)) return outcome.flatMap(newsIn)
  if (typeof outcome !== 'object' || outcome === null) return []
  const { news = [], jobs, cancelled, replacing, stored, acted }: Parts = outcome
  return [...news, ...[jobs, cancelled, replacing, stored, acted].flatMap(newsIn)]
}

/** The same ledger. `hear` is called with the news in the outcome of each write, when the write resolves. */
export function hearing<T extends object>(ledger: T, hear: (news: WorkflowNews) => void): T {
  return new Proxy(ledger, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name)
      if (typeof member === 'object' && member !== null) return hearing(member, hear)
      if (typeof member !== 'function') return member
      return (...args: unknown[]) => {
        const outcome: unknown = member.apply(target, args)
        return outcome instanceof Promise ? outcome.then(heard) : outcome
      }
    },
  })

  function heard(outcome: unknown): unknown {
    for (const one of newsIn(outcome)) hear(one)
    return outcome
  }
}
