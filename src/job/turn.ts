/** Where a delivery stands among those of its queue that are here. */
export interface Turn {
  readonly priority: number
  /** Of its publish, where it was ours; else of its arrival in this process. */
  readonly order: number
}

/** By exact OJS priority, then first in, first out. */
export function goesBefore(a: Turn, b: Turn): boolean {
  return a.priority !== b.priority ? a.priority > b.priority : a.order < b.order
}

/** Everything goes before it. */
export const LAST_TURN: Turn = {
  priority: Number.NEGATIVE_INFINITY,
  order: Number.POSITIVE_INFINITY,
}
