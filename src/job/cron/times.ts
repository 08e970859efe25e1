/** The ticks of a schedule in its zone, across changes of the clocks. */
import { patternOf } from './expression.ts'
import { zoneOf } from './zone.ts'

/** A checked expression in a checked zone. */
export interface Schedule {
  expression: string
  timezone: string
}

export interface Tick {
  /** Wall time, ms, in whole seconds. */
  at: number
  /** The instant of a change of the clocks that leapt over an earlier time of the schedule; null: none. */
  gapAt: number | null
}

/** Bounds the search for a schedule whose times all fall on changes of the clocks: about a hundred years. */
const MAX_CHANGES = 100

/**
 * Returns the first time of the schedule after `instant`; null if there is none within the years that are
 * searched. A local time that the clocks leap over is skipped; one that they show twice counts once, the
 * first time (OJS cron).
 *
 * Uses croner only on a calendar without time zones. With zones, croner treats changes of the clocks
 * differently depending on the form of the expression, which is not the OJS rule.
 */
export function nextTick({ expression, timezone }: Schedule, instant: number): Tick | null {
  const pattern = patternOf(expression)
  const zone = zoneOf(timezone)
  let from = zone.localOf(instant)
  let gapAt: number | null = null
  for (let i = 0; i < MAX_CHANGES; i++) {
    const local = pattern.after(from)
    if (local === null) return null
    const at = zone.instantOf(local)
    if (at !== null && at > instant) return { at, gapAt }
    // `local` is in a gap, or shown for the second time: go on after the clocks have settled.
    const change = zone.changeAround(local)
    if (at === null) gapAt ??= change.at
    from = change.settledLocal - 1_000
  }
  return null
}

/** The next times of the schedule after `instant`, up to `limit`. */
export function ticksOf(schedule: Schedule, instant: number, limit: number): number[] {
  const times: number[] = []
  let tick = nextTick(schedule, instant)
  while (tick !== null && times.length < limit) {
    times.push(tick.at)
    tick = nextTick(schedule, tick.at)
  }
  return times
}
