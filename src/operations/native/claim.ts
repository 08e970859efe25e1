/** May a native worker run a redelivered message? Answers run, drop, discard or requeue. */
import type { Checkpoint, JobRow } from '../../job/job.ts'
import { decideNativeClaim } from '../../job/native/claim.ts'
import type { NativeClaim } from '../../job/request.ts'
import type { Deps } from '../deps.ts'
import { earlierWrites } from '../earlier-writes.ts'
import { isPaused } from '../queues/pause.ts'
import { claimKeyed, isBegunFor } from './keyed-claim.ts'
import { scopeOf } from './scope.ts'

export interface NativeClaimAnswer {
  /** `requeue`: the queue is paused. */
  decision: 'run' | 'drop' | 'discard' | 'requeue'
  /** With `run`: the attempt to run, which may be later than the job message's. */
  attempt: number
  /** With `run`: the ledger has begun the attempt, which has a place among those of its concurrency key. */
  started?: true
  /** With `run`: that of the job, if it has one. */
  checkpoint?: Checkpoint
}

/**
 * Decides whether a native worker may run a redelivered job message (docs/architecture.md §5). Counts no
 * attempt: the worker's `started` event does, unless the
 * job has a concurrency key and the worker says that it knows such (`keyed`). If the message is the one behind another worker's live lease,
 * commits `holder := ledger` before the answer, because the asking worker will acknowledge the message. Waits
 * for earlier reports to be committed. Rejects when the ledger cannot be used. `heardOn`: the queue whose
 * control queue the claim came by. If it may not be about this job, its message is none of the job:
 * `discard`.
 */
export async function nativeClaim(
  deps: Deps,
  request: NativeClaim,
  heardOn: string,
): Promise<NativeClaimAnswer> {
  const answer = await decide(deps, request, heardOn)
  if (answer.decision !== 'run') return answer
  const checkpoint = await deps.ledger.checkpoints.find(request.job_id)
  return checkpoint === null ? answer : { ...answer, checkpoint }
}

async function decide(
  deps: Deps,
  request: NativeClaim,
  heardOn: string,
): Promise<NativeClaimAnswer> {
  const { job_id: id, attempt, worker_id: workerId } = request
  const jobMessage = { generation: request.generation ?? 0, attempt, workerId }
  const ofQueue = scopeOf(deps, heardOn)
  await earlierWrites(deps)
  for (;;) {
    const row = await deps.ledger.read.find(id)
    const known = row && answerAtOnce(request, row, ofQueue)
    if (known) return known
    const decision = decideNativeClaim(jobMessage, row, {
      now: deps.clock.now(),
      wall: deps.clock.wall(),
      isTombstoned: row === null && (await deps.ledger.read.isTombstoned(id, ofQueue)),
      isHeldHere: deps.jobMessages.held.get(id)?.isLive() ?? false,
    })
    if (decision.decision === 'run') {
      const answer = await run(deps, request, row, decision.attempt, heardOn)
      if (answer === 'stale') continue
      return answer
    }
    if (decision.decision === 'discard') return { attempt, ...decision }
    if (row !== null && decision.isOver) deps.ledger.messageReturned(id, row.generation, attempt)
    // `handOverAny` is false when the row has changed since `find`: decide again.
    if (row === null || !decision.handOver || (await deps.ledger.handOverAny(row))) {
      return { decision: 'drop', attempt }
    }
  }
}

/** `stale`: the row has changed. */
async function run(
  deps: Deps,
  request: NativeClaim,
  row: JobRow | null,
  attempt: number,
  heardOn: string,
): Promise<NativeClaimAnswer | 'stale'> {
  if (isPaused(deps, row?.queue ?? heardOn)) return { decision: 'requeue', attempt }
  if (!request.keyed) return { decision: 'run', attempt }
  const claimed = await claimKeyed(deps, request, row, attempt, heardOn)
  return claimed === 'unlimited' ? { decision: 'run', attempt } : claimed
}

/** The answer that does not depend on the message. */
function answerAtOnce(
  request: NativeClaim,
  row: JobRow,
  ofQueue: string | null,
): NativeClaimAnswer | null {
  if (ofQueue !== null && row.queue !== ofQueue) {
    return { decision: 'discard', attempt: request.attempt }
  }
  if (isBegunFor(request, row)) return { decision: 'run', attempt: row.attempt, started: true }
  return null
}
