/** ISO 8601 durations and the short form, in milliseconds. */
import { echoed, invalidField } from '../../errors.ts'

const MS_PER = {
  weeks: 604_800_000,
  days: 86_400_000,
  hours: 3_600_000,
  minutes: 60_000,
  seconds: 1_000,
} as const

// Years and months have no fixed length; the calendar-free OJS durations use 365 and 30 days.
const MS_PER_YEAR = 365 * MS_PER.days
const MS_PER_MONTH = 30 * MS_PER.days

const ISO =
  /^P(?:(\d+(?:\.\d+)?)Y)?(?:(\d+(?:\.\d+)?)M)?(?:(\d+(?:\.\d+)?)W)?(?:(\d+(?:\.\d+)?)D)?(?:T(?:(\d+(?:\.\d+)?)H)?(?:(\d+(?:\.\d+)?)M)?(?:(\d+(?:\.\d+)?)S)?)?$/
const ISO_UNITS = [
  MS_PER_YEAR,
  MS_PER_MONTH,
  MS_PER.weeks,
  MS_PER.days,
  MS_PER.hours,
  MS_PER.minutes,
  MS_PER.seconds,
]

// `1s`, `300s`: the core document's own examples use this form (OJS core).
const SHORT = /^(\d+(?:\.\d+)?)(ms|s|m|h|d|w)$/
const SHORT_UNITS: Record<string, number> = {
  ms: 1,
  s: MS_PER.seconds,
  m: MS_PER.minutes,
  h: MS_PER.hours,
  d: MS_PER.days,
  w: MS_PER.weeks,
}

/**
 * Longest duration that an option may name; a longer one is surely a mistake. An instant plus this duration
 * is still an exact integer in JavaScript and in SQLite.
 */
export const MAX_DURATION_MS = 10 * MS_PER_YEAR

/**
 * Parses an ISO 8601 duration (`PT1.5S`, `P1DT2H`) or the short form (`300s`) to milliseconds. Throws
 * `OjsError` 400 naming `field`.
 */
export function parseDuration(text: string, field: string): number {
  const ms = isoMs(text) ?? shortMs(text)
  if (ms !== null && ms > MAX_DURATION_MS) {
    throw invalidField(field, `The '${field}' field must not be longer than ten years.`, {
      received: text,
    })
  }
  if (ms === null) {
    throw invalidField(
      field,
      `The '${field}' field must be an ISO 8601 duration such as "PT30S".`,
      {
        expected: 'duration',
        received: echoed(text),
      },
    )
  }
  return Math.round(ms)
}

/** A duration in ms that a request gives as text or in whole seconds. Throws `OjsError` 400 naming `field`. */
export function durationMsOf(given: number | string, field: string): number {
  return parseDuration(typeof given === 'number' ? `${given}s` : given, field)
}

interface NamedLease {
  visibility_timeout_ms?: number | null
  /** Seconds, or a duration. */
  visibility_timeout?: number | string | null
}

/** The length of a lease, by either name; null: none is named. `field`: the place of the second name. */
export function leaseMsOf(named: NamedLease, field: string): number | null {
  const { visibility_timeout_ms: exact, visibility_timeout: other } = named
  if (exact != null || other == null) return exact ?? null
  if (typeof other === 'number') return other * 1000
  const ms = parseDuration(other, field)
  if (ms < 1) throw invalidField(field, `The '${field}' field must be longer than 0.`)
  return ms
}

/** `null` when the text is not an ISO 8601 duration. */
function isoMs(text: string): number | null {
  const parts = text.length <= 64 ? ISO.exec(text)?.slice(1) : undefined
  if (!parts || text.endsWith('T') || parts.every((part) => part === undefined)) return null
  return parts.reduce((sum, part, i) => sum + Number(part ?? 0) * (ISO_UNITS[i] ?? 0), 0)
}

function shortMs(text: string): number | null {
  const match = text.length <= 32 ? SHORT.exec(text) : null
  const unit = SHORT_UNITS[match?.[2] ?? '']
  return match && unit !== undefined ? Number(match[1]) * unit : null
}

/** The shortest ISO 8601 form: 300000 → `PT5M`, 1500 → `PT1.5S`. */
export function formatDuration(ms: number): string {
  if (ms >= MS_PER.hours && ms % MS_PER.hours === 0) return `PT${ms / MS_PER.hours}H`
  if (ms >= MS_PER.minutes && ms % MS_PER.minutes === 0) return `PT${ms / MS_PER.minutes}M`
  return `PT${ms / MS_PER.seconds}S`
}

/** True for an ISO 8601 duration, which can be echoed unchanged where seed 003 wants one. */
export function isIsoDuration(text: string): boolean {
  return isoMs(text) !== null
}
