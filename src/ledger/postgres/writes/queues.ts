/** Retry queues that jobs are put into. */
import { retryQueueKey } from '../../../job/retry/backoff.ts'
import type { RetryQueue } from '../../known.ts'
import { MAX_RECORDED_RETRY_QUEUES } from '../../writes/reported.ts'
import type { Draft } from '../group/draft.ts'

/** If this retry queue is lost one day, it must be known, or the messages in it are lost too. */
export function recordReported(draft: Draft, queue: string, delayMs: number): void {
  if (draft.memory.retryQueues.size < MAX_RECORDED_RETRY_QUEUES)
    recordRetryQueue(draft, { queue, delayMs })
}

/** No effect when it is known. */
export function recordRetryQueue(draft: Draft, retryQueue: RetryQueue): void {
  const { retryQueues } = draft.memory
  const key = retryQueueKey(retryQueue.queue, retryQueue.delayMs)
  if (draft.changes.valueIn(retryQueues, key) !== undefined) return
  const text = `INSERT INTO ${draft.schema}.retry_queues VALUES ($1, $2) ON CONFLICT DO NOTHING`
  const values = [retryQueue.queue, retryQueue.delayMs]
  draft.changes.setIn(retryQueues, key, retryQueue, { text, values })
}
