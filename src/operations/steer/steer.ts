/** Retry, cancel and delete of one job, and what follows the commit of each. */
import { stateConflictCode } from '../../dialect.ts'
import { notFound, type OjsError, stateConflict } from '../../errors.ts'
import type { JobRow, JobState } from '../../job/job.ts'
import { type JobAction, type Steering, TOUCHABLE } from '../../job/steer.ts'
import type { Acted, ActTerms, Refused } from '../../ledger/bulk.ts'
import type { Cancelled } from '../../ledger/ended.ts'
import type { Deps, RequestContext } from '../deps.ts'
import { OthersFirst } from '../enqueue/wait-for-conflicts.ts'
import { followBriefly, noteCancelled } from '../job-end.ts'
import { keyTaken } from '../job-errors.ts'
import { sendOrLeave } from '../job-messages/send.ts'
import { broadcastCancel } from '../workers/broadcasts.ts'

/**
 * Other requests wait for a write no longer than that. With 8 ms the 99th percentile of PUSH was 3.3 times as long
 * beside a bulk retry, with 3 ms 2.3 times, and the retry ran at 3,500 jobs/s instead of 4,200 (`bench/bulk-retry.mjs`).
 */
const MAX_WRITE_MS = 3

/** Any job in a state that the action can touch. */
export function steering(action: JobAction, { queues }: RequestContext): Steering {
  const states = TOUCHABLE[action]
  return { action, states, deadLettersOnly: false, sparesRetried: false, scope: queues ?? null }
}

/** As `steering`, for dead letters. */
export function ofDeadLetters(action: 'retry' | 'delete', { queues }: RequestContext): Steering {
  const bounds = { deadLettersOnly: true, sparesRetried: false, scope: queues ?? null }
  return { action, states: ['discarded'], ...bounds }
}

export function actTerms(
  { clock }: Pick<Deps, 'clock'>,
  { requestId, principal }: Pick<RequestContext, 'requestId' | 'principal'>,
): ActTerms {
  const cause = { requestId, principal }
  return { now: clock.now(), wall: clock.wall(), cause, maxMs: MAX_WRITE_MS }
}

/**
 * Retries a job that has ended, or one that waits for a retry: `available`, in a new generation. Answers from
 * the commit. Throws 404; 409 in another state, when `expires_at` has passed, when another job has its
 * `unique` key by now, or when the job is a completed step of a workflow; 503.
 */
export async function retryJob(
  deps: Deps,
  id: string,
  how: Steering,
  context: RequestContext,
): Promise<{ job: JobRow; before: JobRow }> {
  const done = await retried(deps, id, how, context)
  if (done.did !== 'retry') throw refusalError(deps, done, how)
  tellRetried(deps, done, context.requestId)
  void sendOrLeave(deps, done.job)
  return done
}

/** Retries the job; waits while the job that has its unique key may yet be withdrawn (see `admitted`). */
async function retried(
  deps: Deps,
  id: string,
  how: Steering,
  context: RequestContext,
): Promise<Acted> {
  let others: OthersFirst | undefined
  for (;;) {
    const done = await acted(deps, id, how, context)
    const rival = done.did === null ? done.rival : undefined
    const decision = rival && deps.transient.unconfirmed.get(rival.existing.id)
    if (decision === undefined) return done
    others ??= new OthersFirst(deps)
    await others.wait(decision)
  }
}

/** As CANCEL, but tells of a job that has ended as the other actions do. Throws 404, 409, 503. */
export async function cancelOne(
  deps: Deps,
  id: string,
  context: RequestContext,
): Promise<Cancelled> {
  const how = steering('cancel', context)
  const done = await acted(deps, id, how, context)
  if (done.did !== 'cancel') throw refusalError(deps, done, how)
  await followBriefly(deps, done, context)
  return done
}

/** Deletes an ended job for good: GET answers 404 from then on. Throws 404; 409 in another state; 503. */
export async function deleteJob(
  deps: Deps,
  id: string,
  how: Steering,
  context: RequestContext,
): Promise<void> {
  const done = await acted(deps, id, how, context)
  if (done.did !== 'delete') throw refusalError(deps, done, how)
  tellDeleted(deps, done.before, context.requestId)
}

async function acted(
  deps: Deps,
  id: string,
  how: Steering,
  context: RequestContext,
): Promise<Acted> {
  const [done] = await deps.ledger.bulk.act([id], how, actTerms(deps, context))
  if (done === undefined) throw new Error('bug: nothing became of the job')
  return done
}

function refusalError(
  { settings }: Pick<Deps, 'settings'>,
  refused: Acted,
  { action, deadLettersOnly }: Steering,
): OjsError {
  if (refused.did !== null) throw new Error('bug: an action did something else')
  const { id, reason, state, rival } = refused
  if (reason === 'duplicate' && rival) return keyTaken(rival.existing, rival.uniqueKey)
  if (state === null || (deadLettersOnly && reason !== 'expired')) {
    return notFound(deadLettersOnly ? 'dead_letter_job' : 'job', id)
  }
  return stateConflict(
    refusalText(action, refused),
    { job_id: id, current_state: state, ...(AGAINST[reason] ?? WRONG_STATE) },
    stateConflictCode(settings.dialect),
  )
}

const WRONG_STATE = { reason: 'invalid_state_transition' }
/** What stands against an action that the state allows. */
const AGAINST: Partial<Record<Refused['reason'], { reason: string }>> = {
  expired: { reason: 'expired' },
  workflow_step: { reason: 'workflow_step' },
}

/** Why a job was left alone, in a sentence. */
export function refusalText(action: JobAction, { reason }: Pick<Refused, 'reason'>): string {
  switch (reason) {
    case 'not_found':
      return 'There is no such job.'
    case 'not_dead_letter':
      return 'The job is not a dead letter.'
    case 'expired':
      return 'The job has expired (expires_at) and cannot be retried.'
    case 'retried':
      return 'The dead letter was retried as another job.'
    case 'duplicate':
      return 'Another job has the unique key of the job.'
    case 'workflow_step':
      return 'The job is a step of a workflow, which needs its result.'
    default:
      return `Cannot ${action} a job in state '${reason}'.`
  }
}

/** What follows the commit of an action on many jobs: events, and the relay publishes what is owed. */
export function followMany(
  deps: Deps,
  action: JobAction,
  done: readonly Acted[],
  requestId: string | undefined,
): void {
  for (const one of done) {
    if (one.did === 'retry') tellRetried(deps, one, requestId, true)
    else if (one.did === 'cancel') noteCancelled(deps, one, requestId, true)
    else if (one.did === 'delete') tellDeleted(deps, one.before, requestId, true)
  }
  if (done.some(({ did }) => did === 'retry' || did === 'cancel')) deps.wakeRelay()
  const skipped = done.filter(({ did }) => did === null).length
  deps.events.emit({ type: 'bulk.acted', action, done: done.length - skipped, skipped })
}

function tellRetried(
  deps: Deps,
  { job, before }: { job: JobRow; before: JobRow },
  requestId: string | undefined,
  inBulk?: true,
): void {
  // A message of an earlier generation may be parked until this row changes.
  deps.broker.unpark(job.id)
  // Native workers drop that message when it comes; of a job that was cancelled they were told then.
  if (before.messageOut && before.state === 'retryable') void broadcastCancel(deps, before)
  const about = { job, requestId, inBulk }
  if (before.isDeadLetter) deps.events.emit({ type: 'dead_letter.retried', ...about })
  const from = before.state as JobState
  deps.events.emit({ type: 'job.enqueued', ...about, promoted: true, from })
}

function tellDeleted(deps: Deps, job: JobRow, requestId: string | undefined, inBulk?: true): void {
  if (!job.isDeadLetter) return
  deps.events.emit({ type: 'dead_letter.deleted', job, requestId, inBulk })
}
