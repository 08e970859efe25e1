import { Cron } from 'croner'
import { echoed, invalidField } from '../errors.ts'
import { memo } from './memo.ts'

const MAX_LENGTH = 255
/** croner also reads `?`, `+`, years and whole dates; none of them is part of the dialect. */
const TOKEN = /^[0-9A-Za-z*,/#-]+$/
const STEPS_FROM = /(?<=^|[\s,])(\d+)\/\d+/g
/** Croner begins behind the end of the week then, and never comes round to Sunday. */
const STEPS_FROM_7 = /(^|,)0*7\//
const ALIASES = new Set(
  ['yearly', 'annually', 'monthly', 'weekly', 'daily', 'midnight', 'hourly'].map((a) => `@${a}`),
)

/** The times of an expression on a calendar without zones: local times as if they were in UTC. */
interface Pattern {
  /** The first one after `local`, in milliseconds; null: never again. */
  after(local: number): number | null
}

/**
 * Throws 400 naming `field` when it is not a cron expression (ojs-digest §7.2): five fields, or six
 * with the seconds first, or an alias such as `@daily`; one that never comes (30 February) neither.
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
  const tokens = tokensOf(expression)
  // OJS's own texts have it, so that whoever writes it has not mistaken the form (ojs-digest §7.2).
  if (tokens[0]?.toLowerCase() === '@every') return "'@every' is not offered"
  if (tokens.length === 1 && tokens[0]?.startsWith('@')) {
    return ALIASES.has(tokens[0].toLowerCase()) ? null : `'${tokens[0]}' is not known`
  }
  if (tokens.length !== 5 && tokens.length !== 6)
    return `it has ${tokens.length} fields, not 5 or 6`
  const wrong = tokens.find((token) => !TOKEN.test(token) || /(^|,)\//.test(token))
  if (wrong !== undefined) return `'${wrong}' cannot be read`
  if (STEPS_FROM_7.test(tokens.at(-1) ?? '')) return 'steps from Sunday begin with 0, not with 7'
  try {
    // Of `75/15,0` croner makes only the other time. Of `75/15` alone it makes none, and looks for one
    // through all of the calendar, for seconds or hours: as if it were `75`, it is refused before.
    patternOf(expression.replaceAll(STEPS_FROM, '$1'))
    return patternOf(expression).after(0) === null ? 'no date is ever like that' : null
  } catch (error) {
    return error instanceof Error ? asWritten(error.message) : String(error)
  }
}

/** Croner counts days and months from 0 and says so: of `32` it would say 31, of `0` it says -1. */
function asWritten(message: string): string {
  return message
    .replace(/^CronPattern: |\.$/g, '')
    .replace(
      /^(Invalid value for (?:day|month): )(-?\d+)$/,
      (_, what, n) => `${what}${Number(n) + 1}`,
    )
}

/** Of a checked expression. Each holds a hundred kilobytes, and takes 30 µs to make. */
export const patternOf = memo(64, (expression: string): Pattern => {
  const cron = new Cron(tokensOf(expression).join(' '), {
    mode: '5-or-6-parts',
    utcOffset: 0,
    paused: true,
    sloppyRanges: true,
    domAndDow: !areBothDaysRestricted(expression),
  })
  return { after: (local) => cron.nextRun(new Date(local))?.getTime() ?? null }
})

/**
 * Vixie's rule: either day will do where both are named. A field that begins with `*` names none, so
 * that every second day of the month and Monday means the Mondays among those days.
 */
function areBothDaysRestricted(expression: string): boolean {
  const tokens = tokensOf(expression)
  const [dayOfMonth = '*', , dayOfWeek = '*'] = tokens.slice(-3)
  return !dayOfMonth.startsWith('*') && !dayOfWeek.startsWith('*')
}

function tokensOf(expression: string): string[] {
  return expression.split(/\s+/).filter((token) => token !== '')
}
