import type { SettleFence } from '../../ledger/leases.ts'

/** What a worker says of its lease: each part that it names is part of the fence (law 1). */
export function settleFence(request: {
  attempt?: number | null
  worker_id?: string | null
}): SettleFence {
  return {
    ...(request.attempt != null && { attempt: request.attempt }),
    ...(request.worker_id != null && { workerId: request.worker_id }),
  }
}
