import type { Delivery } from '../broker/broker.ts'
import { invalidField } from '../errors.ts'
import { toNewJob } from '../job/envelope.ts'
import { parseInstant } from '../job/instant.ts'
import type { NewJob } from '../job/job.ts'
import { parseJsonObject } from '../schemas/json-text.ts'
import { parsePush } from '../schemas/validator.ts'
import type { Deps } from './deps.ts'

/** What a native message brings along, as a delivery or as a dead letter. */
type NativeMessage = Pick<Delivery, 'id' | 'queue' | 'maxAttempts' | 'message' | 'carry'>

/**
 * A natively published message as a job, validated as strictly as an HTTP body (architecture §2,
 * "unknown id"). Throws `OjsError` for anything that is not an OJS job of this queue.
 */
export function adoptedJob(deps: Deps, delivery: NativeMessage): NewJob {
  const body = parseJsonObject(delivery.message.content)
  const request = parsePush(body)
  if (request.id == null) throw invalidField('id', "The 'id' field is required.")
  if (request.id !== delivery.id) {
    throw invalidField('id', 'message_id and the id in the body differ.')
  }
  const queue = request.options?.queue ?? request.queue ?? delivery.queue
  if (queue !== delivery.queue) {
    throw invalidField('queue', `The body names queue '${queue}', the message came from another.`)
  }
  return toNewJob(request, {
    newId: deps.newId,
    now: deps.clock.now(),
    wall: deps.clock.wall(),
    timeoutMs: deps.settings.timeoutMs,
    prefix: deps.settings.prefix,
    carry: delivery.carry(),
    native: {
      queue: delivery.queue,
      createdAt: createdAt(deps, body, delivery),
      maxAttempts: delivery.maxAttempts,
    },
  })
}

const MAX_DATE_MS = 8.64e15

/** The body's own `created_at`, else the message's timestamp (seconds), else now. */
function createdAt(deps: Deps, body: Record<string, unknown>, delivery: NativeMessage): number {
  const own = body['created_at']
  if (typeof own === 'string') return parseInstant(own, 'created_at', deps.clock.wall()).ms
  // Some publishers write microseconds: beyond what a date can be, it is no date.
  const ms = (delivery.message.properties.timestamp ?? Number.NaN) * 1000
  return Math.abs(ms) <= MAX_DATE_MS ? ms : deps.clock.now()
}
