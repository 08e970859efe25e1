/** Saves the outcome of a job from a reported event that is not valid. */
import type { ReportEvent } from '../../job/request.ts'
import { isJsonObject } from '../../job/values/json-value.ts'
import { memberTexts, Unreadable } from '../json/json-list.ts'
import { JSON_LIMITS, parseJsonObject } from '../json/json-text.ts'
import { id as ID } from './shared-members.ts'
import { checker } from './validator.ts'

/**
 * What can be saved of an event that is left out. The worker acknowledges the job in any case, so its outcome
 * must not get lost.
 */
export interface LeftOut {
  id: string
  problem: string
  /** For a job that is in the ledger: a valid event that replaces this one; null: there is none. */
  standIn: ReportEvent | null
  /** For a job that is not in the ledger: the body of the failed job, as the event carries it. */
  content: Buffer | null
}

/** The error code of a failure that replaces an unreadable outcome. */
const CODE = 'invalid_report'

const isId = checker<string>(ID)

export function jobIdIn(event: unknown): string | undefined {
  const { id } = membersOf(event)
  return isId(id) ? id : undefined
}

/** Saves what can be saved of an event; null when it names no job. `isValid` judges possible stand-ins. */
export function leftOutIn(
  event: unknown,
  problem: string,
  isValid: (candidate: unknown) => candidate is ReportEvent,
): LeftOut | null {
  const members = membersOf(event)
  const { id, name, outcome, job } = members
  if (!isId(id)) return null
  const content = name === 'failed' && isLeftToUs(outcome) ? job : null
  return { id, problem, standIn: standInsFor(members, problem).find(isValid) ?? null, content }
}

/**
 * Returns the events that may replace an invalid one, the best first. The first repeats it without members
 * that decide nothing, such as `at`. Where that is not possible:
 * - `completed`: the work is done, but its result is unknown, so the job fails for good.
 * - `failed` stays a failure, with another error, and final if the error said so. If it asks the gateway for
 *   a retry, but with an invalid delay, the gateway chooses the delay.
 * - Other events, and outcomes that cannot be read, are not replaced: the job's message may be in a retry
 *   queue.
 */
function standInsFor(
  { id, attempt, generation, name, outcome, usable, isFinal }: Members,
  problem: string,
): object[] {
  const error = { code: CODE, message: `The report of this attempt is not valid: ${problem}` }
  const about = { job_id: id, attempt, generation }
  const failure = { ...about, event: 'failed', error: { ...error, retryable: false } }
  if (name === 'completed') {
    return 'result' in usable
      ? [{ ...about, event: name, result: usable.result }, failure]
      : [failure]
  }
  if (name !== 'failed') return []
  const failures = [
    { ...failure, error: usable.error, outcome },
    { ...failure, error: isFinal ? failure.error : error, outcome },
  ]
  return isAskedOfUs(outcome) ? [...failures, { ...failure, error, outcome: null }] : failures
}

function isLeftToUs(outcome: unknown): boolean {
  if (!isJsonObject(outcome)) return true
  return outcome['decision'] !== 'discard' && outcome['rung_ms'] == null
}

function isAskedOfUs(outcome: unknown): boolean {
  return isJsonObject(outcome) && outcome['decision'] === 'retry' && outcome['rung_ms'] == null
}

/** The members of an event that can still be read. */
interface Members {
  id: unknown
  attempt: unknown
  generation: unknown
  name: unknown
  outcome: unknown
  job: Buffer | null
  /** `result` and `error`, if they can be used as they are. An absent one is present here, as undefined. */
  usable: { result?: unknown; error?: unknown }
  /** Whether its error forbids a retry. */
  isFinal: boolean
}

function membersOf(event: unknown): Members {
  if (event instanceof Unreadable) return membersIn(event.text)
  const { job_id: id, event: name, job, ...others } = isJsonObject(event) ? event : {}
  const { attempt, generation, outcome, result, error } = others
  const content = isJsonObject(job) ? Buffer.from(JSON.stringify(job)) : null
  const isFinal = isJsonObject(error) && error['retryable'] === false
  return {
    id,
    attempt,
    generation,
    name,
    outcome,
    job: content,
    usable: { result, error },
    isFinal,
  }
}

function membersIn(text: Buffer): Members {
  const texts = memberTexts(text)
  const member = (name: string) => readable(texts.get(name) ?? 'null')
  const job = texts.get('job')
  return {
    id: member('job_id'),
    attempt: member('attempt'),
    generation: member('generation'),
    name: member('event'),
    outcome: outcomeIn(texts.get('outcome') ?? 'null'),
    job: job?.startsWith('{') ? Buffer.from(job, 'latin1') : null,
    usable: { ...takenFrom(texts, 'result'), ...takenFrom(texts, 'error') },
    isFinal: textsIn(texts.get('error') ?? 'null').get('retryable') === 'false',
  }
}

/** The outcome; if it cannot be parsed as a whole (its delay may be NaN), the members that decide. */
function outcomeIn(text: string): unknown {
  const whole = readable(text)
  if (whole !== false) return whole
  const texts = textsIn(text)
  const names = ['decision', 'delay_ms', 'rung_ms']
  return Object.fromEntries(names.map((name) => [name, readable(texts.get(name) ?? 'null')]))
}

function textsIn(text: string): Map<string, string> {
  return memberTexts(Buffer.from(text, 'latin1'))
}

/** An object with the member, or an empty one if the member cannot be used as it is. */
function takenFrom(texts: Map<string, string>, name: string): object {
  const text = texts.get(name)
  if (text === undefined) return { [name]: undefined }
  try {
    const limits = { maxDepth: JSON_LIMITS.maxDepth + 1 }
    return parseJsonObject(Buffer.from(`{"${name}":${text}}`, 'latin1'), limits)
  } catch {
    return {}
  }
}

/** Parses the text of a member. Returns false, which is valid for no member, if that is not possible. */
function readable(text: string): unknown {
  try {
    return JSON.parse(Buffer.from(text, 'latin1').toString())
  } catch {
    return false
  }
}
