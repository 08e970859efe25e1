/** How far a running job is, by its own words: what a report changes, and what is shown of it later. */
import { OjsError } from '../errors.ts'
import type { JobStanding } from './job.ts'
import { utf8Bytes } from './values/limits.ts'

/** The largest checkpoint as JSON text in UTF-8 (OJS durable execution). */
export const MAX_CHECKPOINT_BYTES = 1_048_576
/** The largest `data` of a progress report as JSON text in UTF-8. */
const MAX_PROGRESS_DATA_BYTES = 65_536
/** In UTF-16 units; a longer message is cut. */
export const MAX_PROGRESS_MESSAGE = 1_000
/** Events about the progress of one job come no faster than this (OJS progress: at most one a second). */
const TOLD_EVERY_MS = 1_000

/** What one report says; null: nothing about it. */
export interface ProgressReport {
  /** 0…1. */
  progress: number | null
  /** JSON text of an object. */
  data: string | null
  message: string | null
}

/** What is known of the progress of one attempt. */
export interface ProgressNote extends ProgressReport {
  generation: number
  attempt: number
  /** Clock time, as `toldAt`: when an event about this job was emitted last. */
  updatedAt: number
  toldAt: number
}

/**
 * The note after a report: progress never decreases within an attempt, and an attempt begins without any. `isTold`:
 * an event is due.
 */
export function noted(
  before: ProgressNote | null,
  { generation, attempt }: Pick<JobStanding, 'generation' | 'attempt'>,
  report: ProgressReport,
  now: number,
): { note: ProgressNote; isTold: boolean } {
  const known = before?.generation === generation && before.attempt === attempt ? before : null
  const isTold = known === null || now - known.toldAt >= TOLD_EVERY_MS || now < known.toldAt
  const note: ProgressNote = {
    generation,
    attempt,
    progress: highest(known?.progress ?? null, report.progress),
    data: report.data ?? known?.data ?? null,
    message: report.message ?? known?.message ?? null,
    updatedAt: now,
    toldAt: isTold ? now : known.toldAt,
  }
  return { note, isTold }
}

function highest(before: number | null, said: number | null): number | null {
  if (said === null) return before
  const within = Math.min(1, Math.max(0, said))
  return before === null ? within : Math.max(before, within)
}

/**
 * What is shown of a note: nothing of an earlier attempt; 1 once the job is completed, if it said how far it
 * was; what it said last after a failure.
 */
export function shownProgress(
  row: Pick<JobStanding, 'generation' | 'attempt' | 'state'>,
  note: ProgressNote | null,
): ProgressNote | null {
  if (note === null || note.generation !== row.generation || note.attempt !== row.attempt) {
    return null
  }
  return row.state === 'completed' && note.progress !== null ? { ...note, progress: 1 } : note
}

/** Whether a job that has ended keeps its checkpoint: the retry of a dead letter goes on from it. */
export function keepsCheckpoint({ isDeadLetter }: Pick<JobStanding, 'isDeadLetter'>): boolean {
  return isDeadLetter
}

/** A checkpoint as JSON text. Throws 413 if it is too large. */
export function checkpointText(state: unknown, field: string): string {
  return textWithin(state, MAX_CHECKPOINT_BYTES, field)
}

/** The `data` of a progress report as JSON text. Throws 413 if it is too large. */
export function dataText(data: unknown): string {
  return textWithin(data, MAX_PROGRESS_DATA_BYTES, 'data')
}

function textWithin(value: unknown, maxBytes: number, field: string): string {
  const text = JSON.stringify(value)
  const bytes = utf8Bytes(text)
  if (bytes <= maxBytes) return text
  throw new OjsError('invalid_request', `The '${field}' field is larger than ${maxBytes} bytes.`, {
    status: 413,
    details: { field, reason: 'payload_too_large', actual_bytes: bytes, max_bytes: maxBytes },
  })
}
