/** What publishes reveal about queues, passed on to those that declare them. */
import type { PublisherDeps } from './publish/publisher.ts'
import type { Declarer } from './topology/declarer.ts'
import type { RetryQueues } from './topology/retry-queues.ts'

interface Rechecks extends Pick<PublisherDeps, 'onReturned' | 'onUnanswered' | 'onChannelError'> {
  /** An exchange is gone, which routes to every queue: each is checked again. */
  onExchangeGone(): void
}

/** Forwards what publishes reveal about queues and retry queues to the parts that declare them. */
export function rechecksBy(declarer: Declarer, retryQueues: RetryQueues): Rechecks {
  const onExchangeGone = () => void declarer.recheckAll().then(() => retryQueues.recheckAll())
  return {
    onReturned(queue, retryQueueMs) {
      if (retryQueueMs === null) void declarer.recheck(queue)
      else void retryQueues.recheck(queue, retryQueueMs)
    },
    onUnanswered(queue, retryQueueMs) {
      if (retryQueueMs !== null) retryQueues.doubt(queue, retryQueueMs)
    },
    onChannelError(code) {
      if (code === 404) onExchangeGone()
    },
    onExchangeGone,
  }
}
