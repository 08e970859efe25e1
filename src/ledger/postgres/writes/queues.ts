/** Retry queues that jobs are put into. */
import { retryQueueKey } from '../../../job/retry/backoff.ts'
import { MAX_RECORDED_RETRY_QUEUES } from '../../writes/reported.ts'
import type { Draft } from '../group/draft.ts'

/** If this retry queue is lost one day, it must be known, or the messages in it are lost too. */
export function recordRetryQueue(draft: Draft, queue: string, delayMs: number): void {
  const { retryQueues } = draft.memory
  if (
    !retryQueues.has(retryQueueKey(queue, delayMs)) &&
    retryQueues.size < MAX_RECORDED_RETRY_QUEUES
  )
    draft.changes.recordRetryQueue({ queue, delayMs })
}
