/** Where the messages of a queue and its jobs differ, and why that may be. */
import type { AdminQueue } from '../../api/openapi.ts'

interface Drift {
  /** Something is lost, as far as is known. */
  isBad: boolean
  reasons: readonly Reason[]
}

type Reason =
  /** Available jobs that have lost their messages; messages more than jobs; fewer. */
  | { what: 'missing' | 'more' | 'fewer'; count: number }
  /** All agree; leases may be of the ledger alone; native workers may have some; nobody can have them. */
  | { what: 'none' | 'leases' | 'elsewhere' | 'lost' }

/** Null: RabbitMQ could not be asked. */
export function driftOf({ counts, rabbitmq }: Pick<AdminQueue, 'counts' | 'rabbitmq'>) {
  if (rabbitmq === undefined) return null
  const { ready, held, held_back: heldBack, missing, unacknowledged } = rabbitmq
  const jobs = counts.available - heldBack + counts.active
  // The count of all consumers may be older than that of this gateway.
  const difference = ready + Math.max(held, unacknowledged ?? 0) - jobs
  const reasons: Reason[] = missing > 0 ? [{ what: 'missing', count: missing }] : []
  if (difference === 0) reasons.push({ what: 'none' })
  if (difference > 0) reasons.push({ what: 'more', count: difference })
  if (difference < 0) {
    reasons.push({ what: 'fewer', count: -difference })
    if (counts.active > 0) reasons.push({ what: 'leases' })
    if (unacknowledged === undefined) reasons.push({ what: 'elsewhere' })
    else if (counts.active === 0 && missing === 0) reasons.push({ what: 'lost' })
  }
  return { isBad: missing > 0, reasons } satisfies Drift
}
