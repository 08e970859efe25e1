import type { BrokerGauges } from '../observer.ts'
import type { Feed } from './queue-consumer.ts'
import type { FetchLine } from './waiting-fetches.ts'

/** Gauges of the queues that are consumed for FETCH, and of the paused queues that fetches wait for. */
export function feedGauges(
  feeds: ReadonlyMap<string, Feed>,
  line: FetchLine,
  isPaused: (queue: string) => boolean,
): Pick<BrokerGauges, 'consumers' | 'queues'> {
  const queues = new Set([...feeds.keys(), ...[...line.waitedFor()].filter(isPaused)])
  return {
    consumers: [...feeds.values()].flatMap(({ queue, blocks }) =>
      [...blocks].map(({ tag, unacked }) => ({ queue, consumer: tag, unacked })),
    ),
    queues: [...queues].map((queue) => ({
      queue,
      buffered: feeds.get(queue)?.buffer.size ?? 0,
      waiters: line.countFor(queue),
      utilization: feeds.get(queue)?.utilization ?? 0,
    })),
  }
}
