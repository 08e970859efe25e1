/** May a native worker run a redelivered message? Answers run, drop, discard or requeue. */
import type { ControlMessage } from '../../broker/broker.ts'
import type { Checkpoint } from '../../job/job.ts'
import type { NativeClaim } from '../../job/request.ts'
import type { NativeQuestion } from '../../ledger/native.ts'
import { reportedError } from '../adopt/adopt.ts'
import type { Deps } from '../deps.ts'
import { earlierWrites } from '../earlier-writes.ts'
import { followStart } from './report.ts'
import { shownJob } from './reported-event.ts'
import { scopeOf } from './scope.ts'

export interface NativeClaimAnswer {
  /** `requeue`: not now; ask about the next delivery (`NativeAnswer`). */
  decision: 'run' | 'drop' | 'discard' | 'requeue'
  /** With `run`: the attempt to run, which may be later than the job message's. */
  attempt: number
  /** With `run`: the ledger has begun the attempt, which has a place among those of its concurrency key. */
  started?: true
  /** With `run`: that of the job, if it has one. */
  checkpoint?: Checkpoint
}

/**
 * Decides whether a native worker may run a redelivered job message (docs/architecture.md §5), in one write
 * (`NativeLedger.claimNative`). Waits for earlier reports to be committed; while some may be with a gateway that stands
 * still, the message waits in its queue. Rejects when the ledger cannot be used.
 * `message`: the question itself. If the queue whose control queue it came by may not be about this job, its message
 * is none of the job: `discard`.
 */
export async function nativeClaim(
  deps: Deps,
  request: NativeClaim,
  message: Pick<ControlMessage, 'queue' | 'redelivered'>,
): Promise<NativeClaimAnswer> {
  await earlierWrites(deps)
  const requestId = deps.newId()
  const claimed = await deps.ledger.claimNative(questionOf(deps, request, message), {
    now: deps.clock.now(),
    wall: deps.clock.wall(),
    workerId: request.worker_id,
    defaultLeaseMs: deps.settings.visibilityTimeoutMs,
    cause: { requestId },
  })
  if (claimed.decision !== 'run') return claimed
  const { decision, attempt, isBegun, start, checkpoint } = claimed
  if (start !== null) followStart(deps, start, requestId)
  return { decision, attempt, ...(isBegun && { started: true }), ...(checkpoint && { checkpoint }) }
}

function mayHaveRun({ redelivered, attempt, generation }: NativeClaim): boolean {
  return redelivered !== false || attempt > 1 || (generation ?? 0) > 0
}

function questionOf(
  deps: Deps,
  request: NativeClaim,
  { queue: heardOn, redelivered }: Pick<ControlMessage, 'queue' | 'redelivered'>,
): NativeQuestion {
  const { job_id: id, attempt, generation, job } = request
  const ofQueue = scopeOf(deps, heardOn)
  return {
    ...{ id, attempt, generation: generation ?? 0, workerId: request.worker_id },
    ...{ isAgain: request.again === true, isRepeated: redelivered },
    ...{ isKeyed: request.keyed === true, ofQueue, heardOn },
    areReportsOut: mayHaveRun(request) && deps.broker.mayReportsReturn(heardOn),
    ...(ofQueue !== null && { queue: ofQueue }),
    adopt: job == null ? undefined : () => shownJob(deps, request, job, heardOn),
    reportedError: () => reportedError(request.headers ?? {}),
    isHeldHere: () => deps.jobMessages.held.get(id)?.isLive() ?? false,
  }
}
