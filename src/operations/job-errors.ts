/** The refusals of requests about a job: stale lease, ended job, taken id or unique key. */
import { stateConflictCode } from '../dialect.ts'
import { notFound, OjsError, stateConflict } from '../errors.ts'
import { isErased, type JobStanding } from '../job/job.ts'
import type { Stale } from '../job/stale.ts'
import type { KeyHolder } from '../ledger/enqueued.ts'
import type { SettleFence } from '../ledger/leases.ts'
import type { Deps } from './deps.ts'

const VERB = {
  ack: 'acknowledge',
  nack: 'fail',
  beat: 'extend the lease of',
  checkpoint: 'save a checkpoint of',
} as const

/** Why the fence of an ACK, NACK or BEAT did not match `row`: 404, or 409 with the facts (seed 001 §10.2). */
export function explainStaleLease(
  { settings }: Pick<Deps, 'settings'>,
  { id, row }: { id: string; row: JobStanding | null },
  fence: SettleFence,
  operation: keyof typeof VERB,
): OjsError {
  if (row === null || isErased(row.state)) return notFound('job', id)
  const details = { job_id: id, current_state: row.state, expected_state: 'active' }
  if (row.state !== 'active') {
    return stateConflict(
      `Cannot ${VERB[operation]} job not in 'active' state. Current state: '${row.state}'.`,
      details,
      stateConflictCode(settings.dialect),
    )
  }
  // First: an attempt of another life compares with nothing.
  if (fence.generation != null && fence.generation !== row.generation) {
    return stateConflict(staleGeneration(fence.generation, row.generation), {
      ...details,
      reason: 'stale_generation',
    })
  }
  return fence.attempt != null && fence.attempt !== row.attempt
    ? stateConflict(staleAttempt(fence.attempt, row.attempt), {
        ...details,
        reason: 'stale_attempt',
      })
    : stateConflict('The job is leased to another worker.', { ...details, reason: 'other_worker' })
}

function staleAttempt(said: number, runs: number): string {
  const why = said < runs ? 'is over' : 'has not begun'
  return `Attempt ${said} of the job ${why}; the current attempt is ${runs}.`
}

function staleGeneration(said: number, runs: number): string {
  const why = said < runs ? 'is over' : 'has not begun'
  return `Generation ${said} of the job ${why}; the current generation is ${runs}.`
}

/** Why a CANCEL found nothing to cancel: 404, or 409 with the state it ended in (seed 001 §9.4). */
export function explainTerminal(
  { settings }: Pick<Deps, 'settings'>,
  id: string,
  { row }: Stale,
): OjsError {
  if (row === null || isErased(row.state)) return notFound('job', id)
  return stateConflict(
    `Cannot cancel job in terminal state '${row.state}'.`,
    { job_id: id, current_state: row.state },
    stateConflictCode(settings.dialect),
  )
}

/** The refused job's index in its batch; `isOwn`: it collides with an earlier job of the same batch. */
export interface InBatch {
  index: number
  isOwn?: boolean
}

export function idTaken(id: string, batch?: InBatch): OjsError {
  const message = batch?.isOwn
    ? `Two jobs of the batch have the id '${id}'. No job of the batch is stored.`
    : `A job with the id '${id}' already exists.`
  return new OjsError('duplicate', message, {
    details: { existing_job_id: id, field: 'id', ...placeOf(batch) },
  })
}

/** The refusal of a job whose unique key is taken (seed 001 §9.1, "Duplicate Job"). */
export function keyTaken(existing: KeyHolder, uniqueKey: string, batch?: InBatch): OjsError {
  const message = batch?.isOwn
    ? 'Two jobs of the batch have the same unique key. No job of the batch is stored.'
    : `A job with the same unique key ${existing.isGone ? 'ended before, and its period is not over' : 'already exists'}.`
  return new OjsError('duplicate', message, {
    details: {
      existing_job_id: existing.id,
      unique_key: uniqueKey,
      existing_job_state: existing.state,
      ...(existing.isGone && { reason: 'job_gone' }),
      ...placeOf(batch),
    },
  })
}

function placeOf(batch: InBatch | undefined): Record<string, unknown> {
  if (batch === undefined) return {}
  return { index: batch.index, ...(batch.isOwn && { reason: 'same_batch' }) }
}
