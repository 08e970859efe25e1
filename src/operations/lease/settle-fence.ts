import type { SettleFence } from '../../ledger/leases.ts'

/** The fence of an ACK or NACK: whichever of `attempt` and `worker_id` the worker names (law 1). */
export function settleFence(request: {
  attempt?: number | null
  worker_id?: string | null
}): SettleFence {
  return {
    ...(request.attempt != null && { attempt: request.attempt }),
    ...(request.worker_id != null && { workerId: request.worker_id }),
  }
}
