/** The events of a native worker's report, whatever keeps the rows. */
import { isTerminal, type JobRow } from '../../job/job.ts'
import {
  attemptKey,
  type Decision,
  type ReportedEvent,
  type Said,
} from '../../job/native/report.ts'
import type { ReportResult } from '../native.ts'

export const IGNORED: ReportResult = { outcome: 'ignored' }
export const OF_ANOTHER: ReportResult = { outcome: 'refused', reason: 'other_queue' }

type SaidOf<E extends Said['event']> = Extract<Said, { event: E }>

/** What a ledger does with each kind of event. */
interface Applying {
  started(event: ReportedEvent): ReportResult
  dropped(event: ReportedEvent): ReportResult
  expired(event: ReportedEvent): ReportResult
  released(event: ReportedEvent, said: SaidOf<'released'>): ReportResult
  ended(event: ReportedEvent, said: SaidOf<'completed' | 'failed'>): ReportResult
  /** Adopts the job that the event brings along, if the ledger does not know it. */
  adopt(event: ReportedEvent): unknown
}

/**
 * Applies one report. A start whose end is in the same report is not written separately: the end implies it,
 * which spares half of the writes for short jobs.
 */
export function applyEach(events: readonly ReportedEvent[], applying: Applying): ReportResult[] {
  const ends = endsIn(events)
  const merged = new Map<string, number>()
  const results: ReportResult[] = []
  for (const [i, event] of events.entries()) {
    const isMerged = event.said.event === 'started' && ends.has(keyOf(event))
    if (isMerged) merged.set(keyOf(event), i)
    // A report brings an unknown job along only with the first event that names it: adopt it here.
    if (isMerged && event.adopt !== undefined) applying.adopt(event)
    const result = isMerged ? IGNORED : apply(event, applying)
    results.push(result)
    if (merged.size === 0 || !('begun' in result && result.begun)) continue
    const start = merged.get(keyOf(event))
    if (start !== undefined) results[start] = { outcome: 'merged' }
  }
  return results
}

function apply(event: ReportedEvent, applying: Applying): ReportResult {
  const { said } = event
  switch (said.event) {
    case 'started':
      return applying.started(event)
    case 'dropped':
      return applying.dropped(event)
    case 'expired':
      return applying.expired(event)
    case 'released':
      return applying.released(event, said)
    case 'completed':
    case 'failed':
      return applying.ended(event, said)
  }
}

/** The keys of the attempts whose end is reported in `events`. */
function endsIn(events: readonly ReportedEvent[]): Set<string> {
  const ends = new Set<string>()
  for (const event of events) {
    const { said } = event
    if (said.event === 'completed' || said.event === 'failed') ends.add(keyOf(event))
  }
  return ends
}

function keyOf({ generation, attempt, id }: ReportedEvent): string {
  return attemptKey(generation, attempt, id)
}

export function isOfAnother(
  { ofQueue }: ReportedEvent,
  row: Pick<JobRow, 'queue'> | null,
): boolean {
  return ofQueue != null && row !== null && row.queue !== ofQueue
}

export function unapplied(decision: Decision): ReportResult {
  return decision.do === 'refuse' ? { outcome: 'refused', reason: 'leased_elsewhere' } : IGNORED
}

type Standing = Pick<JobRow, 'state' | 'generation' | 'attempt' | 'messageOut'>

/**
 * What becomes of the delivery that the worker settles, where its report changes no state: the job is over or runs
 * elsewhere. `leave`: the lease goes on without the message. `acknowledge`: the message is gone, and a copy that a
 * nack was to make is owed. `return`: the worker nacks it, which makes the copy. Null: nothing.
 */
export function settlementOf(
  { generation, attempt }: ReportedEvent,
  said: Extract<Said, { event: 'completed' | 'failed' }>,
  row: Standing,
): 'leave' | 'acknowledge' | 'return' | null {
  const isOfRow = (generation ?? row.generation) === row.generation && attempt >= row.attempt
  const outcome = said.event === 'failed' ? said.outcome : null
  const isInRetryQueue = outcome?.decision === 'retry' && outcome.rung_ms != null
  if (!row.messageOut || !isOfRow || isInRetryQueue) return null
  if (!isTerminal(row.state)) return 'leave'
  return outcome?.decision === 'discard' ? 'return' : 'acknowledge'
}

/** Twice the default of OJS_MAX_RUNGS. A bound, because workers name these retry queues. */
export const MAX_RECORDED_RETRY_QUEUES = 2_000
