/** Time zones of the IANA database: local times, and changes of the clocks. */
import { echoed, invalidField } from '../../errors.ts'
import { memo } from '../values/cache.ts'

const DAY_MS = 86_400_000
/** Changes of the clocks of one zone are further apart: the shortest summer, during Ramadan, has four weeks. */
const WEEK_MS = 7 * DAY_MS
const MAX_NAME = 64

/**
 * Accepted names of the IANA database: areas, places, and `GMT`, which is unambiguous. Its other names are
 * abbreviations (`EST`, `CET`), which `Intl` accepts but which mean different zones to different people: they
 * are refused with a 400 (OJS cron).
 */
const AREA =
  /^(?:Africa|America|Antarctica|Arctic|Asia|Atlantic|Australia|Brazil|Canada|Chile|Etc|Europe|Indian|Mexico|Pacific|US)\//i
const PLACES = new Set([
  ...['utc', 'gmt', 'greenwich', 'cuba', 'egypt', 'eire', 'gb', 'gb-eire', 'hongkong', 'iceland'],
  ...['iran', 'israel', 'jamaica', 'japan', 'kwajalein', 'libya', 'navajo', 'nz', 'nz-chat'],
  ...['poland', 'portugal'],
  ...['prc', 'roc', 'rok', 'singapore', 'turkey', 'universal', 'w-su', 'zulu'],
])

/**
 * Wall time in one zone. A *local* time is what the zone's clocks show, as the Unix milliseconds at which
 * UTC clocks show the same.
 */
export interface Zone {
  localOf(instant: number): number
  /** The first instant at which the clocks show `local`; null if they leap over it. */
  instantOf(local: number): number | null
  /** The change of the clocks that makes `local` exist twice or not at all. */
  changeAround(local: number): { at: number; settledLocal: number }
  /** The changes of the clocks after `from`, up to `to` (instants), in order. */
  changes(from: number, to: number): Iterable<ClockChange>
}

/** `before` and `after`: how far local time is ahead of UTC, in ms. */
interface ClockChange {
  at: number
  before: number
  after: number
}

/** Throws 400 naming `field` when it is not a zone of the IANA database. */
export function checkZone(name: string, field: string): void {
  if (name.length <= MAX_NAME && (AREA.test(name) || PLACES.has(name.toLowerCase()))) {
    try {
      zoneOf(name)
      return
    } catch {
      // `Intl` does not know the zone: refused below, as any other name.
    }
  }
  throw invalidField(
    field,
    `The '${field}' field must be an IANA time zone such as "America/New_York" or "UTC".`,
    { expected: 'IANA time zone', received: echoed(name) },
  )
}

/** The zone of a checked name. 512 are more than all zones; the rest is for other upper and lower case. */
export const zoneOf = memo(512, (name: string): Zone => {
  const offsetAt = offsets(name)
  /**
   * The offsets before and after `local`. Looks a day to either side, since no offset is longer than a day
   * and changes of the clocks are further apart.
   */
  const around = (local: number) => [offsetAt(local - DAY_MS), offsetAt(local + DAY_MS)] as const
  return {
    localOf: (instant) => instant + offsetAt(instant),
    instantOf(local) {
      const [before, after] = around(local)
      if (before === after) return local - before
      const instants = [local - Math.max(before, after), local - Math.min(before, after)]
      return instants.find((instant) => instant + offsetAt(instant) === local) ?? null
    },
    changeAround(local) {
      const [before, after] = around(local)
      const at = changeBetween(offsetAt, local - DAY_MS, local + DAY_MS)
      return { at, settledLocal: at + Math.max(before, after) }
    },
    *changes(from, to) {
      for (let at = from; at < to; at += WEEK_MS) {
        const [before, after] = [offsetAt(at), offsetAt(at + WEEK_MS)]
        if (before !== after) yield { at: changeBetween(offsetAt, at, at + WEEK_MS), before, after }
      }
    },
  }
})

/** The instant between `from` and `to`, to the second, at which the offset changes. */
function changeBetween(offsetAt: (instant: number) => number, from: number, to: number): number {
  const before = offsetAt(from)
  let [low, high] = [Math.floor(from / 1000), Math.floor(to / 1000)]
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2)
    if (offsetAt(middle * 1000) === before) low = middle
    else high = middle
  }
  return high * 1000
}

const OFFSET = /GMT(?:([+-])(\d\d):(\d\d)(?::(\d\d))?)?$/

/** How far local time is ahead of UTC at an instant, in milliseconds. Throws for an unknown zone. */
function offsets(name: string): (instant: number) => number {
  const format = new Intl.DateTimeFormat('en-US', { timeZone: name, timeZoneName: 'longOffset' })
  if (format.resolvedOptions().timeZone === 'UTC') return () => 0
  return (instant) => {
    const match = OFFSET.exec(format.format(instant))
    if (!match) throw new Error(`no offset of ${name}`)
    const [, sign, hours = '0', minutes = '0', seconds = '0'] = match
    const ms = (Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds)) * 1000
    return sign === '-' ? -ms : ms
  }
}
