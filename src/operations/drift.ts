import type { Deps } from './deps.ts'

/** More jobs than this are not counted. */
export const MAX_COUNTED = 10_000

/**
 * Handles jobs that have been available since before `before` although RabbitMQ has no message of theirs.
 * Publishes those again that became available after `aloneSince`: since then no other consumer was seen on
 * the queue that may have run them. Returns how many are left, for an operator to decide (`recoverQueue`).
 */
export async function onDrift(
  deps: Deps,
  queue: string,
  before: number,
  aloneSince: number | null,
): Promise<number> {
  const { ledger, logger } = deps
  // What is marked as lost is published again by an operator only.
  const isOurs = aloneSince !== null && aloneSince < before && !ledger.lost.has(queue)
  const jobs = isOurs ? await ledger.tokenless.rearm(queue, { after: aloneSince, before }) : 0
  if (jobs > 0) {
    logger.warn({ queue, jobs }, 'jobs had no message in RabbitMQ: they will be published again')
    deps.wakeRelay()
  }
  return (await ledger.tokenless.list(queue, { after: null, before }, MAX_COUNTED)).length
}
