/** The AMQP door: parses a control message, calls its operation, answers a question. */
import type { ControlMessage, ControlVerdict } from '../broker/broker.ts'
import { isHopeless, OjsError } from '../errors.ts'
import { MAX_CHECKPOINT_BYTES } from '../job/progress.ts'
import { MAX_ALONE } from '../memory.ts'
import type { Deps } from '../operations/deps.ts'
import { COPIES_OF_MESSAGE, heapOfText } from '../schemas/json/json-heap.ts'
import { parseJsonList, parseJsonListInSlices } from '../schemas/json/json-list.ts'
import { parseJsonObject } from '../schemas/json/json-text.ts'
import { inSlices } from '../slices.ts'
import type { ControlObserver, MalformedReason } from '../telemetry/control-metrics.ts'
import { Complaints } from './complaints.ts'
import { COMMANDS, isKnown, LISTS, QUESTIONS, type Received, typeLabel } from './messages.ts'
import { errorAnswer, reply } from './rpc.ts'

const MAX_BYTES = 1_048_576
/** Heap that the text and the values of a message may take: those of the largest job that HTTP accepts do. */
const MAX_HEAP_BYTES = Math.min(MAX_ALONE, 64 * 1024 * 1024)
/** By what factor text grows at most if a worker escapes each character as `\u0000`, as Python does. */
const MAX_ESCAPED = 3

export interface ControlDoorDeps {
  deps: Deps
  observer: ControlObserver
}

/** The message is invalid: it is dead-lettered, or answered with an error if it is a question. */
class Malformed extends Error {
  readonly reason: MalformedReason

  constructor(reason: MalformedReason, cause?: unknown) {
    super(reason, { cause })
    this.reason = reason
  }
}

/**
 * The AMQP door, for the broker layer's `onControl`: parses each message, calls its operation and answers a
 * question; nothing else happens here (docs/architecture.md, law 5). Rejects only if RabbitMQ should deliver
 * the message again, because the ledger cannot be written now.
 */
export function controlDoor({ deps, observer }: ControlDoorDeps) {
  const complaints = new Complaints(deps)
  const door = { deps, observer, complaints }
  return async (sent: ControlMessage): Promise<ControlVerdict> => {
    const message = withType(sent)
    const requestId = `req_${deps.newId()}`
    try {
      const read = bodyOf(message, maxBytes(deps, message))
      // Not awaited unless it must be: operations begin in the order in which the messages came.
      const body = read instanceof Promise ? await read : read
      await handle(door, {
        message,
        body,
        context: { requestId },
        ...notes(door, message, requestId),
      })
      observer.received(message.type)
      return 'handled'
    } catch (error) {
      const { reason, cause } = malformedIn(error, message)
      observer.malformed(typeLabel(message.type), reason)
      complaints.malformed(message, reason, cause, requestId)
      if (reason !== 'invalid_json' && reason !== 'invalid_request') return 'malformed'
      if (!QUESTIONS.has(message.type) || message.replyTo === null) return 'malformed'
      await reply(deps, door, message, errorAnswer(cause, requestId))
      return 'handled'
    }
  }
}

/** Adds the type of an INFO, the only question of seed 002: §5.8 names none, so a client may leave it out. */
function withType(message: ControlMessage): ControlMessage {
  const isInfo = message.type === '' && message.replyTo !== null
  return isInfo ? { ...message, type: 'ojs.control.info' } : message
}

/** Messages that may carry a checkpoint. */
const NOTES: ReadonlySet<string> = new Set(['ojs.control.progress', 'ojs.control.checkpoint'])

/**
 * Size limit of a body. That of reports is higher because a failed job is in its report as a whole. Its
 * worker has acknowledged the job, and would not be told that the report was refused.
 */
function maxBytes({ settings }: Deps, { type }: ControlMessage): number {
  if (LISTS.has(type)) return MAX_BYTES + MAX_ESCAPED * settings.maxBodyBytes
  return NOTES.has(type) ? MAX_BYTES + MAX_ESCAPED * MAX_CHECKPOINT_BYTES : MAX_BYTES
}

interface Door extends ControlDoorDeps {
  complaints: Complaints
}

/** What a handler says about the parts of a message that have no effect: they are counted and logged. */
function notes(
  { observer, complaints }: Door,
  message: ControlMessage,
  requestId: string,
): Pick<Received, 'skipped' | 'refused'> {
  const { type } = message
  return {
    skipped: (count, complaint) => {
      observer.skipped(type, count)
      if (complaint) complaints.leftOut(message, { ...complaint, count }, requestId)
    },
    refused: (refused) => {
      for (const [reason, { count, jobId }] of refused) {
        observer.refused(type, reason, count)
        complaints.refused(message, { reason, count, jobId }, requestId)
      }
    },
  }
}

/** Throws `Malformed`, or `OjsError` 400. A promise only for a large list, whose queue waits for it. */
function bodyOf(
  message: ControlMessage,
  limit: number,
): Received['body'] | Promise<Received['body']> {
  const { type, content, replyTo, isLarge = false } = message
  if (!isKnown(type)) throw new Malformed('unknown_type')
  if (QUESTIONS.has(type) && replyTo === null) throw new Malformed('no_reply_to')
  if (content.length > limit) throw new Malformed('too_large')
  const list = LISTS.get(type)
  if (list === undefined) return parseJsonObject(content)
  if (!isLarge) return parseJsonList(content, list)
  const text = heapOfText(content, COPIES_OF_MESSAGE)
  const afford = (values: number) => {
    if (text + values > MAX_HEAP_BYTES) throw new Malformed('too_large')
  }
  return inSlices(parseJsonListInSlices(content, list, afford))
}

async function handle(door: Door, received: Received): Promise<void> {
  const { deps } = door
  const { message, context } = received
  const question = QUESTIONS.get(message.type)
  if (question === undefined) {
    await run(deps, received)
    return
  }
  let answer: string
  try {
    answer = await question(deps, received)
  } catch (error) {
    if (isRefused(error)) throw error
    if (!(error instanceof OjsError)) {
      deps.logger.error(
        { err: error, type: message.type, ...context },
        'control message failed; its answer is an error',
      )
    }
    answer = errorAnswer(error, context.requestId)
  }
  await reply(deps, door, message, answer)
}

/** Runs a command. Nobody gets its result: an error about an unknown job or outdated news is only logged. */
async function run(deps: Deps, received: Received): Promise<void> {
  const { message, context } = received
  try {
    await COMMANDS.get(message.type)?.(deps, received)
  } catch (error) {
    if (error instanceof OjsError && error.status === 413) throw new Malformed('too_large', error)
    if (!(error instanceof OjsError) || error.retryable || isRefused(error)) throw error
    deps.logger.debug(
      { err: error, type: message.type, ...context },
      'control message had no effect',
    )
  }
}

/** Whether the request itself is invalid, no matter whether the parser or the operation found out. */
function isRefused(error: unknown): error is OjsError {
  return error instanceof OjsError && error.status === 400
}

/** The fault of the message as `Malformed`. Rethrows errors that are not the message's fault. */
function malformedIn(error: unknown, { redelivered }: ControlMessage): Malformed {
  if (error instanceof Malformed) return error
  if (isRefused(error)) {
    const isJson = error.code !== 'invalid_payload'
    return new Malformed(isJson ? 'invalid_request' : 'invalid_json', error)
  }
  // Dead-lettered: as many such messages as are handled at a time would block the queue for good.
  if (isHopeless(error) && redelivered) return new Malformed('failed', error)
  throw error
}
