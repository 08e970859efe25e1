/** Retry queues that jobs are put into. */
import { retryQueueKey } from '../../../job/retry/backoff.ts'
import type { Draft } from '../group/draft.ts'

/** Twice the default of OJS_MAX_RUNGS. A bound, because workers name these retry queues. */
const MAX_RECORDED = 2_000

/** If this retry queue is lost one day, it must be known, or the messages in it are lost too. */
export function recordRetryQueue(draft: Draft, queue: string, delayMs: number): void {
  const { retryQueues } = draft.memory
  if (!retryQueues.has(retryQueueKey(queue, delayMs)) && retryQueues.size < MAX_RECORDED)
    draft.changes.recordRetryQueue({ queue, delayMs })
}
