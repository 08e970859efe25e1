/** Which of two buffered deliveries goes first: by priority, then first in, first out. */

/** The rank of a delivery among the buffered deliveries of its queue. */
export interface Turn {
  readonly priority: number
  /** The order of the publish for the gateway's own messages, else of the arrival in this process. */
  readonly order: number
}

/** True if `a` is served before `b`: by exact OJS priority, then first in, first out. */
export function goesBefore(a: Turn, b: Turn): boolean {
  return a.priority !== b.priority ? a.priority > b.priority : a.order < b.order
}

/** A turn after all others. */
export const LAST_TURN: Turn = {
  priority: Number.NEGATIVE_INFINITY,
  order: Number.POSITIVE_INFINITY,
}
