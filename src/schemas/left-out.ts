import { isJsonObject } from '../job/json-value.ts'
import { memberTexts, Unreadable } from './json-list.ts'
import { checker } from './validator.ts'
import { id as ID } from './workers.ts'

/** A failed job that its worker has acknowledged, and shown in an event that is left out. */
export interface Orphan {
  id: string
  /** As it was shown. */
  content: Buffer
  problem: string
}

const isId = checker<string>(ID)

export function jobIdIn(event: unknown): string | undefined {
  const { id } = membersOf(event)
  return isId(id) ? id : undefined
}

/** Null where the event leaves no job to us, or shows none. */
export function orphanIn(event: unknown, problem: string): Orphan | null {
  const { id, name, outcome, job } = membersOf(event)
  if (!isId(id) || name !== 'failed' || job === null || !isLeftToUs(outcome)) return null
  return { id, content: job, problem }
}

function isLeftToUs(outcome: unknown): boolean {
  if (!isJsonObject(outcome)) return true
  return outcome['decision'] !== 'discard' && outcome['rung_ms'] == null
}

/** What can still be told of it. */
interface Members {
  id: unknown
  name: unknown
  outcome: unknown
  job: Buffer | null
}

function membersOf(event: unknown): Members {
  if (event instanceof Unreadable) return membersIn(event.text)
  const { job_id: id, event: name, outcome, job } = isJsonObject(event) ? event : {}
  return { id, name, outcome, job: isJsonObject(job) ? Buffer.from(JSON.stringify(job)) : null }
}

function membersIn(text: Buffer): Members {
  const texts = memberTexts(text)
  const said = (name: string) => readable(texts.get(name) ?? 'null')
  const job = texts.get('job')
  return {
    id: said('job_id'),
    name: said('event'),
    outcome: said('outcome'),
    job: job?.startsWith('{') ? Buffer.from(job, 'latin1') : null,
  }
}

function readable(text: string): unknown {
  try {
    return JSON.parse(Buffer.from(text, 'latin1').toString())
  } catch {
    return null
  }
}
