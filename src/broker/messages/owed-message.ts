/** The message that a row owes, addressed by the row's state. */
import { OJS_MEDIA_TYPE } from '../../job/document.ts'
import type { JobRow } from '../../job/job.ts'
import { retryQueueKey } from '../../job/retry/backoff.ts'
import type { Unusable } from '../broker.ts'
import type { Names } from '../names.ts'
import type { BrokerDeps } from '../options.ts'
import { jobMessageOf, shortText } from './job-message.ts'
import type { ChannelGroup, Outgoing } from './outgoing-message.ts'

/** As `outgoingOf`, with the time of `clock`. Null: it cannot be built, which is a bug, and was logged. */
export function outgoingOrNull(
  row: JobRow,
  { clock, logger }: Pick<BrokerDeps, 'clock' | 'logger'>,
  names: Names,
): Outgoing | null {
  try {
    return outgoingOf(row, names, clock.wall())
  } catch (error) {
    logger.error({ err: error, jobId: row.id }, 'bug: message of a job cannot be built')
    return null
  }
}

/**
 * The message that the row owes, addressed by the row's state: see `Broker.publish`. `wall`: the wall time in
 * ms from which the delay of a scheduled job is counted.
 */
export function outgoingOf(row: JobRow, { exchange }: Names, wall: number): Outgoing {
  const { state, queue, retryQueueMs } = row
  if (state === 'scheduled') return delayed(row, exchange.delayed, wall)
  if (state === 'retryable' && retryQueueMs !== null) {
    return outgoing(row, exchange.retry, retryQueueKey(queue, retryQueueMs), retryQueueMs, 'others')
  }
  return state === 'discarded'
    ? outgoing(row, exchange.dlx, queue, null, 'others')
    : outgoing(row, exchange.direct, queue, null, 'jobs')
}

/**
 * Addresses a native producer's schedule to `ojs.system.due`, where it waits for a gateway, which reads
 * `x-ojs-scheduled-at` (`x-delay` would count from whenever a gateway takes it). Mandatory, unlike a publish
 * to the plugin's exchange: without that queue the message would be lost.
 */
export function toGateway(row: JobRow, { exchange }: Names): Outgoing {
  return outgoing(row, exchange.delayed, row.queue, null, 'others')
}

/** Seed 002 §9.1.2. Not `mandatory`: the plugin would return every message that it delays. */
function delayed(row: JobRow, exchange: string, wall: number): Outgoing {
  const message = outgoing(row, exchange, row.queue, null, 'others')
  const headers: object = message.options.headers ?? {}
  const delay = { 'x-delay': Math.max(0, (row.dueAt ?? wall) - wall) }
  return {
    ...message,
    options: { ...message.options, mandatory: false, headers: { ...headers, ...delay } },
  }
}

/** Addresses a message that is no job to where RabbitMQ puts the job messages that we reject. */
export function toDeadLetters({ id, queue, content }: Unusable, { exchange }: Names): Outgoing {
  // As sent: a return is matched by this id.
  const messageId = shortText(id)
  return {
    id: messageId,
    queue,
    exchange: exchange.dlx,
    routingKey: queue,
    retryQueueMs: null,
    group: 'others',
    content,
    options: {
      mandatory: true,
      persistent: true,
      contentType: OJS_MEDIA_TYPE,
      contentEncoding: 'utf-8',
      messageId,
    },
  }
}

/** Written member by member, as `freshRow` is, because this runs for every job. */
function outgoing(
  row: JobRow,
  exchange: string,
  routingKey: string,
  retryQueueMs: number | null,
  group: ChannelGroup,
): Outgoing {
  const { content, options } = jobMessageOf(row)
  return {
    id: row.id,
    queue: row.queue,
    content,
    options,
    exchange,
    routingKey,
    retryQueueMs,
    group,
  }
}
