/** After a failed attempt: judges it, and publishes the next message to its retry queue. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { LiveDelivery } from '../broker/consume/delivery.ts'
import { publishOptionsOf } from '../broker/messages/job-message.ts'
import type { ReportedOutcome } from '../job/request.ts'
import { chooseDelay, retryQueueKey } from '../job/retry/backoff.ts'
import type { Failure } from '../job/retry/error-history.ts'
import { judge, retryPolicyOf } from '../job/retry/retry-policy.ts'
import type { AmqpLink } from './connection.ts'
import { hasConcurrencyKey, type MessageJob, retrySource } from './message-job.ts'
import { canBeHeld } from './reported-job.ts'

/**
 * How long to wait for RabbitMQ's answer about a retry queue if a gateway can hold the job instead. Then a
 * retry queue that is not usable yet is not waited for.
 */
const RETRY_QUEUE_WAIT_MS = 1_000
/**
 * The same without a gateway: long enough for a new retry queue to settle, or the job would wait for a
 * gateway.
 */
const LONG_RETRY_QUEUE_WAIT_MS = 5_000
const LOOK_AGAIN_MS = 100

export interface FailedRun {
  delivery: LiveDelivery
  jobMessage: MessageJob
  attempt: number
  failure: Failure
  /** Called right before the next job message is published. */
  onPublish(): void
}

/**
 * Decides what happens after a failed attempt, with the gateway's own policy code (seed 002 §5.4, §5.5, §8),
 * and publishes the job message of the next attempt: confirmed to its retry queue, or left to the gateway,
 * which then holds the job (`rung_ms: null`), as it does those with a concurrency key.
 */
export async function decideFailure(
  link: AmqpLink,
  run: FailedRun,
  hasGateway: boolean,
): Promise<ReportedOutcome> {
  const { jobMessage, attempt, failure } = run
  const policy = retryPolicyOf({
    envelope: jobMessage.envelope(),
    maxAttempts: jobMessage.maxAttempts,
  })
  if (judge(policy, attempt, failure).do === 'discard') return { decision: 'discard' }
  const { delayMs, retryQueueMs } = chooseDelay(policy.backoff, attempt, link.random)
  const isHoldable = canBeHeld(jobMessage, run.delivery)
  // Out of a TTL queue the message would come whether or not its key has a place by then.
  const mustBeHeld = isHoldable && hasConcurrencyKey(jobMessage)
  const isInRetryQueue =
    retryQueueMs !== null &&
    !mustBeHeld &&
    (await publishTo(link, run, retryQueueMs, hasGateway && isHoldable))
  // No gateway could hold the job: as a dead letter it is not lost.
  if (!isInRetryQueue && !isHoldable) return { decision: 'discard' }
  return { decision: 'retry', delay_ms: delayMs, rung_ms: isInRetryQueue ? retryQueueMs : null }
}

/**
 * Publishes the next job message to its retry queue. False: it is not certain that the message is there. If
 * it is, two messages name the same attempt, and one of them is dropped.
 */
async function publishTo(
  link: AmqpLink,
  run: FailedRun,
  retryQueueMs: number,
  hasGateway: boolean,
): Promise<boolean> {
  const { delivery, jobMessage, attempt, failure } = run
  const { queue, id } = delivery
  const isUsable = await usableRetryQueue(link, queue, retryQueueMs, hasGateway)
  if (!isUsable) return false
  const source = retrySource(delivery, jobMessage, { attempt, failure, now: link.clock.now() })
  run.onPublish()
  const outcome = await link.publisher.send({
    id,
    queue,
    exchange: link.names.exchange.retry,
    routingKey: retryQueueKey(queue, retryQueueMs),
    retryQueueMs,
    group: 'others',
    // The body as it arrived: unknown members, the generation and every digit of a number survive.
    content: delivery.raw.content,
    options: publishOptionsOf(source),
  })
  return outcome === 'confirmed'
}

async function usableRetryQueue(
  link: AmqpLink,
  queue: string,
  retryQueueMs: number,
  hasGateway: boolean,
): Promise<boolean> {
  const { retryQueues, clock, publish } = link
  const until = clock.now() + (hasGateway ? RETRY_QUEUE_WAIT_MS : LONG_RETRY_QUEUE_WAIT_MS)
  const wait = (ms: number) => sleep(ms, 'unusable' as const, { ref: false })
  while (publish.isUp && !retryQueues.isReady(queue, retryQueueMs)) {
    const leftMs = until - clock.now()
    if (leftMs <= 0) return false
    const outcome = await Promise.race([retryQueues.ensure(queue, retryQueueMs), wait(leftMs)])
    if (outcome === 'ready') return true
    if (hasGateway) return false
    await wait(LOOK_AGAIN_MS)
  }
  return publish.isUp
}
