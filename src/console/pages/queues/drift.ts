/** Where the messages of a queue and its jobs differ, and why that may be. */
import type { AdminQueue } from '../../api/openapi.ts'
import { number } from '../../text/format.ts'
import { t } from '../../text/text.ts'

type Seen = Pick<AdminQueue, 'counts' | 'rabbitmq'>

export interface Drift {
  /** Something is lost, as far as is known. */
  isBad: boolean
  sentences: string[]
}

/** Null: RabbitMQ could not be asked. */
export function driftOf({ counts, rabbitmq }: Seen): Drift | null {
  if (rabbitmq === undefined) return null
  const { ready, held, held_back: heldBack, missing, unacknowledged } = rabbitmq
  const jobs = counts.available - heldBack + counts.active
  const difference = ready + Math.max(held, unacknowledged ?? 0) - jobs
  const about = missing > 0 ? [t.drift.missing(number(missing))] : []
  if (difference === 0) return { isBad: missing > 0, sentences: [...about, t.drift.none] }
  if (difference > 0) {
    return { isBad: missing > 0, sentences: [...about, t.drift.more(number(difference))] }
  }
  const reasons = [
    ...(counts.active > 0 ? [t.drift.leases] : []),
    ...(unacknowledged === undefined ? [t.drift.elsewhere] : []),
  ]
  const fewer = t.drift.fewer(number(-difference))
  return { isBad: missing > 0, sentences: [...about, fewer, ...reasons] }
}
