import type { JobRow } from '../job/job.ts'
import type { Names } from './names.ts'
import type { Outgoing } from './publish-lane.ts'
import { tokenOf } from './token.ts'

/** What the row owes, and where its state points: see `Broker.publish`. */
export function outgoingOf(row: JobRow, { exchange }: Names): Outgoing {
  const { state, queue, rungMs } = row
  if (state === 'retryable' && rungMs !== null) {
    return outgoing(row, exchange.retry, `${queue}.${rungMs}`, rungMs, 'others')
  }
  return state === 'discarded'
    ? outgoing(row, exchange.dlx, queue, null, 'others')
    : outgoing(row, exchange.direct, queue, null, 'jobs')
}

/** Member by member, as `freshRow`: this runs for every job. */
function outgoing(
  row: JobRow,
  exchange: string,
  routingKey: string,
  rungMs: number | null,
  lanes: Outgoing['lanes'],
): Outgoing {
  const { content, options } = tokenOf(row)
  return { id: row.id, queue: row.queue, content, options, exchange, routingKey, rungMs, lanes }
}
