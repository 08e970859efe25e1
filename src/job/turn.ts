/** Where a delivery stands among those of its queue that are here. */
export interface Turn {
  readonly priority: number
  /** Arrival in this process. */
  readonly order: number
}

/** By exact OJS priority, then by arrival. */
export function goesBefore(a: Turn, b: Turn): boolean {
  return a.priority !== b.priority ? a.priority > b.priority : a.order < b.order
}
