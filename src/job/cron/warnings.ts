/** What a client should know about a cron entry that it registers. */
import { timestamp } from '../document.ts'
import { namedTimes } from '../envelope.ts'
import { isRelative, parseInstant } from '../values/instant.ts'
import type { CronDefinition } from './entry.ts'
import { patternOf } from './expression.ts'
import type { Schedule } from './times.ts'
import { zoneOf } from './zone.ts'

export interface CronWarning {
  code: 'repeated_times' | 'skipped_times' | 'expired_jobs'
  message: string
  /** RFC 3339: when it happens first. */
  at: string
}

type ClockCode = Exclude<CronWarning['code'], 'expired_jobs'>

/** A schedule may meet a change of the clocks only in some years, such as each 1 November at 1:30. */
const HORIZON_MS = 5 * 366 * 86_400_000

/** Warnings about an entry that is registered at `now` (wall time, ms). */
export function cronWarnings(definition: CronDefinition, now: number): CronWarning[] {
  return [...clockWarnings(definition, now), ...expiryWarnings(definition, now)]
}

/** From an absolute expiry on, the entry makes jobs that nobody runs. */
function expiryWarnings({ template }: CronDefinition, now: number): CronWarning[] {
  const { expiry } = namedTimes(template)
  if (expiry === null || isRelative(expiry.text)) return []
  const at = timestamp(parseInstant(expiry.text, expiry.field, now).ms)
  const text = `From ${at} on, each job of the entry has expired before it can run.`
  return [{ code: 'expired_jobs', message: text, at }]
}

/**
 * The next change of the clocks that repeats a local time of the schedule, and the next that skips one.
 */
function clockWarnings({ expression, timezone }: Schedule, now: number): CronWarning[] {
  const pattern = patternOf(expression)
  const found: CronWarning[] = []
  for (const { at, before, after } of zoneOf(timezone).changes(now, now + HORIZON_MS)) {
    const from = at + Math.min(before, after)
    const to = at + Math.max(before, after)
    const code: ClockCode = after < before ? 'repeated_times' : 'skipped_times'
    const local = pattern.after(from - 1_000)
    if (local === null || local >= to || found.some((warning) => warning.code === code)) continue
    found.push({ code, message: message(code, timezone, from, to), at: timestamp(at) })
    if (found.length === 2) break
  }
  return found
}

function message(code: ClockCode, timezone: string, from: number, to: number): string {
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
