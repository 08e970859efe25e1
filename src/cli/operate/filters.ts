/** The filters of jobs as options of a command. */
import { type Command, InvalidArgumentError } from 'commander'
import { messageOf } from '../../errors.ts'
import { refuseUnkeepable } from '../../schemas/json/json-text.ts'
import type { JobFilter, JobState } from '../../sdk/index.ts'

/** As commander gives the options below. */
export interface FilterOptions {
  state?: string
  queue?: string
  type?: string
  tag?: string
  worker?: string
  workflow?: string
  cron?: string
  errorCode?: string
  errorType?: string
  priority?: number
  held?: boolean
  since?: string
  until?: string
  enqueuedSince?: string
  enqueuedUntil?: string
  endedSince?: string
  endedUntil?: string
  meta?: Record<string, string>
  args?: unknown
}

const AGO = 'a time, or e.g. 24h for so long ago'

export function withFilters(command: Command): Command {
  return command
    .option('--state <states>', 'several with commas')
    .option('--queue <queues>', 'several with commas')
    .option('--type <types>', "several with commas; 'email.*': by prefix")
    .option('--tag <tags>', 'jobs that have all of them')
    .option('--worker <id>', 'the worker that runs it or ran it last')
    .option('--workflow <id>', 'the workflow that made it')
    .option('--cron <name>', 'the cron entry that made it')
    .option('--error-code <code>', 'the code of its last error')
    .option('--error-type <type>', 'the type of its last error')
    .option('--priority <number>', 'its priority', integer)
    .option('--held', 'held back by its concurrency key')
    .option('--since <time>', `created from then on: ${AGO}`)
    .option('--until <time>', `created before: ${AGO}`)
    .option('--enqueued-since <time>', 'put into its queue from then on')
    .option('--enqueued-until <time>', 'put into its queue before')
    .option('--ended-since <time>', 'ended from then on')
    .option('--ended-until <time>', 'ended before')
    .option('--meta <key=value>', 'a member of its meta; may be repeated', pair)
    .option('--args <json>', 'what its args contain', json)
}

/** The filter that the options mean; without members if none was given. */
export function filterOf(options: FilterOptions): JobFilter {
  const { worker: workerId, workflow: workflowId, state } = options
  const { queue, type, tag, cron, errorCode, errorType, priority, held, meta, args } = options
  const { since, until, enqueuedSince, enqueuedUntil, endedSince, endedUntil } = options
  const times = { since, until, enqueuedSince, enqueuedUntil, endedSince, endedUntil }
  const others = { queue, type, tag, cron, errorCode, errorType, priority, held, meta, args }
  // The server knows which states there are.
  return present({ ...others, ...times, workerId, workflowId, state: state as JobState })
}

function present(filter: JobFilter): JobFilter {
  return Object.fromEntries(Object.entries(filter).filter(([, value]) => value !== undefined))
}

export function integer(text: string): number {
  if (/^-?\d{1,9}$/.test(text)) return Number(text)
  throw new InvalidArgumentError('It must be an integer.')
}

/** Of a list or an action: none would be no answer. */
export function count(text: string): number {
  const number = integer(text)
  if (number > 0) return number
  throw new InvalidArgumentError('It must be 1 or more.')
}

export function json(text: string): unknown {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw new InvalidArgumentError('It must be JSON.')
  }
  try {
    // The server would be sent another number, and could not refuse it.
    refuseUnkeepable(Buffer.from(`{"it":${text}}`))
  } catch (error) {
    throw new InvalidArgumentError(messageOf(error))
  }
  return value
}

export function jsonObject(text: string): Record<string, unknown> {
  const value = json(text)
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    return value as Record<string, unknown>
  }
  throw new InvalidArgumentError('It must be a JSON object.')
}

function pair(text: string, before: Record<string, string> = {}): Record<string, string> {
  const end = text.indexOf('=')
  if (end < 1) throw new InvalidArgumentError('It must be key=value.')
  return { ...before, [text.slice(0, end)]: text.slice(end + 1) }
}
