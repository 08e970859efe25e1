/** What operators set for a queue at run time: its limits and its default retry policy. */

import type { LimitsOutcome, QueueLimits } from '../../broker/broker.ts'
import { queueRefusal } from '../../broker/broker-errors.ts'
import { OjsError, unavailable } from '../../errors.ts'
import { checkQueueName } from '../../job/queue-name.ts'
import type { PushOptions, PushRequest } from '../../job/request.ts'
import { normaliseRetry } from '../../job/retry/retry-request.ts'
import { NOT_CONFIGURED, type QueueConfiguration } from '../../ledger/queue-settings.ts'
import { parseQueueConfig, type QueueConfigRequest } from '../../schemas/requests/admin.ts'
import type { Deps, RequestContext } from '../deps.ts'

export type Configured = QueueConfiguration

export function configurationOf({ ledger }: Pick<Deps, 'ledger'>, queue: string): Configured {
  return ledger.known.queueSettings.of(queue)?.configuration ?? NOT_CONFIGURED
}

/** The members that `PUT …/config` knows but that this server does not have, and what to do instead. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  concurrency: "Give the jobs 'options.rate_limit' or 'options.concurrency'.",
  rate_limit: "Give the jobs 'options.rate_limit'.",
  retention: 'Retention is set for all queues: OJS_RETENTION_*.',
  visibility_timeout: 'Set OJS_VISIBILITY_TIMEOUT_MS, or give it with the job.',
  default_timeout: 'Set OJS_TIMEOUT_MS, or give it with the job.',
  dead_letter_max_size: 'It is set for all queues: OJS_MAX_DEAD_LETTERS.',
  dead_letter_ttl: 'It is set for all queues: OJS_RETENTION_DEAD_LETTERS.',
  dead_letter_queue: 'Dead letters stay in their queue.',
  allowed_job_types: 'Use API keys of some queues, and schemas.',
  producers: 'Use API keys of some queues.',
}

/**
 * Changes what is set for a queue (OJS queue configuration): members that are not named stay, null unsets one.
 * An unknown queue is created. Holds for jobs that are stored from now on. The limits are a RabbitMQ policy,
 * set first: if it cannot be, nothing is changed. Throws 400; 409 if another policy applies to the queue; 422
 * for a member that there is not, or if the gateway may not set policies; 503; and what the first PUSH to the
 * queue would throw.
 */
export async function configureQueue(
  deps: Deps,
  queue: string,
  body: unknown,
  context: RequestContext,
): Promise<QueueConfiguration> {
  checkQueueName(queue, deps.settings.prefix, 'name')
  const change = changeIn(parseQueueConfig(body))
  if (!deps.ledger.known.hasQueue(queue)) {
    const outcome = await deps.broker.ensureQueue(queue)
    if (outcome !== 'ready') throw queueRefusal(queue, outcome)
  }
  return await inTurn(deps, queue, async () => {
    if ('maxSize' in change || 'maxSizeBytes' in change) {
      await setLimits(deps, queue, { ...configurationOf(deps, queue), ...change })
    }
    const changed = await deps.ledger.queueSettings.configure(queue, change, deps.clock.now())
    const { requestId, principal } = context
    deps.logger.info({ queue, ...change, requestId, principal }, 'queue configured')
    return changed
  })
}

/** The policy and the row change together: one request after the other. */
async function inTurn<T>(
  { transient }: Pick<Deps, 'transient'>,
  queue: string,
  work: () => Promise<T>,
): Promise<T> {
  const before = transient.configuring.get(queue) ?? Promise.resolve()
  const mine = before.then(work, work)
  transient.configuring.set(queue, mine)
  try {
    return await mine
  } finally {
    if (transient.configuring.get(queue) === mine) transient.configuring.delete(queue)
  }
}

function changeIn(request: QueueConfigRequest): Partial<QueueConfiguration> {
  for (const [field, instead] of Object.entries(ELSEWHERE)) {
    if (request[field] == null) continue
    throw new OjsError('unsupported', `'${field}' cannot be set for a queue. ${instead}`, {
      details: { field, reason: 'unsupported_setting' },
    })
  }
  const { backpressure } = request
  requireRejection('overflow_policy', request.overflow_policy)
  requireRejection('backpressure.strategy', backpressure?.strategy)
  if (request.default_retry) normaliseRetry(request.default_retry, 'default_retry')
  const maxSize = oneOf('max_size', request.max_size, backpressure?.max_depth)
  const maxSizeBytes = oneOf('max_size_bytes', request.max_size_bytes, backpressure?.max_size_bytes)
  const { default_retry: defaultRetry } = request
  const isAllGone = backpressure === null
  return {
    ...(defaultRetry !== undefined && { defaultRetry }),
    ...(isAllGone && { maxSize: null, maxSizeBytes: null }),
    ...(maxSize !== undefined && { maxSize }),
    ...(maxSizeBytes !== undefined && { maxSizeBytes }),
  }
}

/** The strategy that RabbitMQ offers without losing a job: the message is refused, and PUSH answers 429. */
function requireRejection(field: string, strategy: string | null | undefined): void {
  if (strategy == null || strategy === 'reject') return
  throw new OjsError('unsupported', `'${field}' can only be 'reject': PUSH answers 429.`, {
    details: { field, reason: 'unsupported_setting' },
  })
}

/** OJS's documents have two names for each limit; 0 is "no limit" under the second. */
function oneOf(field: string, own: number | null | undefined, other: number | null | undefined) {
  const otherValue = other === 0 ? null : other
  if (own !== undefined && otherValue !== undefined && own !== otherValue) {
    throw new OjsError('invalid_request', `'${field}' differs from the same in 'backpressure'.`, {
      details: { field },
    })
  }
  return own === undefined ? otherValue : own
}

async function setLimits(
  { broker }: Pick<Deps, 'broker'>,
  queue: string,
  { maxSize, maxSizeBytes }: QueueLimits,
): Promise<void> {
  const limits = { maxSize, maxSizeBytes }
  const done = await broker.limits.set(queue, limits)
  if (done.outcome !== 'set') throw refusal(done, broker.limits.policyOf(queue, limits))
}

/** Says how an operator can set the policy by other means. */
function refusal(done: Exclude<LimitsOutcome, { outcome: 'set' }>, policy: object): OjsError {
  const field = 'max_size'
  switch (done.outcome) {
    case 'not-configured':
      return new OjsError(
        'unsupported',
        "Limits are RabbitMQ policies. Set OJS_MANAGEMENT_URL to RabbitMQ's management API, or set the policy there yourself.",
        { details: { field, reason: 'management_not_configured', policy } },
      )
    case 'denied':
      return new OjsError(
        'unsupported',
        "Limits are RabbitMQ policies, which the gateway's user may not set: it needs the tag 'policymaker'.",
        { details: { field, reason: 'policy_denied', policy } },
      )
    case 'other-policy':
      return new OjsError(
        'invalid_request',
        `The policy '${done.policy}' applies to this queue, and RabbitMQ applies only one: add the limits to it.`,
        { status: 409, details: { field, reason: 'other_policy', other: done.policy, policy } },
      )
    case 'classic-queue':
      return new OjsError(
        'unsupported',
        'The queue is a classic queue, and RabbitMQ drops jobs from a limited one when it restarts: limit quorum queues.',
        { details: { field, reason: 'classic_queue' } },
      )
    case 'invalid':
      return new OjsError('unsupported', `RabbitMQ refuses the policy: ${done.message}`, {
        details: { field, reason: 'policy_refused', policy },
      })
    case 'unavailable':
      return unavailable(
        `RabbitMQ's management API does not answer: ${done.message}`,
        'management_unavailable',
      )
  }
}

/** The request with the default retry policy of its queue, if it has one and the request names none. */
export function withDefaultRetry(deps: Pick<Deps, 'ledger'>, request: PushRequest): PushRequest {
  const queue = request.options?.queue ?? request.queue ?? 'default'
  const retry = deps.ledger.known.queueSettings.of(queue)?.configuration.defaultRetry ?? null
  if (retry === null || namesRetry(request) || namesRetry(request.options ?? {})) return request
  return { ...request, options: { ...request.options, retry } }
}

function namesRetry({ retry, retry_policy, max_attempts }: PushOptions): boolean {
  return retry != null || retry_policy != null || max_attempts != null
}
