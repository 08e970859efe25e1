/** May native workers have ended jobs that look as if they ran or waited? Asked before others decide about those. */
import type { Deps } from '../operations/deps.ts'

/** RabbitMQ may be away for long, and nothing shall wait for that. */
const AWAY_MS = 10_000

/**
 * Returns a function that is true as long as reports are not heard that were waiting when this gateway began to consume;
 * in one go for `mostMs`, and for 10 s while RabbitMQ is away.
 */
export function reportsOut(
  { broker, clock }: Pick<Deps, 'broker' | 'clock'>,
  mostMs: number,
): () => boolean {
  let since: number | null = null
  return () => {
    if (broker.controlBacklogConsumed()) {
      since = null
      return false
    }
    const now = clock.now()
    since ??= now
    const isUp = broker.status().state === 'up'
    return now - since < (isUp ? mostMs : Math.min(AWAY_MS, mostMs))
  }
}
