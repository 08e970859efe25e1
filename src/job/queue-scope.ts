/** The queues that an API key may use: names, and beginnings of names that end in `*`. */
export type QueueScope = readonly string[]

/** A name, or a beginning of names: `b.*` is every queue whose name begins with `b.`. */
const PATTERN = /^(?:[a-z0-9][a-z0-9\-.]*)?\*?$/

export function isQueuePattern(text: string): boolean {
  return text !== '' && text.length <= 128 && PATTERN.test(text)
}

/** Whether every queue of `inner` is one of `scope`. */
export function isScopeWithin(scope: QueueScope, inner: QueueScope): boolean {
  // `b.*` has `b.c` and `b.c*` in it, and not `b*`.
  return inner.every((pattern) =>
    pattern.endsWith('*')
      ? scope.some((outer) => outer.endsWith('*') && pattern.startsWith(outer.slice(0, -1)))
      : isInScope(scope, pattern),
  )
}

export function isInScope(scope: QueueScope, queue: string): boolean {
  return scope.some((pattern) =>
    pattern.endsWith('*') ? queue.startsWith(pattern.slice(0, -1)) : pattern === queue,
  )
}
