/** Cron expressions of the OJS dialect: checks them, finds their times. */
import { Cron } from 'croner'
import { echoed, invalidField } from '../../errors.ts'
import { memo } from '../values/cache.ts'

const MAX_LENGTH = 255
/** Croner also reads `?`, `+`, years and whole dates, which are not part of the OJS dialect. */
const FIELD = /^[0-9A-Za-z*,/#-]+$/
const STEPS_FROM = /(?<=^|[\s,])(\d+)\/\d+/g
const DAYS: readonly string[] = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat']
const STEPS_FROM_DAY = /^([0-9a-z]+)\/(\d+)/i
/** Croner takes a range that ends with `sun` to end with 7, so this one for the whole week. */
const SUNDAY_TO_SUNDAY = /^(?:0+|sun)-sun/i
const ALIASES = new Set(
  ['yearly', 'annually', 'monthly', 'weekly', 'daily', 'midnight', 'hourly'].map((a) => `@${a}`),
)

/** The times of an expression on a calendar without time zones; local times are given as if in UTC. */
interface Pattern {
  /** The first time after `local`, in milliseconds; null: there is none. */
  after(local: number): number | null
}

/**
 * Throws 400 naming `field` unless the text is a cron expression (OJS cron): five fields, or six with
 * the seconds first, or an alias such as `@daily`. Also refuses one that never comes, such as 30 February.
 */
export function checkExpression(expression: string, field: string): void {
  const reason = mistakeIn(expression)
  if (reason === null) return
  throw invalidField(field, `The '${field}' field is not a cron expression: ${reason}.`, {
    expected: 'cron expression',
    received: echoed(expression),
    reason,
  })
}

function mistakeIn(expression: string): string | null {
  if (expression.length > MAX_LENGTH) return `it is longer than ${MAX_LENGTH} characters`
  const fields = fieldsOf(expression)
  // OJS's documents mention `@every`, so the client gets a message of its own about it (OJS cron).
  if (fields[0]?.toLowerCase() === '@every') return "'@every' is not supported"
  if (fields.length === 1 && fields[0]?.startsWith('@')) {
    return ALIASES.has(fields[0].toLowerCase()) ? null : `'${fields[0]}' is not known`
  }
  if (fields.length !== 5 && fields.length !== 6)
    return `it has ${fields.length} fields, not 5 or 6`
  const wrong = fields.find((field) => !FIELD.test(field) || /(^|,)\//.test(field))
  if (wrong !== undefined) return `'${wrong}' cannot be read`
  const unclear = unclearDay(fields.at(-1) ?? '')
  if (unclear !== null) return unclear
  try {
    // For steps from a value out of range, as in `75/15`, croner reports no error: it finds no time, and
    // searches the whole calendar for seconds or hours (in `75/15,0` it ignores that part). So first check
    // the expression without the steps: croner refuses `75`.
    patternOf(expression.replaceAll(STEPS_FROM, '$1'))
    return patternOf(expression).after(0) === null ? 'it matches no date' : null
  } catch (error) {
    return error instanceof Error ? asWritten(error.message) : String(error)
  }
}

/**
 * The part of the day of week that has two readings, because Sunday is 0 and 7; null: none. Crons that count
 * to 7 take the 7 of `1/2` for a Sunday, others (and croner) do not, and cronie knows no steps from a value.
 */
function unclearDay(dayOfWeek: string): string | null {
  for (const part of dayOfWeek.split(',')) {
    if (SUNDAY_TO_SUNDAY.test(part)) {
      return `'${part}' is unclear: write 0 for Sunday, or * for every day`
    }
    const [, first = '', step = ''] = STEPS_FROM_DAY.exec(part) ?? []
    const named = DAYS.indexOf(first.toLowerCase())
    const day = named === -1 ? Number(first) : named
    if (first === '' || day > 7 || (7 - day) % Number(step) !== 0 || day === 0) continue
    return day === 7
      ? `'${part}' is unclear: write 0-6/${step} for steps from Sunday, or 0 for Sunday alone`
      : `'${part}' is unclear: write ${day}-7/${step} with Sunday, or ${day}-6/${step} without`
  }
  return null
}

/** Corrects croner's message, which counts days and months from 0: it would name 31 for `32`, -1 for `0`. */
function asWritten(message: string): string {
  return message
    .replace(/^CronPattern: |\.$/g, '')
    .replace(
      /^(Invalid value for (?:day|month): )(-?\d+)$/,
      (_, what, n) => `${what}${Number(n) + 1}`,
    )
}

/** The pattern of a checked expression. Each takes a hundred kilobytes, and 30 µs to make. */
export const patternOf = memo(64, (expression: string): Pattern => {
  const cron = new Cron(fieldsOf(expression).join(' '), {
    mode: '5-or-6-parts',
    utcOffset: 0,
    paused: true,
    sloppyRanges: true,
    domAndDow: !areBothDaysRestricted(expression),
  })
  return { after: (local) => cron.nextRun(new Date(local))?.getTime() ?? null }
})

/**
 * Vixie cron's rule: if both day fields are restricted, a day has to match only one of them. A field that
 * begins with `*` is not restricted: "every second day of the month" and Monday means Mondays among those
 * days.
 */
function areBothDaysRestricted(expression: string): boolean {
  const fields = fieldsOf(expression)
  const [dayOfMonth = '*', , dayOfWeek = '*'] = fields.slice(-3)
  return !dayOfMonth.startsWith('*') && !dayOfWeek.startsWith('*')
}

function fieldsOf(expression: string): string[] {
  return expression.split(/\s+/).filter((field) => field !== '')
}
