import { isJsonObject } from '../job/json-value.ts'
import { memberTexts, Unreadable } from './json-list.ts'
import { JSON_LIMITS, parseJsonObject } from './json-text.ts'
import { id as ID } from './shared-members.ts'
import { checker } from './validator.ts'

/** What is left of an event that is left out: its worker acknowledges the job, whatever we make of it. */
export interface LeftOut {
  id: string
  problem: string
  /** For a job that the ledger has: events that may take its place, the best first. */
  standIns: object[]
  /** For one that nobody has: the failed job, as it was shown. */
  content: Buffer | null
}

/** Of the failure that stands in for what cannot be read. */
const CODE = 'invalid_report'

const isId = checker<string>(ID)

export function jobIdIn(event: unknown): string | undefined {
  const { id } = membersOf(event)
  return isId(id) ? id : undefined
}

/** Null where it names no job. */
export function leftOutIn(event: unknown, problem: string): LeftOut | null {
  const members = membersOf(event)
  const { id, name, outcome, job } = members
  if (!isId(id)) return null
  const content = name === 'failed' && isLeftToUs(outcome) ? job : null
  return { id, problem, standIns: standInsFor(members, problem), content }
}

/**
 * As it was told, without what decides nothing, such as `at`. Where that cannot be: the work of a
 * `completed` is done, but what came of it is not known: such a job fails for good. A
 * failure stays one, with another error, and for good where it says so; where it asks the gateway for
 * a retry after a delay that is none, the gateway chooses that. Any other outcome that cannot be told
 * is left alone: its token may be in a retry queue.
 */
function standInsFor(
  { id, attempt, generation, name, outcome, said, isFinal }: Members,
  problem: string,
): object[] {
  const error = { code: CODE, message: `The report of this attempt is not valid: ${problem}` }
  const about = { job_id: id, attempt, generation }
  const failure = { ...about, event: 'failed', error: { ...error, retryable: false } }
  if (name === 'completed') {
    return 'result' in said ? [{ ...about, event: name, result: said.result }, failure] : [failure]
  }
  if (name !== 'failed') return []
  const failures = [
    { ...failure, error: said.error, outcome },
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

/** What can still be told of it. */
interface Members {
  id: unknown
  attempt: unknown
  generation: unknown
  name: unknown
  outcome: unknown
  job: Buffer | null
  /** What came of it: those members that can be taken as they are; a result that is absent is one. */
  said: { result?: unknown; error?: unknown }
  /** Its error says that there is to be no retry. */
  isFinal: boolean
}

function membersOf(event: unknown): Members {
  if (event instanceof Unreadable) return membersIn(event.text)
  const { job_id: id, event: name, job, ...said } = isJsonObject(event) ? event : {}
  const { attempt, generation, outcome, result, error } = said
  const content = isJsonObject(job) ? Buffer.from(JSON.stringify(job)) : null
  const isFinal = isJsonObject(error) && error['retryable'] === false
  return { id, attempt, generation, name, outcome, job: content, said: { result, error }, isFinal }
}

function membersIn(text: Buffer): Members {
  const texts = memberTexts(text)
  const said = (name: string) => readable(texts.get(name) ?? 'null')
  const job = texts.get('job')
  return {
    id: said('job_id'),
    attempt: said('attempt'),
    generation: said('generation'),
    name: said('event'),
    outcome: outcomeIn(texts.get('outcome') ?? 'null'),
    job: job?.startsWith('{') ? Buffer.from(job, 'latin1') : null,
    said: { ...takenFrom(texts, 'result'), ...takenFrom(texts, 'error') },
    isFinal: textsIn(texts.get('error') ?? 'null').get('retryable') === 'false',
  }
}

/** Where it cannot be read as a whole, what decides: it may be the delay that is NaN. */
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

/** Empty where it cannot be taken as it is. */
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

/** False, which no member may be, for what cannot be read either. */
function readable(text: string): unknown {
  try {
    return JSON.parse(Buffer.from(text, 'latin1').toString())
  } catch {
    return false
  }
}
