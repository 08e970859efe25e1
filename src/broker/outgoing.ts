import type { JobRow } from '../job/job.ts'
import type { Names } from './names.ts'
import type { Outgoing } from './publish-lane.ts'
import { tokenOf } from './token.ts'

/** What the row owes, and where its state points: see `Broker.publish`. */
export function outgoingOf(row: JobRow, { exchange }: Names): Outgoing {
  const { id, queue, state, rungMs } = row
  const { content, options } = tokenOf(row)
  const message = { id, queue, content, options }
  if (state === 'retryable' && rungMs !== null) {
    const routingKey = `${queue}.${rungMs}`
    return { ...message, exchange: exchange.retry, routingKey, rungMs, lanes: 'others' }
  }
  const target = { ...message, routingKey: queue, rungMs: null }
  return state === 'discarded'
    ? { ...target, exchange: exchange.dlx, lanes: 'others' }
    : { ...target, exchange: exchange.direct, lanes: 'jobs' }
}
