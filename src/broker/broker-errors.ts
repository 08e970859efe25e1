/** Why RabbitMQ takes no job, as the 503 or 429 that a PUSH is answered with. */
import { notFound, OjsError, unavailable } from '../errors.ts'
import type { BrokerStatus, EnsureOutcome, PublishOutcome } from './broker.ts'

const REASON: Record<Exclude<BrokerStatus['state'], 'up'>, [reason: string, message: string]> = {
  down: ['broker_down', 'RabbitMQ is not reachable.'],
  blocked: ['broker_blocked', 'RabbitMQ has blocked publishers (memory or disk alarm).'],
  foreign: ['foreign_ledger', 'Another gateway with another ledger serves this RabbitMQ.'],
}

/** The 503 that says why RabbitMQ cannot be used. */
export function brokerRefusal(state: Exclude<BrokerStatus['state'], 'up'>): OjsError {
  const [reason, message] = REASON[state]
  return unavailable(message, reason)
}

/** Why a queue cannot take jobs, as the answer to a PUSH. */
export function queueRefusal(queue: string, outcome: Exclude<EnsureOutcome, 'ready'>): OjsError {
  switch (outcome) {
    case 'missing':
      return notFound('queue', queue)
    case 'lost':
      return unavailable(
        `Queue '${queue}' is gone and its jobs may have run; see 'ojs-rabbitmq recover'.`,
        'queue_lost',
      )
    case 'too-many-queues':
      return new OjsError(
        'unsupported',
        'The server has reached its limit of queues (OJS_MAX_QUEUES).',
        {
          details: { reason: 'too_many_queues', queue },
        },
      )
    case 'lossy':
      return unavailable(
        `Queue '${queue}' can drop messages without a trace: see the warning of GET /ojs/v1/health.`,
        'queue_drops_messages',
      )
    case 'access-refused':
      return unavailable(`RabbitMQ refuses access to queue '${queue}'.`, 'access_refused')
    case 'unavailable':
      return brokerRefusal('down')
  }
}

/** Why a publish did not end in a confirm, as the answer to a PUSH. */
export function publishRefusal(
  queue: string,
  outcome: Exclude<PublishOutcome, 'confirmed'>,
): OjsError {
  switch (outcome) {
    case 'nacked':
      return new OjsError('rate_limited', `Queue '${queue}' is full.`, {
        details: { reason: 'queue_full', queue },
      })
    case 'returned':
      return unavailable(`RabbitMQ could not route the message to queue '${queue}'.`, 'unroutable')
    case 'unknown':
      return unavailable('RabbitMQ did not confirm the job in time.', 'unconfirmed')
    case 'forbidden':
    case 'denied':
      return unavailable(`RabbitMQ refuses to publish to queue '${queue}'.`, 'access_refused')
    case 'too-large':
      return new OjsError(
        'invalid_request',
        "The job is larger than RabbitMQ's max_message_size.",
        {
          status: 413,
          details: { reason: 'message_too_large', queue },
        },
      )
    case 'refused':
      return unavailable('No message can be published to RabbitMQ at the moment.', 'broker_busy')
  }
}
