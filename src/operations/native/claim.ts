import { decideNativeClaim } from '../../job/native-claim.ts'
import type { NativeClaim } from '../../job/request.ts'
import type { Deps } from '../deps.ts'
import { earlierWrites } from '../earlier-writes.ts'

export interface NativeClaimAnswer {
  decision: 'run' | 'drop' | 'discard'
  /** `run`: as this attempt, which may be later than the token's. */
  attempt: number
}

/**
 * May a native worker run a token that was delivered before (architecture §5)? Changes no attempt:
 * the worker's `started` does. Where its token is the one behind somebody's live lease, the lease
 * goes on in the ledger alone, committed before the answer. What was said before the question
 * counts. Rejects when the ledger cannot be used.
 */
export async function nativeClaim(deps: Deps, request: NativeClaim): Promise<NativeClaimAnswer> {
  const { job_id: id, attempt, worker_id: workerId } = request
  const token = { generation: request.generation ?? 0, attempt, workerId }
  await earlierWrites(deps)
  for (;;) {
    const row = deps.ledger.find(id)
    const decision = decideNativeClaim(token, row, {
      now: deps.clock.now(),
      wall: deps.clock.wall(),
      isTombstoned: row === null && deps.ledger.isTombstoned(id),
      isHeldHere: deps.tokens.held.get(id)?.isLive() ?? false,
    })
    if (decision.decision !== 'drop') return { attempt, ...decision }
    if (row !== null && decision.isOver) deps.ledger.tokenReturned(id, row.generation, attempt)
    // The row may have moved since it was looked at: then it is looked at again.
    if (row === null || !decision.handOver || (await deps.ledger.handOverAny(row))) {
      return { decision: 'drop', attempt }
    }
  }
}
