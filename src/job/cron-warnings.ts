import { patternOf } from './cron-expression.ts'
import type { Schedule } from './cron-times.ts'
import { zoneOf } from './cron-zone.ts'
import { timestamp } from './document.ts'

/** What a client should know about an entry that it registers. */
export interface CronWarning {
  code: 'repeated_times' | 'skipped_times'
  message: string
  /** RFC 3339: when it happens first. */
  at: string
}

/** A schedule may meet a change of the clocks only in some years, such as each 1 November at 1:30. */
const HORIZON_MS = 5 * 366 * 86_400_000

/**
 * Warns of the next change of the clocks after `now` (wall time, ms) that repeats a local time of the schedule,
 * and of the next that skips one.
 */
export function cronWarnings({ expression, timezone }: Schedule, now: number): CronWarning[] {
  const pattern = patternOf(expression)
  const found: CronWarning[] = []
  for (const { at, before, after } of zoneOf(timezone).changes(now, now + HORIZON_MS)) {
    const from = at + Math.min(before, after)
    const to = at + Math.max(before, after)
    const code = after < before ? 'repeated_times' : 'skipped_times'
    const local = pattern.after(from - 1_000)
    if (local === null || local >= to || found.some((warning) => warning.code === code)) continue
    found.push({ code, message: message(code, timezone, from, to), at: timestamp(at) })
    if (found.length === 2) break
  }
  return found
}

function message(code: CronWarning['code'], timezone: string, from: number, to: number): string {
  const [day, start, end] = [dateOf(from), clockOf(from), clockOf(to)]
  return code === 'repeated_times'
    ? `On ${day} the clocks of ${timezone} show ${start} to ${end} twice: a time in between makes one job, the first time it comes.`
    : `On ${day} the clocks of ${timezone} leap from ${start} to ${end}: a time in between makes no job.`
}

function dateOf(local: number): string {
  return new Date(local).toISOString().slice(0, 10)
}

function clockOf(local: number): string {
  return new Date(local).toISOString().slice(11, 16)
}
