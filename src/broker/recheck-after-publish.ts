import type { PublisherDeps } from './publish/publisher.ts'
import type { Declarer } from './topology/declarer.ts'
import type { Rungs } from './topology/retry-queues.ts'

interface Rechecks extends Pick<PublisherDeps, 'onReturned' | 'onUnanswered' | 'onChannelError'> {
  /** An exchange is gone, which routes to every queue: each is checked again. */
  onExchangeGone(): void
}

/** Forwards what publishes reveal about queues and rungs to the parts that declare them. */
export function rechecksBy(declarer: Declarer, rungs: Rungs): Rechecks {
  const onExchangeGone = () => void declarer.recheckAll().then(() => rungs.recheckAll())
  return {
    onReturned(queue, rungMs) {
      if (rungMs === null) void declarer.recheck(queue)
      else void rungs.recheck(queue, rungMs)
    },
    onUnanswered(queue, rungMs) {
      if (rungMs !== null) rungs.doubt(queue, rungMs)
    },
    onChannelError(code) {
      if (code === 404) onExchangeGone()
    },
    onExchangeGone,
  }
}
