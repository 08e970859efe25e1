/** Jobs that died in RabbitMQ: rejected, expired or dropped by a limit without the gateway. */
import type { DeadLetter } from '../../broker/broker.ts'
import { between } from '../../job/arrival.ts'
import { brokerFailure, hasFailedBefore } from '../../job/dead-letter.ts'
import { allowedAttempts, type JobRow } from '../../job/job.ts'
import type { Failure } from '../../job/retry/error-history.ts'
import { recordFailure, recordSkipped } from '../../job/retry/failure.ts'
import { isListedWhenExpired, judge, retryPolicyOf } from '../../job/retry/retry-policy.ts'
import { jsonOrNull, membersOf } from '../../job/values/json-value.ts'
import { adoptedJob, isTooLarge, reportedError } from '../adopt/adopt.ts'
import type { Deps } from '../deps.ts'
import { followNews } from '../job-end.ts'

interface Death {
  reason: Exclude<DeadLetter['reason'], 'unknown'>
  failure: Failure
  /** True: the attempt's failure was counted before, so no second `job.failed` is emitted. */
  isCounted: boolean
}

/**
 * Handles a job that died in RabbitMQ without the gateway: a native worker rejected it, its queue's TTL or
 * length limit dropped it, or a quorum queue gave up delivering it. The gateway learns of it by its own copy
 * in `ojs.system.dead-letters`. Discards the job if the row is still at that attempt, and ignores the copy
 * otherwise. Adopts an unknown job as a dead letter.
 *
 * Resolves when the copy may be acknowledged; rejects when the ledger could not be written.
 */
export async function diedInBroker(deps: Deps, letter: DeadLetter): Promise<void> {
  const { reason } = letter
  if (reason === 'unknown' || letter.id === '') return
  if (isOfAnother(deps, letter)) return
  const terms = { now: deps.clock.now(), wall: deps.clock.wall() }
  const told: { death?: Death } = {}
  const jobMessage = {
    id: letter.id,
    queue: letter.queue,
    generation: letter.generation,
    attempt: letter.attempt,
    isExpired: reason === 'expired',
    wasInQueue: reason === 'expired' || reason === 'maxlen',
    describe(row: JobRow) {
      const failure = brokerFailure(reason)
      const death = { reason, failure, isCounted: hasFailedBefore(letter, row) }
      told.death = death
      return deathRecord(row, letter, death, terms.now)
    },
    adopt: () => adoptedJob(deps, letter),
    reportedError: () => reportedError(letter.message.headers),
  }
  const result = await deps.ledger.discardDead(jobMessage, terms)
  // A malformed message was counted when it was refused; the operator finds it in the DLX queue.
  if (result.outcome !== 'discarded' || told.death === undefined) return
  if (result.news !== undefined) followNews(deps, result.news)
  // A delivery may have been parked until this row changes.
  deps.broker.unpark(result.job.id)
  tell(deps, result.job, told.death)
}

/**
 * True when the body is not that of the job which the message's properties name. Anybody may publish a
 * message with a job's id, and a worker then rejects it as unreadable: that must not end the job
 * (docs/architecture.md, law 6).
 */
function isOfAnother(deps: Deps, letter: DeadLetter): boolean {
  if (isTooLarge(deps, letter)) return false
  return membersOf(jsonOrNull(letter.message.content))['id'] !== letter.id
}

function tell(deps: Deps, job: JobRow, { reason, failure, isCounted }: Death): void {
  if (reason === 'expired') {
    deps.events.emit({ type: 'job.expired', job })
    return
  }
  if (!isCounted) {
    deps.events.emit({ type: 'job.failed', job, attempt: job.attempt, failure })
  }
  deps.events.emit({ type: 'job.discarded', job })
}

function deathRecord(row: JobRow, letter: DeadLetter, death: Death, now: number) {
  const { reason, failure, isCounted } = death
  const policy = retryPolicyOf(row)
  if (reason === 'expired') {
    const { errors } = row
    // No attempt was made, so nothing is added to `errors`.
    const error = JSON.stringify(failure)
    return { error, errors, isDeadLetter: isListedWhenExpired(policy) }
  }
  const attempt = Math.max(letter.attempt, row.attempt)
  const verdict = judge(policy, attempt, failure)
  const isDeadLetter = verdict.do === 'discard' && verdict.isDeadLetter
  if (isCounted) return { ...recordedBefore(row, failure), isCounted, isDeadLetter }
  return {
    ...recordFailure(errorsBefore(row, letter, now), attempt, failure, now),
    isDeadLetter,
  }
}

/**
 * The error record when `errors` already has the attempt. If it was the last allowed attempt, its own error
 * is why the job ended, as when a FETCH meets such a job message. If attempts were left, the reason is
 * `failure`: what took the message away.
 */
function recordedBefore(row: JobRow, failure: Failure): Pick<JobRow, 'error' | 'errors'> {
  const { attempt, error, errors } = row
  const wasLast = attempt >= allowedAttempts(row)
  return { errors, error: wasLast ? error : JSON.stringify(failure) }
}

/**
 * `errors` plus the attempts that were never reported; the job message's headers describe the last of them.
 */
function errorsBefore(row: JobRow, letter: DeadLetter, now: number): string | null {
  const skipped = between(row.attempt, letter.attempt)
  return recordSkipped(row, skipped, reportedError(letter.message.headers), now).errors
}
