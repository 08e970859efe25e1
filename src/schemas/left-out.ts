import { isJsonObject } from '../job/json-value.ts'
import { memberTexts, Unreadable } from './json-list.ts'
import { checker } from './validator.ts'
import { id as ID } from './workers.ts'

/** What is left of an event that is left out: its worker acknowledges the job, whatever we make of it. */
export interface LeftOut {
  id: string
  problem: string
  /** For a job that the ledger has: failures that may take its place, the best first. */
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
 * The work of a `completed` is done, but what came of it is not known: such a job fails for good. A
 * failure stays one, with another error; where it asks the gateway for a retry after a delay that is
 * none, the gateway chooses that. Any other outcome that cannot be told is left alone: its token may
 * be in a retry queue.
 */
function standInsFor(
  { id, attempt, generation, name, outcome }: Members,
  problem: string,
): object[] {
  const error = { code: CODE, message: `The report of this attempt is not valid: ${problem}` }
  const about = { job_id: id, attempt, generation, event: 'failed' }
  if (name === 'completed') return [{ ...about, error: { ...error, retryable: false } }]
  if (name !== 'failed') return []
  const failure = { ...about, error, outcome }
  return isAskedOfUs(outcome) ? [failure, { ...failure, outcome: null }] : [failure]
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
}

function membersOf(event: unknown): Members {
  if (event instanceof Unreadable) return membersIn(event.text)
  const { job_id: id, event: name, job, ...said } = isJsonObject(event) ? event : {}
  const { attempt, generation, outcome } = said
  const content = isJsonObject(job) ? Buffer.from(JSON.stringify(job)) : null
  return { id, attempt, generation, name, outcome, job: content }
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
    outcome: said('outcome'),
    job: job?.startsWith('{') ? Buffer.from(job, 'latin1') : null,
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
