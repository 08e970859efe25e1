/** Two clocks: one that never jumps for durations, the wall clock for times that people name. */

/** Time as the gateway sees it, passed to everything that needs it instead of the system clock. */
export interface Clock {
  /**
   * Milliseconds since the Unix epoch on a scale that never jumps: wall time at start plus
   * monotonic elapsed time. Durations (leases, retry delays, timeouts) are measured on it, so a
   * clock step cannot end every lease at once (docs/architecture.md §2, "Time").
   */
  now(): number
  /** The system's wall clock, steps included. Only `scheduled_at`, `expires_at` and cron use it. */
  wall(): number
}

/** The process's own clock; both scales in whole milliseconds. */
export function systemClock(): Clock {
  const startedAt = Date.now()
  const origin = performance.now()
  return {
    now: () => Math.round(startedAt + performance.now() - origin),
    wall: () => Date.now(),
  }
}
