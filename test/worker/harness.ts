import type { ConsumeMessage } from 'amqplib'
import { v7 } from 'uuid'
import { afterEach } from 'vitest'
import { jobMessageOf } from '../../src/broker/messages/job-message.ts'
import { createNames } from '../../src/broker/names.ts'
import type { Handler } from '../../src/sdk/worker/execution.ts'
import { NativeWorker, type NativeWorkerOptions } from '../../src/worker/index.ts'
import { type Admin, connectAdmin, row } from '../broker/harness.ts'
import { type Vhost, vhostForAll } from '../support/broker/rabbit.ts'
import { eventually } from '../support/gateway/in-process.ts'
import { deferred } from '../support/time/deferred.ts'
import { forAll } from '../support/time/late.ts'

// biome-ignore lint/suspicious/noExplicitAny: bodies are read as a gateway would, member by member
type Json = any

export interface ReportedEvent {
  job_id: string
  generation: number
  attempt: number
  event: 'started' | 'completed' | 'failed' | 'released'
  at: string
  started_at?: string
  result?: Json
  error?: Json
  outcome?: Json
}

/**
 * Stands for a gateway in tests of a worker alone: consumes its control queues, records the messages, and
 * answers questions as the test sets it.
 */
export class ControlDesk {
  readonly events: ReportedEvent[] = []
  readonly heartbeats: Json[] = []
  readonly questions: { type: string; body: Json }[] = []
  /** The number of report messages. */
  reports = 0
  sync: Json = { tombstones: [], truncated: false, paused: [], directive: 'running' }
  /** Runs between a sync question and its answer. */
  beforeSync: () => Promise<void> = async () => {}
  /** Makes the answer to a claim; null sends none. */
  claim: (body: Json) => Json = ({ attempt }) => ({ decision: 'run', attempt })
  /** Makes the answer to the question for a job. */
  info: (body: Json) => Json = () => ({ error: { code: 'not_found' } })
  readonly #admin: Admin
  readonly #tags: string[] = []

  private constructor(admin: Admin) {
    this.#admin = admin
  }

  static async open(admin: Admin, queues: readonly string[], prefix = ''): Promise<ControlDesk> {
    const desk = new ControlDesk(admin)
    for (const queue of ['default', ...queues]) {
      const name = controlQueue(queue, prefix)
      const onMessage = (message: ConsumeMessage | null) => desk.#onMessage(message)
      const { consumerTag } = await admin.channel.consume(name, onMessage, { noAck: true })
      desk.#tags.push(consumerTag)
    }
    return desk
  }

  async close(): Promise<void> {
    for (const tag of this.#tags) await this.#admin.channel.cancel(tag)
  }

  of(id: string): ReportedEvent[] {
    return this.events.filter((event) => event.job_id === id)
  }

  /** The events without starts: a worker need not report the start of a job that ends quickly. */
  ends(id: string): ReportedEvent[] {
    return this.of(id).filter(({ event }) => event !== 'started')
  }

  #onMessage(message: ConsumeMessage | null): void {
    if (message === null) return
    const type = String(message.properties.type)
    const body = JSON.parse(message.content.toString())
    if (type === 'ojs.control.report') {
      this.reports += 1
      this.events.push(...body.events)
    } else if (type === 'ojs.control.heartbeat') this.heartbeats.push(body)
    else {
      this.questions.push({ type, body })
      if (type === 'ojs.control.sync') void this.#synchronise(message)
      else
        this.#reply(message, type, type === 'ojs.control.info' ? this.info(body) : this.claim(body))
    }
  }

  async #synchronise(message: ConsumeMessage): Promise<void> {
    await this.beforeSync()
    this.#reply(message, 'ojs.control.sync', this.sync)
  }

  /** Sends no reply if `answer` is null. */
  #reply({ properties }: ConsumeMessage, type: string, answer: Json): void {
    if (answer === null) return
    const { replyTo, correlationId } = properties
    this.#admin.channel.sendToQueue(replyTo, Buffer.from(JSON.stringify(answer)), {
      type,
      correlationId,
    })
  }
}

type Given = Partial<NativeWorkerOptions>
type Handlers = Record<string, Handler>

/** Starts a worker without a log and without a grace period, unless given. */
async function startWorker(url: string, given: Given, handlers: Handlers): Promise<NativeWorker> {
  const isLoud = process.env['OJS_TEST_LOG'] !== undefined
  const defaults = {
    url,
    retryQueueSettleMs: 0,
    gracePeriod: 0,
    // Long enough for a slow desk: after it the worker would go on as if there were no gateway.
    answerTimeoutMs: 10_000,
    handleSignals: false,
    ...(!isLoud && { logger: false as const }),
  }
  const worker = new NativeWorker({ ...defaults, ...given })
  for (const [type, handler] of Object.entries(handlers)) worker.register(type, handler)
  await worker.start()
  return worker
}

function controlQueue(queue: string, prefix = ''): string {
  return createNames(prefix).controlQueue(queue)
}

let queues = 0

/** Has a worker declare a new queue with what belongs to it, as where no gateway has been. Returns its name. */
async function declareQueue(url: string, admin: Admin, given: Given = {}): Promise<string> {
  queues += 1
  const queue = `work-${queues}`
  // No desk is open yet, so waiting for an answer would be useless.
  const worker = await startWorker(url, { ...given, queues: [queue], answerTimeoutMs: 50 }, {})
  await worker.stop()
  // Removes the questions of that worker, which a desk would record.
  for (const name of ['default', queue]) {
    await admin.channel.purgeQueue(controlQueue(name, given.prefix))
  }
  return queue
}

/** Publishes a job message as the gateway would, although no ledger has the job. Returns its id. */
export async function publishJob(
  admin: Admin,
  queue: string,
  over: { id?: string; envelope?: object; attempt?: number; generation?: number } = {},
): Promise<string> {
  const { id = v7(), envelope = {}, attempt = 1, generation = 0 } = over
  const body = {
    specversion: '1.0',
    id,
    type: 'test.job',
    queue,
    args: [1],
    meta: {},
    priority: 0,
    timeout_ms: 30_000,
    max_attempts: 3,
    created_at: new Date().toISOString(),
    ...envelope,
  }
  const job = { id, queue, type: body.type, maxAttempts: body.max_attempts }
  const jobMessage = jobMessageOf(
    row({ ...job, envelope: JSON.stringify(body) }, { attempt: attempt - 1, generation }),
  )
  admin.channel.publish('ojs.exchange.direct', queue, jobMessage.content, jobMessage.options)
  await admin.channel.waitForConfirms()
  return id
}

/** Broadcasts a message to all workers of a queue, as a gateway does. */
export async function broadcast(
  admin: Admin,
  queue: string,
  type: string,
  body: object,
  prefix = '',
): Promise<void> {
  const content = Buffer.from(JSON.stringify(body))
  const exchange = createNames(prefix).exchange.direct
  admin.channel.publish(exchange, `ojs.control.workers.${queue}`, content, { type })
  await admin.channel.waitForConfirms()
}

/**
 * Resolves when the worker of this queue has received every broadcast so far: they come in order, and it has
 * obeyed the last two, pause and resume. A cancel alone has no visible effect to wait for. Works for classic
 * queues only: a quorum queue counts a consumer until all its deliveries are settled.
 */
export async function untilHeard(admin: Admin, queue: string): Promise<void> {
  const jobQueue = createNames('').jobQueue(queue)
  const consumers = async () => (await admin.channel.checkQueue(jobQueue)).consumerCount
  await broadcast(admin, queue, 'ojs.control.pause', { queue })
  await eventually(async () => (await consumers()) === 0)
  await broadcast(admin, queue, 'ojs.control.resume', { queue })
  await eventually(async () => (await consumers()) === 1)
}

/** The number of ready messages in the queue. */
export async function ready(admin: Admin, queue: string): Promise<number> {
  const { messageCount } = await admin.channel.checkQueue(queue)
  return messageCount
}

/** A promise, `opened`, that `open` resolves. */
export function gate(): { opened: Promise<void>; open(): void } {
  const { promise: opened, resolve: open } = deferred()
  return { opened, open }
}

/** Resolves when `times` executions of the job have ended. */
export function until(desk: ControlDesk, id: string, times = 1): Promise<void> {
  return eventually(() => desk.ends(id).length >= times)
}

/**
 * Publishes failing jobs until the retry of one is in its retry queue. If RabbitMQ takes longer than a second
 * to declare that queue, the worker leaves the retry to the gateway.
 */
export async function untilInRetryQueue(
  desk: ControlDesk,
  publish: () => Promise<string>,
): Promise<string> {
  let id = ''
  await eventually(async () => {
    id = await publish()
    await until(desk, id)
    return desk.ends(id)[0]?.outcome.rung_ms !== null
  })
  return id
}

/** What the tests of one file share. Workers and desks end with each test, by `clear`. */
export interface Bench {
  readonly admin: Admin
  start(given: Given, handlers: Handlers): Promise<NativeWorker>
  queue(): Promise<string>
  desk(queue: string): Promise<ControlDesk>
  /** Makes a new queue, a desk at its control queue, and a worker. */
  setUp(
    handlers: Handlers,
    given?: Given,
  ): Promise<{ queue: string; jobQueue: string; desk: ControlDesk; worker: NativeWorker }>
  clear(): Promise<void>
  close(): Promise<void>
}

/** A bench for all tests of a file, in its own vhost. */
export function benchOfFile(): { vhost: Vhost; on: Bench } {
  const vhost = vhostForAll()
  return { vhost, on: benchIn(vhost) }
}

/** A bench in this vhost, for all tests of the file or `describe` that calls this. */
export function benchIn(vhost: Pick<Vhost, 'url'>): Bench {
  const opened = forAll(
    () => bench(vhost.url),
    (on) => on.close(),
  )
  afterEach(() => opened.clear())
  return opened
}

async function bench(url: string): Promise<Bench> {
  const admin = await connectAdmin(url)
  const workers: NativeWorker[] = []
  const desks: ControlDesk[] = []
  const start: Bench['start'] = async (given, handlers) => {
    const worker = await startWorker(url, given, handlers)
    workers.push(worker)
    return worker
  }
  const openDesk: Bench['desk'] = async (queue) => {
    const desk = await ControlDesk.open(admin, [queue])
    desks.push(desk)
    return desk
  }
  return {
    admin,
    start,
    queue: () => declareQueue(url, admin),
    desk: openDesk,
    setUp: async (handlers, given = {}) => {
      const queue = await declareQueue(url, admin)
      const desk = await openDesk(queue)
      const worker = await start({ queues: [queue], ...given }, handlers)
      return { queue, jobQueue: `ojs.queue.${queue}`, desk, worker }
    },
    clear: async () => {
      await Promise.all(workers.splice(0).map((worker) => worker.stop()))
      await Promise.all(desks.splice(0).map((desk) => desk.close()))
    },
    close: () => admin.close(),
  }
}

/** Returns a function that starts native workers without a grace period. They are stopped after each test. */
export function workersOfTest(
  url: () => string,
): (queue: string, handler: Handler, more?: Partial<NativeWorkerOptions>) => Promise<NativeWorker> {
  const started: NativeWorker[] = []
  afterEach(async () => {
    await Promise.all(started.splice(0).map((worker) => worker.stop()))
  })
  return async (queue, handler, more) => {
    const worker = new NativeWorker({
      url: url(),
      queues: [queue],
      answerTimeoutMs: 10_000,
      gracePeriod: 0,
      handleSignals: false,
      logger: false,
      ...more,
    })
    worker.register('test.job', handler)
    started.push(worker)
    await worker.start()
    return worker
  }
}
