/** JSON log lines by pino, with passwords cut out of URLs. */
import { type DestinationStream, pino } from 'pino'
import { timestamper } from './job/values/timestamp.ts'
import { LogOutput } from './log-output.ts'

/** Not shared with the jobs: a timestamper caches one time, and a log line is later than its job's event. */
const timestamp = timestamper()

/** Writes JSON lines. `fields` become fields of the line: never put args or credentials there. */
export interface Logger {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

export const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const
export type LogLevel = (typeof LOG_LEVELS)[number]

/** Removes user and password from all URLs in a text: `amqp://user:secret@host` → `amqp://host`. */
export function redactUrls(text: string): string {
  return text.replace(/\S+/g, redactUrl)
}

/**
 * Word by word and without one big regular expression: on a text with many `://` and no `@`, the expression
 * would scan the rest of the text once for each `://`.
 */
function redactUrl(word: string): string {
  const end = word.lastIndexOf('@')
  if (end === -1) return word
  const scheme = /\b\w+:\/\//.exec(word)
  const start = scheme ? scheme.index + scheme[0].length : word.length
  return start > end ? word : word.slice(0, start) + word.slice(end + 1)
}

/** The message of an error for operators, without the passwords of URLs. */
export function describeError(error: unknown): string {
  // When no address of a host name can be reached, Node.js throws an AggregateError with an empty message.
  if (error instanceof AggregateError) return describeError(error.errors[0] ?? error.name)
  return redactUrls(error instanceof Error ? error.message || error.name : String(error))
}

/** pino writing to stdout, or to `destination`. */
export function createLogger(level: LogLevel, destination?: DestinationStream): Logger {
  return pino(
    {
      level,
      base: null,
      timestamp: () => `,"time":"${timestamp(Date.now())}"`,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: errorFields },
    },
    destination ?? stdout(),
  )
}

let output: LogOutput | undefined

/** One output for all loggers of the process, so that their lines never mix. */
function stdout(): LogOutput {
  if (output !== undefined) return output
  const made = new LogOutput({ fd: 1, lostLine })
  process.once('exit', () => made.flushSync())
  output = made
  return made
}

function lostLine(lines: number): string {
  const fields = { level: 'warn', time: timestamp(Date.now()), lines }
  const msg = 'log lines were lost: stdout could not be written in time'
  return `${JSON.stringify({ ...fields, msg })}\n`
}

function errorFields(error: unknown): object {
  if (!(error instanceof Error)) return { message: redactUrls(String(error)) }
  return {
    type: error.name,
    message: redactUrls(error.message),
    ...('code' in error && { code: error.code }),
    ...(error.cause !== undefined && { cause: errorFields(error.cause) }),
    stack: error.stack && redactUrls(error.stack),
  }
}
