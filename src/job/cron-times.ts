import { patternOf } from './cron-expression.ts'
import { zoneOf } from './cron-zone.ts'

/** A checked expression in a checked zone. */
export interface Schedule {
  expression: string
  timezone: string
}

export interface Tick {
  /** By the wall clock, whole seconds. */
  at: number
  /** The change of the clocks that leapt over an earlier time of the schedule; null: none. */
  gapAt: number | null
}

/** As many changes of the clocks as a schedule may fall on in a row: a hundred years of them. */
const MAX_CHANGES = 100

/**
 * The first time of the schedule after `instant`; null: there is none within the years that are
 * searched. A local time that the clocks leap over does not come; one that they show twice comes
 * once, the first time (ojs-digest §7.3).
 *
 * croner itself only counts on a calendar without zones: where clocks change it makes exceptions by
 * the look of the expression, which the OJS rule does not know.
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
    // In a gap, or shown for the second time: nothing comes before the clocks have settled.
    const change = zone.changeAround(local)
    if (at === null) gapAt ??= change.at
    from = change.settledLocal - 1_000
  }
  return null
}
