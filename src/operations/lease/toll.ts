/** Requests about a running lease are free of the request limit; all others pay. */
import { isHeld } from '../../job/lease-fence.ts'
import type { AckRequest } from '../../job/request.ts'
import type { SettleFence } from '../../ledger/leases.ts'
import type { Deps, RequestContext } from '../deps.ts'

/**
 * Under a request limit: a request that settles or extends a running lease is free, so that used-up requests
 * never make a job run twice. Any other is refused with 429 when its caller has none left, before it costs the
 * ledger a write. `ids`: the jobs that the request names. Without a limit there is no toll.
 */
export async function payToll(
  deps: Pick<Deps, 'ledger' | 'settings'>,
  toll: NonNullable<RequestContext['toll']>,
  ids: readonly string[],
  fence: SettleFence,
): Promise<void> {
  for (const id of ids) {
    const row = await deps.ledger.read.standing(id)
    if (row === null || !isHeld(row, fence)) continue
    const lengthMs = row.leaseMs ?? deps.settings.visibilityTimeoutMs
    if (toll.isFree({ id, attempt: row.attempt, lengthMs })) return
  }
  toll.charge()
}

/** The fence of an ACK, NACK or heartbeat: what the request says of the lease. */
export function fenceOf({
  attempt,
  generation,
  worker_id,
}: Pick<AckRequest, 'attempt' | 'generation' | 'worker_id'>): SettleFence {
  return { attempt, generation, workerId: worker_id }
}
