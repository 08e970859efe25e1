import fc from 'fast-check'
import { expect, test } from 'vitest'
import { nextTick, type Schedule } from '../../src/job/cron/times.ts'

const MINUTE_MS = 60_000
const ZONES = [
  ...['UTC', 'America/New_York', 'Europe/Berlin', 'Australia/Sydney', 'Australia/Lord_Howe'],
  ...['America/Santiago', 'Africa/Casablanca', 'Asia/Kathmandu', 'Pacific/Auckland'],
]

interface Field {
  text: string
  /** What the field means, by counting. */
  has(value: number): boolean
}

/** A field with the values `min`…`max`, in every form of the dialect. */
function field(min: number, max: number): fc.Arbitrary<Field> {
  const value = fc.integer({ min, max })
  const range = fc.tuple(value, value).map(([a, b]) => [Math.min(a, b), Math.max(a, b)] as const)
  const step = fc.integer({ min: 1, max: max - min })
  const part = fc.oneof(
    value.map((v): Field => ({ text: `${v}`, has: (x) => x === v })),
    range.map(([a, b]): Field => ({ text: `${a}-${b}`, has: (x) => x >= a && x <= b })),
    fc.tuple(range, step).map(
      ([[a, b], s]): Field => ({
        text: `${a}-${b}/${s}`,
        has: (x) => x >= a && x <= b && (x - a) % s === 0,
      }),
    ),
  )
  return fc.oneof(
    { weight: 3, arbitrary: fc.constant<Field>({ text: '*', has: () => true }) },
    step.map((s): Field => ({ text: `*/${s}`, has: (x) => (x - min) % s === 0 })),
    fc.array(part, { minLength: 1, maxLength: 3 }).map(
      (parts): Field => ({
        text: parts.map(({ text }) => text).join(','),
        has: (x) => parts.some((p) => p.has(x)),
      }),
    ),
  )
}

/** The days of the week as cronie counts them: from 0 to 7, and then 7 is the Sunday that 0 is. */
const weekday = field(0, 7).map(
  ({ text, has }): Field => ({ text, has: (day) => has(day) || (day === 0 && has(7)) }),
)
const expressions = fc.tuple(field(0, 59), field(0, 23), field(1, 31), field(1, 12), weekday)
type Fields = [minute: Field, hour: Field, day: Field, month: Field, weekday: Field]

/** The local times of the zone, minute by minute. */
function clocksOf(timezone: string): (instant: number) => Date {
  const format = new Intl.DateTimeFormat('sv-SE', {
    timeZone: timezone,
    dateStyle: 'short',
    timeStyle: 'medium',
  })
  return (instant) => new Date(`${format.format(instant).replace(' ', 'T')}Z`)
}

function comes([minute, hour, day, month, weekday]: Fields, local: Date): boolean {
  const isDay = day.has(local.getUTCDate())
  const isWeekday = weekday.has(local.getUTCDay())
  const areBothNamed = !day.text.startsWith('*') && !weekday.text.startsWith('*')
  return (
    minute.has(local.getUTCMinutes()) &&
    hour.has(local.getUTCHours()) &&
    month.has(local.getUTCMonth() + 1) &&
    (areBothNamed ? isDay || isWeekday : isDay && isWeekday)
  )
}

/** Every minute from `from` to `to`, without local times that come a second time. */
function walk(fields: Fields, timezone: string, from: number, to: number): number[] {
  const shown = clocksOf(timezone)
  const found: number[] = []
  // The clock never goes back by more than an hour, except in zones that leave out a day.
  let latest = Number.NEGATIVE_INFINITY
  for (let at = from - 3 * 60 * MINUTE_MS; at <= to; at += MINUTE_MS) {
    const local = shown(at)
    const isNew = local.getTime() > latest
    latest = Math.max(latest, local.getTime())
    if (isNew && at > from && comes(fields, local)) found.push(at)
  }
  return found
}

/** The times of a schedule in the same span. */
function ticks(schedule: Schedule, from: number, to: number): number[] {
  const found: number[] = []
  for (let tick = nextTick(schedule, from); tick !== null; tick = nextTick(schedule, tick.at)) {
    if (tick.at > to) break
    found.push(tick.at)
  }
  return found
}

// Days with a change of clocks in one of the zones, and one without.
const DAYS = ['2026-03-08', '2026-11-01', '2026-03-29', '2026-10-25', '2026-04-05', '2026-10-04']
const starts = fc
  .tuple(fc.constantFrom(...DAYS, '2026-06-15', '2027-02-28'), fc.integer({ min: -1800, max: 600 }))
  .map(([day, minutes]) => Date.parse(`${day}T00:00:00Z`) + minutes * MINUTE_MS)

test('a schedule has exactly the times that a walk over every minute finds', () => {
  fc.assert(
    fc.property(expressions, fc.constantFrom(...ZONES), starts, (fields, timezone, from) => {
      const expression = fields.map(({ text }) => text).join(' ')
      const to = from + 36 * 60 * MINUTE_MS
      expect(ticks({ expression, timezone }, from, to)).toEqual(walk(fields, timezone, from, to))
    }),
    { numRuns: 150 },
  )
})

test('the next time of a schedule is the same from any instant before it, and later than that instant', () => {
  fc.assert(
    fc.property(
      expressions,
      fc.constantFrom(...ZONES),
      starts,
      fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }),
      (fields, timezone, from, share) => {
        const schedule = { expression: fields.map(({ text }) => text).join(' '), timezone }
        const first = nextTick(schedule, from)
        if (first === null) return
        expect(first.at).toBeGreaterThan(from)
        const between = from + Math.floor((first.at - from) * share)
        expect(nextTick(schedule, between)?.at).toBe(first.at)
        expect(nextTick(schedule, first.at)?.at ?? Infinity).toBeGreaterThan(first.at)
      },
    ),
    { numRuns: 1_000 },
  )
})
