import { isIPv4, isIPv6 } from 'node:net'

/** Longer texts match no format: every check below is linear, but not free. */
const MAX_LENGTH = 8_192

const DATE = /^(\d{4})-(\d\d)-(\d\d)$/
const TIME = /^([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?(z|[+-]([01]\d|2[0-3]):[0-5]\d)$/i
const DURATION = /^P(\d+W|(?=\d|T\d)(\d+Y)?(\d+M)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+S)?)?)$/
const LABEL = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/i
const URI = /^[a-z][a-z0-9+.-]*:[^\s<>"{}|\\^`]*$/i
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

function isDate(text: string): boolean {
  const [, year, month, day] = (DATE.exec(text) ?? []).map(Number)
  if (year === undefined || month === undefined || day === undefined) return false
  // Day 0 of the next month is the last one of this month.
  return month >= 1 && month <= 12 && day >= 1 && day <= lastDay(year, month)
}

function lastDay(year: number, month: number): number {
  const date = new Date(0)
  date.setUTCFullYear(year, month, 0)
  return date.getUTCDate()
}

function isDateTime(text: string): boolean {
  return /^[Tt ]$/.test(text.charAt(10)) && isDate(text.slice(0, 10)) && TIME.test(text.slice(11))
}

function isHostname(text: string): boolean {
  return text.length <= 253 && text.split('.').every((label) => LABEL.test(label))
}

function isEmail(text: string): boolean {
  const at = text.lastIndexOf('@')
  const local = text.slice(0, at)
  return at >= 1 && at <= 64 && !/[\s@]/.test(local) && isHostname(text.slice(at + 1))
}

const CHECKS: Readonly<Record<string, (text: string) => boolean>> = {
  date: isDate,
  time: (text) => TIME.test(text),
  'date-time': isDateTime,
  duration: (text) => DURATION.test(text),
  email: isEmail,
  hostname: isHostname,
  ipv4: isIPv4,
  ipv6: (text) => isIPv6(text) && !text.includes('%'),
  uri: (text) => URI.test(text),
  uuid: (text) => UUID.test(text),
}

/**
 * The values of `format` that are checked. Any other is a mere annotation, as draft 2020-12 allows for all of
 * them (Validation §7).
 */
export const FORMATS: Readonly<Record<string, (text: string) => boolean>> = Object.fromEntries(
  Object.entries(CHECKS).map(([name, check]) => [
    name,
    (text: string) => text.length <= MAX_LENGTH && check(text),
  ]),
)
