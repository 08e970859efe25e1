/** Numbers, durations and times as people read them. */
import { LANGUAGE, t } from './text.ts'

const NUMBER = new Intl.NumberFormat(LANGUAGE, { maximumFractionDigits: 1 })
const SHORT = new Intl.NumberFormat(LANGUAGE, { notation: 'compact', maximumFractionDigits: 1 })
const INSTANT = new Intl.DateTimeFormat(LANGUAGE, { dateStyle: 'medium', timeStyle: 'medium' })
const CLOCK = new Intl.DateTimeFormat(LANGUAGE, {
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  hourCycle: 'h23',
})
const DATE = new Intl.DateTimeFormat(LANGUAGE, { day: 'numeric', month: 'short' })
const RELATIVE = new Intl.RelativeTimeFormat(LANGUAGE, { numeric: 'always', style: 'narrow' })

export function number(value: number): string {
  return NUMBER.format(value)
}

export function orDash(value: number | undefined): string {
  return value === undefined ? '–' : number(value)
}

/** 12,345 as it is, and more than that in short: 1.2M. */
export function short(value: number): string {
  return Math.abs(value) < 100_000 ? NUMBER.format(value) : SHORT.format(value)
}

export function instant(at: string | number): string {
  return INSTANT.format(new Date(at))
}

export function clock(at: string | number): string {
  return CLOCK.format(new Date(at))
}

/** `Mar 2` */
export function date(at: string | number): string {
  return DATE.format(new Date(at))
}

const SIZES = ['B', 'kB', 'MB', 'GB', 'TB']

/** `12.3 MB`: decimal, as disks are sold. */
export function bytes(value: number): string {
  const sign = value < 0 ? '−' : ''
  const size = Math.abs(value)
  const place = size < 1_000 ? 0 : Math.min(SIZES.length - 1, Math.floor(Math.log10(size) / 3))
  return `${sign}${NUMBER.format(size / 1_000 ** place)} ${SIZES[place]}`
}

const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1_000],
] as const

/** The two largest units: `3 h 12 m`. */
export function duration(ms: number): string {
  if (ms < 1_000) return `${NUMBER.format(Math.round(ms * 10) / 10)} ms`
  const place = UNITS.findIndex(([, size]) => ms >= size)
  const [unit, size] = UNITS[place] ?? ['s', 1_000]
  const next = UNITS[place + 1]
  if (next === undefined) return `${NUMBER.format(ms / size)} ${unit}`
  const rest = Math.floor((ms % size) / next[1])
  return rest === 0
    ? `${Math.floor(ms / size)} ${unit}`
    : `${Math.floor(ms / size)} ${unit} ${rest} ${next[0]}`
}

const STEPS = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
  ['second', 1_000],
] as const

/** `3 min. ago`, `in 2 hr.` */
export function relative(at: string | number, now: number): string {
  const ms = new Date(at).getTime() - now
  const [unit, size] = STEPS.find(([, each]) => Math.abs(ms) >= each) ?? ['second', 1_000]
  if (Math.abs(ms) < 1_000) return t.time.now
  return RELATIVE.format(Math.trunc(ms / size), unit)
}

/** Of this browser. */
export const OWN_ZONE: string = Intl.DateTimeFormat().resolvedOptions().timeZone

interface Shown {
  hasSeconds?: boolean
  now?: number
}

/**
 * What the clocks of a zone show: `Mon, Mar 2, 03:00`, with the year if it is not this one. A zone that this browser does
 * not know: UTC's.
 */
export function inZone(
  at: string | number,
  timeZone: string,
  { hasSeconds = false, now = Date.now() }: Shown = {},
): string {
  const year = (instant: string | number) => formed({ year: 'numeric' }, instant, timeZone)
  return formed(
    {
      weekday: 'short',
      day: 'numeric',
      month: 'short',
      ...(year(at) !== year(now) && { year: 'numeric' }),
      hour: '2-digit',
      minute: '2-digit',
      ...(hasSeconds && { second: '2-digit' }),
      hourCycle: 'h23',
    },
    at,
    timeZone,
  )
}

function formed(form: Intl.DateTimeFormatOptions, at: string | number, timeZone: string): string {
  try {
    return new Intl.DateTimeFormat(LANGUAGE, { ...form, timeZone }).format(new Date(at))
  } catch {
    return `${new Intl.DateTimeFormat(LANGUAGE, { ...form, timeZone: 'UTC' }).format(new Date(at))} UTC`
  }
}
