/** `NativeProducer`: enqueues directly into RabbitMQ, with the client's methods. */
import { publishRefusal } from '../broker/broker-errors.ts'
import { isInTime } from '../broker/connection/reconnect.ts'
import { Deferred } from '../sdk/async/deferred.ts'
import { onAbort } from '../sdk/async/on-abort.ts'
import { requireKnown, requireObject } from '../sdk/async/options.ts'
import { Pause } from '../sdk/async/sleep.ts'
import { OJSClient } from '../sdk/client/client.ts'
import type { JobOptions, JobSpec } from '../sdk/client/job-options.ts'
import type { Job } from '../sdk/job.ts'
import { OJSBackendError, OJSTransportError } from '../sdk/transport/errors.ts'
import { type CallOptions, requireCall, segment } from '../sdk/transport/request.ts'
import { uuid7 } from '../uuid.ts'
import { AmqpTransport, JOB_QUEUE } from './amqp-transport.ts'
import { AmqpLink } from './connection.ts'
import { GatewayRpc } from './gateway-rpc.ts'
import { AMQP_OPTIONS, type AmqpOptions, withDefaults } from './options.ts'

/** How long `close` waits for calls under way, including their confirms. */
const CLOSE_MS = 10_000

/**
 * Enqueues jobs directly into RabbitMQ, with the methods of `OJSClient`. The gateway, and HTTP with it, only
 * learns of such a job when FETCH takes it, a native worker reports it, or it dies. So a job that is `unique`
 * or `pending`, which the gateway would have to store first, is refused (`OJSUnsupportedError`).
 */
export class NativeProducer {
  readonly #link: AmqpLink
  readonly #gateway: GatewayRpc
  readonly #client: OJSClient
  #starting: Promise<void> | null = null
  #closing: Promise<void> | null = null
  /** How many calls have not ended. */
  #underWay = 0
  readonly #idle = new Pause()

  /** Connects at the first call. Throws `TypeError` for a URL that is not AMQP and other invalid options. */
  constructor(options: AmqpOptions) {
    requireObject(options, 'NativeProducer needs options, such as { url }.')
    requireKnown(options, AMQP_OPTIONS, 'NativeProducer')
    this.#link = new AmqpLink(withDefaults(options, 'ojs-producer'), {
      askForQueue: (queue, retryQueueMs) => this.#gateway.announce(queue, retryQueueMs),
      gauges: () => ({ consumers: [], queues: [] }),
    })
    this.#gateway = new GatewayRpc(this.#link)
    this.#client = new OJSClient({ transport: new AmqpTransport(this.#link) })
  }

  /** Enqueue middleware, as in `OJSClient`. */
  get middleware(): OJSClient['middleware'] {
    return this.#client.middleware
  }

  use(...args: Parameters<OJSClient['use']>): this {
    this.#client.use(...args)
    return this
  }

  /**
   * PUSH (seed 002 §5.1): resolves with the job when RabbitMQ has confirmed it. Rejects with `OJSError` if
   * the queue is full, RabbitMQ cannot be reached, or the gateway would refuse the job. After a retryable
   * error the same id may be enqueued again.
   */
  enqueue(type: string, args?: unknown, options: JobOptions = {}): Promise<Job> {
    return this.#call(() => this.#client.enqueue(type, args, withId(options)))
  }

  /**
   * PUSH batch: checks all jobs before it publishes the first, then publishes them in parallel. Unlike over
   * HTTP, some jobs may be enqueued when it rejects: all but those in `details.failed_job_ids`.
   */
  enqueueBatch(jobs: readonly JobSpec[]): Promise<Job[]> {
    const withIds = (job: JobSpec) =>
      job.id === undefined ? { ...job, options: withId(job.options) } : job
    return this.#call(() => this.#client.enqueueBatch(jobs.map(withIds)))
  }

  /**
   * Asks a gateway for the job (seed 002 §5.8). `queue` is the job's queue; in another the job is not found.
   * Rejects with `OJSBackendError` if no gateway answers.
   */
  async getJob(
    id: string,
    { queue = 'default', ...call }: CallOptions & { queue?: string | undefined } = {},
  ): Promise<Job> {
    requireCall(call, { queue: true })
    const headers = { ...call.headers, [JOB_QUEUE]: queue }
    return await heeding(call.signal, () =>
      this.#call(() => this.#client.getJob(id, { ...call, headers })),
    )
  }

  /**
   * Asks for the cancellation of a job (seed 002 §5.6). Resolves when RabbitMQ has the request, which a
   * gateway then carries out. If the gateway does not know the job yet, the job is dropped when it arrives.
   * `queue` is the job's queue.
   */
  async cancelJob(id: string, options: { queue?: string | undefined } = {}): Promise<void> {
    requireKnown(options, { queue: true }, 'cancelJob')
    const { queue = 'default' } = options
    segment(id, 'The id of a job')
    await this.#call(() => this.#cancel(id, queue))
  }

  /** Waits for calls under way, then closes the connections. Idempotent; the producer is unusable then. */
  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    const deadline = AbortSignal.timeout(CLOSE_MS)
    if (this.#underWay > 0) await this.#drained()
    await this.#link.stop(deadline)
  }

  /** Waits for calls under way, but not while RabbitMQ cannot be reached: they would wait for its return. */
  async #drained(): Promise<void> {
    const isOver = this.#idle.sleep(CLOSE_MS)
    await Promise.race([this.#starting, isOver])
    if (this.#link.publish.isUp) await isOver
    else this.#idle.wake()
  }

  async #call<T>(run: () => Promise<T>): Promise<T> {
    this.#underWay += 1
    try {
      await this.#start()
      return await run()
    } finally {
      this.#underWay -= 1
      if (this.#underWay === 0) this.#idle.wake()
    }
  }

  async #cancel(id: string, queue: string): Promise<void> {
    const { options, declarer } = this.#link
    await this.#link.untilPublishing(options.publishTimeoutMs)
    // On a new broker even the exchange is missing, and the message would not be returned.
    await isInTime(declarer.ensureBase(), options.publishTimeoutMs)
    const tell = () => this.#link.tell(queue, 'ojs.control.cancel', JSON.stringify({ job_id: id }))
    let outcome = await tell()
    if (outcome === 'returned' && (await declarer.recheck(queue)) === 'ready')
      outcome = await tell()
    if (outcome === 'confirmed') return
    const { message, details } = publishRefusal(queue, outcome)
    throw new OJSBackendError({ code: 'backend_error', message, retryable: true, details })
  }

  #start(): Promise<void> {
    if (this.#closing !== null)
      return Promise.reject(new Error('The producer was closed; make a new one.'))
    this.#starting ??= this.#link.start()
    return this.#starting
  }
}

/** Resolves with the answer, or rejects when `signal` fires. A question that was sent is not taken back. */
async function heeding<T>(signal: AbortSignal | undefined, ask: () => Promise<T>): Promise<T> {
  if (signal === undefined) return await ask()
  if (!signal.aborted) {
    const asked = ask()
    const end = new Deferred<void>()
    const unsubscribe = onAbort(signal, () => end.resolve())
    await Promise.race([asked, end.promise]).finally(unsubscribe)
    if (!signal.aborted) return await asked
  }
  const init = { kind: 'aborted', cause: signal.reason } as const
  throw new OJSTransportError('The question was aborted by the caller.', init)
}

/** This UUID costs a quarter of the client's, which must work without Node.js. */
function withId(options: JobOptions = {}): JobOptions {
  return options.id === undefined ? { ...options, id: uuid7() } : options
}
