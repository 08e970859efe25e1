import type { JobRow } from '../job/job.ts'
import type { Names } from './names.ts'
import type { Outgoing } from './publish-lane.ts'
import { tokenOf } from './token.ts'

/** What the row owes, and where its state points: see `Broker.publish`. */
export function outgoingOf(row: JobRow, { exchange }: Names): Outgoing {
  const { id, queue, state, rungMs } = row
  const { content, options } = tokenOf(row)
  if (state === 'retryable' && rungMs !== null) {
    const routingKey = `${queue}.${rungMs}`
    return { id, queue, exchange: exchange.retry, routingKey, rungMs, content, options }
  }
  const target = state === 'discarded' ? exchange.dlx : exchange.direct
  return { id, queue, exchange: target, routingKey: queue, rungMs: null, content, options }
}
