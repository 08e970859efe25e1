/** The `format`s that are checked, as their RFCs define them. */
import { isIPv4, isIPv6 } from 'node:net'

/** Longer texts match no format: every check below is linear, but not free. */
const MAX_LENGTH = 8_192

const DATE = /^(\d{4})-(\d\d)-(\d\d)$/
const TIME =
  /^([01]\d|2[0-3]):([0-5]\d):([0-5]\d|60)(?:\.\d+)?(?:z|([+-])([01]\d|2[0-3]):([0-5]\d))$/i
// RFC 3339, Appendix A: no unit between two others may be missing.
const DAYS = String.raw`(?:\d+Y(?:\d+M(?:\d+D)?)?|\d+M(?:\d+D)?|\d+D)`
const TIMES = String.raw`(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S)`
const DURATION = new RegExp(String.raw`^P(?:\d+W|${DAYS}(?:T${TIMES})?|T${TIMES})$`)
// RFC 5321 §4.1.2.
const DOT_STRING = /^[a-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[a-z0-9!#$%&'*+/=?^_`{|}~-]+)*$/i
const QUOTED_STRING = /^"(?:[ !#-[\]-~]|\\[ -~])*"$/
const ADDRESS_LITERAL = /^\[(ipv6:)?([0-9a-f.:]+)\]$/i
const LABEL = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/i
// RFC 3986, Appendix A.
const NAME = String.raw`(?:[\w.~!$&'()*+,;=-]|%[0-9a-f]{2})`
const SEGMENT = `(?:[:@]|${NAME})`
const AUTHORITY = String.raw`(?:(?::|${NAME})*@)?(?:\[[0-9a-f:.]+\]|${NAME}*)(?::\d*)?`
const PATH = `(?://${AUTHORITY}(?:/${SEGMENT}*)*|/?(?:${SEGMENT}+(?:/${SEGMENT}*)*)?)`
const MORE = `(?:[/?]|${SEGMENT})*`
const URI = new RegExp(String.raw`^[a-z][a-z0-9+.-]*:${PATH}(?:\?${MORE})?(?:#${MORE})?$`, 'i')
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

const DAY_MINUTES = 24 * 60

/** RFC 3339 §5.6 and §5.7: second 60 is a leap second, which ends a day in UTC. */
function isTime(text: string): boolean {
  const [, hour, minute, second, sign, offsetHour = 0, offsetMinute = 0] = TIME.exec(text) ?? []
  if (second !== '60') return second !== undefined
  const offset = Number(offsetHour) * 60 + Number(offsetMinute)
  const utc = Number(hour) * 60 + Number(minute) - (sign === '-' ? -offset : offset)
  return (utc + DAY_MINUTES) % DAY_MINUTES === DAY_MINUTES - 1
}

/** With a space instead of the `T` too, as RFC 3339 §5.6 allows for readability. */
function isDateTime(text: string): boolean {
  return /^[Tt ]$/.test(text.charAt(10)) && isDate(text.slice(0, 10)) && isTime(text.slice(11))
}

function isHostname(text: string): boolean {
  return text.length <= 253 && text.split('.').every((label) => LABEL.test(label))
}

function isEmail(text: string): boolean {
  const at = text.lastIndexOf('@')
  const local = text.slice(0, at)
  const isLocal = at >= 1 && at <= 64 && (DOT_STRING.test(local) || QUOTED_STRING.test(local))
  return isLocal && isMailDomain(text.slice(at + 1))
}

function isMailDomain(text: string): boolean {
  const [, isOfVersion6, address = ''] = ADDRESS_LITERAL.exec(text) ?? []
  if (address === '') return isHostname(text)
  return isOfVersion6 === undefined ? isIPv4(address) : isIPv6(address)
}

const CHECKS: Readonly<Record<string, (text: string) => boolean>> = {
  date: isDate,
  time: isTime,
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

/** What is wrong with a JSON Schema that a client wants to register, in one clause. */
export class SchemaFault extends Error {
  override readonly name = 'SchemaFault'
}
