import type { Feed } from './feed.ts'
import type { FetchLine } from './fetch-line.ts'
import type { BrokerGauges } from './observer.ts'

/** What the metrics show of the queues that are consumed for FETCH. */
export function feedGauges(
  feeds: readonly Feed[],
  line: FetchLine,
): Pick<BrokerGauges, 'consumers' | 'queues'> {
  return {
    consumers: feeds.flatMap(({ queue, blocks }) =>
      [...blocks].map(({ tag, unacked }) => ({ queue, consumer: tag, unacked })),
    ),
    queues: feeds.map(({ queue, buffer, utilization }) => ({
      queue,
      buffered: buffer.size,
      waiters: line.countFor(queue),
      utilization,
    })),
  }
}
