/** PUSH over AMQP, and GET of a job by asking a gateway: the client's transport. */
import type { EnsureOutcome, PublishOutcome } from '../broker/broker.ts'
import { brokerRefusal, publishRefusal, queueRefusal } from '../broker/broker-errors.ts'
import { isInTime } from '../broker/connection/reconnect.ts'
import { type HeaderTable, OJS_HEADERS } from '../broker/messages/headers.ts'
import type { Outgoing } from '../broker/messages/outgoing-message.ts'
import { outgoingOf, toGateway } from '../broker/messages/owed-message.ts'
import { OjsError, unavailable } from '../errors.ts'
import { type FreshJob, freshJobObject } from '../job/document.ts'
import { describeJob, requireStartBeforeExpiry } from '../job/envelope.ts'
import { freshRow, type JobRow } from '../job/job.ts'
import type { PushRequest } from '../job/request.ts'
import { enqueueing, traceOf } from '../job/trace/carry.ts'
import { membersOf } from '../job/values/json-value.ts'
import { JSON_LIMITS, parseJsonObject } from '../schemas/json/json-text.ts'
import { plainCopy } from '../schemas/json/plain-json.ts'
import { parsePush } from '../schemas/requests/validator.ts'
import { Slots } from '../sdk/async/semaphore.ts'
import { MAX_DELAY_MS, timeLimit } from '../sdk/async/sleep.ts'
import type { TraceContext } from '../sdk/trace-context.ts'
import type { Transport, TransportRequest, TransportResponse } from '../sdk/transport/transport.ts'
import { producing } from '../telemetry/tracing.ts'
import { uuid7 } from '../uuid.ts'
import type { AmqpLink } from './connection.ts'

/** Header of a GET that names the job's queue: without it a gateway does not find the job by its id. */
export const JOB_QUEUE = 'x-ojs-queue'

const INFO_WAIT_MS = 5_000
/**
 * How many publishes may be under way; further ones wait for their turn. The publisher refuses messages while
 * 16,384 are unconfirmed, or too many bytes, as a gateway must; a program that enqueues more at once can wait
 * instead. RabbitMQ gets 1,536 of them at a time.
 */
const MAX_UNDER_WAY = 4_096

/**
 * Serves the part of the HTTP binding that RabbitMQ can serve by itself, PUSH and PUSH batch, and GET of a
 * job by asking a gateway. So `OJSClient` builds, checks and repeats requests in one way for both transports.
 */
export class AmqpTransport implements Transport {
  readonly #link: AmqpLink
  readonly #slots = new Slots(MAX_UNDER_WAY)

  constructor(link: AmqpLink) {
    this.#link = link
  }

  async request(request: TransportRequest): Promise<TransportResponse> {
    const { method, path, body, timeout, headers = {} } = request
    try {
      if (method === 'POST' && path === '/jobs') {
        return created({ job: freshJobObject(await this.#push(body, headers)) })
      }
      if (method === 'POST' && path === '/jobs/batch') {
        return created({ jobs: (await this.#pushAll(body, headers)).map(freshJobObject) })
      }
      if (method === 'GET' && path.startsWith('/jobs/'))
        return await this.#info(path, headers[JOB_QUEUE] ?? 'default', timeout)
      throw new OjsError('unsupported', `${method} ${path} needs the HTTP binding.`)
    } catch (error) {
      if (error instanceof OjsError) return answerOf(error)
      throw error
    }
  }

  /** May also throw synchronously. Not async: each async function costs a frame for every job under way. */
  #push(body: unknown, from: TraceContext): Promise<FreshJob> {
    const request = requestOf(body)
    return producing(enqueueing(request, from), async (sent) => {
      const made = this.#make(request, sent)
      const { queue } = made.job
      await this.#requireQueue(queue)
      const outcome = await this.#publish(made.job)
      if (outcome !== 'confirmed') throw publishRefusal(queue, outcome)
      return made
    })
  }

  /** Checks every job before the first is published. From then on each succeeds or fails by itself. */
  async #pushAll(body: unknown, from: TraceContext): Promise<FreshJob[]> {
    const batch = { name: 'enqueue_batch', queue: undefined, parent: from } as const
    const { all } = await producing(batch, async (sent) => {
      const all = jobsIn(body).map((job) => this.#make(requestOf(job), sent))
      const jobs = all.map(({ job }) => job)
      await this.#publishAll(jobs)
      return { jobs, all }
    })
    return all
  }

  async #publishAll(rows: JobRow[]): Promise<void> {
    for (const queue of new Set(rows.map((row) => row.queue))) await this.#requireQueue(queue)
    const outcomes = await Promise.all(rows.map((row) => this.#publish(row)))
    const failed = rows.filter((_row, index) => outcomes[index] !== 'confirmed')
    const [first] = failed
    if (first) throw partlyPublished(first.queue, outcomes, failed)
  }

  #make(request: PushRequest, trace: TraceContext): FreshJob {
    const { clock, options } = this.#link
    const now = clock.now()
    const { job, members } = describeJob(request, {
      newId: uuid7,
      now,
      wall: clock.wall(),
      timeoutMs: options.timeoutMs,
      prefix: options.prefix,
      carry: traceOf(request, trace),
    })
    requireStartBeforeExpiry(request, job)
    if (job.start.state === 'pending') {
      throw new OjsError('unsupported', 'A pending job needs the HTTP binding.')
    }
    // Only the ledger knows which other jobs exist, and it learns of this one only after it is in the queue.
    if (job.unique !== null) {
      throw new OjsError('unsupported', 'A unique job needs the HTTP binding.')
    }
    return { job: freshRow(job, { generation: 0, outbox: null, enqueuedAt: now }), members }
  }

  async #requireQueue(queue: string): Promise<void> {
    const { declarer } = this.#link
    await this.#requirePublishing()
    if (declarer.isReady(queue)) return
    const outcome = await this.#inTime(declarer.ensure(queue))
    if (outcome !== 'ready') throw queueRefusal(queue, outcome)
  }

  /** Waits for a short reconnect to end, but not for an alarm. */
  async #requirePublishing(): Promise<void> {
    const { publish, options } = this.#link
    if (!(await this.#link.untilPublishing(options.publishTimeoutMs))) throw brokerRefusal('down')
    if (publish.blockedReason !== null) throw brokerRefusal('blocked')
  }

  /** Publishes a job when it is its turn. */
  async #publish(row: JobRow): Promise<PublishOutcome> {
    const turn = this.#slots.take(undefined)
    if (turn !== true) await turn
    try {
      return await this.#publishNow(row)
    } finally {
      this.#slots.give()
    }
  }

  #publishNow(row: JobRow): Promise<PublishOutcome> {
    const { publisher, names, options, clock } = this.#link
    const message =
      row.state === 'scheduled' && options.delayMode === 'ttl'
        ? toGateway(row, names)
        : outgoingOf(row, names, clock.wall())
    const headers: HeaderTable = message.options.headers
    headers[OJS_HEADERS.native] = true
    return publisher
      .send(message)
      .then((outcome) => (outcome === 'returned' ? this.#publishAgain(message) : outcome))
  }

  /** The message was returned: the queue was deleted meanwhile. Declares it and publishes once more. */
  async #publishAgain(message: Outgoing): Promise<PublishOutcome> {
    const { publisher, declarer } = this.#link
    const outcome = await this.#inTime(declarer.recheck(message.queue))
    return outcome === 'ready' ? await publisher.send(message) : 'returned'
  }

  /** Limits the wait for a declare: RabbitMQ may hang for minutes before its connection counts as lost. */
  async #inTime(ensured: Promise<EnsureOutcome>): Promise<EnsureOutcome> {
    const isAnswered = await isInTime(ensured, 2 * this.#link.options.publishTimeoutMs)
    return isAnswered ? await ensured : 'unavailable'
  }

  async #info(
    path: string,
    queue: string,
    timeout: number | undefined,
  ): Promise<TransportResponse> {
    const waitMs = Math.min(timeLimit(timeout, INFO_WAIT_MS), MAX_DELAY_MS)
    const question = { job_id: decodeURIComponent(path.slice('/jobs/'.length)), queue }
    await this.#requirePublishing()
    const reply = await this.#link.ask('default', 'ojs.control.info', question, waitMs)
    if (reply.outcome !== 'answered') throw unavailable('No gateway has answered.', 'no_gateway')
    return { status: statusOf(reply.body), body: reply.body }
  }
}

/** Checks the body as strictly as HTTP does: a job that the gateway would not adopt must not be published. */
function requestOf(body: unknown): PushRequest {
  const copy = plainCopy(body, JSON_LIMITS.maxDepth)
  return parsePush(copy ?? parseJsonObject(Buffer.from(JSON.stringify(body))))
}

function created(body: object): TransportResponse {
  return { status: 201, body }
}

function jobsIn(body: unknown): unknown[] {
  const { jobs } = membersOf(body)
  return Array.isArray(jobs) ? jobs : []
}

/**
 * Names the ids that failed. A repetition must not enqueue the confirmed jobs under new ids; under the same
 * ids it does no harm.
 */
function partlyPublished(
  queue: string,
  outcomes: readonly PublishOutcome[],
  failed: readonly JobRow[],
): OjsError {
  const first = outcomes.find((outcome) => outcome !== 'confirmed') ?? 'unknown'
  const { code, message, status, details } = publishRefusal(queue, first)
  return new OjsError(code, message, {
    status,
    details: { ...details, failed_job_ids: failed.map(({ id }) => id) },
  })
}

function answerOf({ code, message, retryable, details, status }: OjsError): TransportResponse {
  return { status, body: { error: { code, message, retryable, details } } }
}

/** The HTTP status of an answer over AMQP, by the code in its error body. */
function statusOf(body: unknown): number {
  const { error } = membersOf(body)
  if (typeof error !== 'object' || error === null) return 200
  return membersOf(error)['code'] === 'not_found' ? 404 : 503
}
