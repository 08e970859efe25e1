import { hostname } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { type BroadcastMessage, listenToBroadcasts } from '../broker/broadcast-queue.ts'
import { workersKey } from '../broker/control-message.ts'
import { reconnectDelayMs } from '../broker/reconnect.ts'
import { membersOf } from '../job/json-value.ts'
import { untilDeadline } from '../lifecycle.ts'
import type { NativeContext } from '../schemas/native-job.ts'
import type { JobSource, SourceOptions, SourceSink } from '../sdk/source.ts'
import { uuid7 } from '../uuid.ts'
import { Dispatcher } from './dispatcher.ts'
import { GatewayLine, type Synced } from './gateway-line.ts'
import { Intake } from './intake.ts'
import { AmqpLink } from './link.ts'
import { type AmqpOptions, delayMs, withDefaults } from './options.ts'
import { Reporter } from './reporter.ts'
import { decideFailure } from './retry-token.ts'

const HEARTBEAT_MS = 5_000
/** How often a worker looks whether a heartbeat is due: a lease may be shorter than three intervals. */
const LOOK_MS = 250
/** Between the last acknowledgement and the end of its channel. */
const SETTLE_MS = 250
/** Ids of one heartbeat message (architecture §5). */
const MAX_IDS = 1_000
/** `basic.qos` counts in 16 bits. */
const MAX_PREFETCH = 65_535

export interface AmqpSourceOptions extends AmqpOptions {
  /** Milliseconds between two heartbeats; well below the jobs' visibility timeout. Default 5,000. */
  heartbeatInterval?: number | undefined
  /** Told to the gateway, for its list of workers. */
  version?: string | undefined
}

/**
 * Jobs straight from RabbitMQ (architecture §6), for `OJSWorker`. Throws `TypeError` for a URL that
 * is none of AMQP's, and for other options that cannot work.
 */
export function amqpSource(options: AmqpSourceOptions): JobSource {
  return new AmqpSource(options)
}

/** What exists from `start` on. */
interface Running {
  sink: SourceSink
  options: SourceOptions
  reporter: Reporter
  dispatcher: Dispatcher
  intake: Intake
}

class AmqpSource implements JobSource {
  readonly name = 'amqp'
  readonly #version: string | undefined
  readonly #heartbeatMs: number
  readonly #link: AmqpLink
  readonly #gateway: GatewayLine
  #running: Running | null = null
  #onEstablished: (() => void) | null = null
  #closeBroadcasts: (() => Promise<void>) | null = null
  #heartbeat: NodeJS.Timeout | undefined
  /** When the last heartbeats went out. */
  #beatAt = 0
  /** Queues whose every token has to be claimed; true: they were empty at the last heartbeat. */
  readonly #claimsAll = new Map<string, boolean>()
  /** Those of them that RabbitMQ is being asked about. */
  readonly #looksAt = new Set<string>()
  /** No gateway has answered since the last (re)connect: what it would have told is not known. */
  #isUnsynced = false
  /** Queues that were paused or resumed while an answer to `sync` was on its way. */
  readonly #heardOf = new Set<string>()
  #stopping: Promise<void> | null = null

  constructor(options: AmqpSourceOptions) {
    const { heartbeatInterval = HEARTBEAT_MS, version, ...others } = options
    this.#version = version
    this.#heartbeatMs = delayMs('heartbeatInterval', heartbeatInterval)
    this.#link = new AmqpLink(withDefaults(others, 'ojs-worker'), {
      askForQueue: (queue) => this.#gateway.announce(queue),
      gauges: () => this.#running?.intake.gauges() ?? { consumers: [], queues: [] },
    })
    this.#gateway = new GatewayLine(this.#link, () => this.#running?.options.workerId ?? '')
  }

  async start(sink: SourceSink, options: SourceOptions): Promise<void> {
    const reporter = new Reporter({
      workerId: options.workerId,
      logger: this.#link.logger,
      tell: (queue, body) => this.#link.tell(queue, 'ojs.control.report', body),
      ensure: (queue) => this.#link.declarer.recheck(queue),
    })
    const dispatcher = this.#newDispatcher(sink, reporter)
    const intake = new Intake({
      link: this.#link,
      prefetch: Math.min(options.concurrency, MAX_PREFETCH),
      lingerMs: 4 * SETTLE_MS,
      instance: `ojs-worker-${uuid7().slice(-12)}`,
      onDelivery: (delivery) => dispatcher.arrive(delivery),
      onLost: (lost) => dispatcher.forget(lost),
      onError: (error) => sink.onError(error),
    })
    this.#running = { sink, options, reporter, dispatcher, intake }
    const established = new Promise<void>((resolve) => {
      this.#onEstablished = resolve
    })
    this.#link.consume.listen({
      up: () => void this.#establish(),
      down: (reason) => {
        if (!this.#stopping) sink.onError(new Error(`no connection to RabbitMQ: ${reason}`))
      },
    })
    this.#beatAt = performance.now()
    this.#heartbeat = setInterval(
      () => this.#beatIfDue(dispatcher),
      Math.min(LOOK_MS, this.#heartbeatMs),
    )
    await this.#link.start()
    if (!this.#link.consume.isUp) {
      sink.onError(new Error(`no connection to RabbitMQ: ${this.#link.consume.downReason}`))
    }
    await established
  }

  slotFree(): void {
    this.#running?.dispatcher.pump()
  }

  async quiet(): Promise<void> {
    const { intake, dispatcher } = this.#running ?? {}
    await intake?.quiet()
    dispatcher?.giveBack()
    this.#beat()
  }

  stop(deadline: AbortSignal): Promise<void> {
    this.#stopping ??= this.#stop(deadline)
    return this.#stopping
  }

  /** A RabbitMQ that is silent answers nothing of this; the end of its connection settles it. */
  async #stop(deadline: AbortSignal): Promise<void> {
    this.#onEstablished?.()
    clearInterval(this.#heartbeat)
    await untilDeadline(this.quiet(), deadline)
    const { reporter, dispatcher } = this.#running ?? {}
    await reporter?.stop(deadline)
    const left = dispatcher?.unsettled() ?? []
    if (left.length > 0) this.#link.logger.warn({ job_ids: left }, 'jobs given back unfinished')
    // ✱ Acknowledgements that a quorum queue has not applied yet are lost with their channel, and
    // nothing tells when it has: 453 of 1,000 came again (3.10.8, busy machine).
    await sleep(SETTLE_MS, undefined, { signal: deadline }).catch(() => {})
    await untilDeadline(this.#closeChannels(), deadline)
    await this.#link.stop(deadline)
  }

  async #closeChannels(): Promise<void> {
    await this.#running?.intake.close()
    await this.#closeBroadcasts?.()
  }

  #newDispatcher(sink: SourceSink, reporter: Reporter): Dispatcher {
    const link = this.#link
    return new Dispatcher({
      sink,
      logger: link.logger,
      lease: {
        now: () => link.clock.wall(),
        started: (...event) => reporter.started(...event),
        report: (...event) => reporter.report(...event),
        decide: (run) => decideFailure(link, run, !this.#gateway.isAlone),
      },
      context: () => this.#context(),
      claim: (delivery) => this.#gateway.claim(delivery),
      claimsAll: (queue) => this.#claimsAll.has(queue),
    })
  }

  #context(): NativeContext {
    const { clock, options } = this.#link
    const { prefix, timeoutMs } = options
    return { newId: uuid7, now: clock.now(), wall: clock.wall(), timeoutMs, prefix }
  }

  /** After each (re)connect: everything again, until it works or the connection goes. */
  async #establish(): Promise<void> {
    const { consume, logger } = this.#link
    const { generation } = consume
    // Also while it takes nothing: jobs that run may be cancelled, and who is quiet be told to end.
    const isCurrent = () =>
      !this.#stopping && consume.isUp && consume.generation === generation && this.#running !== null
    for (let attempt = 1; isCurrent(); attempt++) {
      try {
        await this.#establishOnce(isCurrent)
        this.#onEstablished?.()
        return
      } catch (error) {
        logger.warn({ err: error }, 'cannot consume yet')
        this.#running?.sink.onError(error)
        await new Promise((resolve) =>
          setTimeout(resolve, reconnectDelayMs(attempt, Math.random)).unref(),
        )
      }
    }
  }

  /** Seed 002 §11.3, and nothing is consumed before the cancelled ids are known. */
  async #establishOnce(isCurrent: () => boolean): Promise<void> {
    const running = this.#running
    if (!running) return
    const base = await this.#link.declarer.ensureBase()
    if (base !== 'ready') throw new Error(`the exchanges cannot be used: ${base}`)
    await this.#listen(isCurrent)
    await this.#sync()
    if (!isCurrent()) return
    await running.intake.open(running.options.queues)
    this.#beat()
  }

  async #listen(isCurrent: () => boolean): Promise<void> {
    const { consume, names } = this.#link
    const keys = this.#running?.options.queues.map(workersKey) ?? []
    const source = { exchange: names.exchange.direct, keys }
    const { close } = await listenToBroadcasts(consume, source, {
      onMessage: (message) => this.#onBroadcast(message),
      onClosed: () => {
        // Alone, without its connection: what was said meanwhile is in the next answer to `sync`.
        if (isCurrent()) void this.#establish()
      },
    })
    this.#closeBroadcasts = close
  }

  async #sync(): Promise<void> {
    const running = this.#running
    if (!running) return
    const { queues } = running.options
    this.#heardOf.clear()
    this.#isUnsynced = false
    const synced = await this.#gateway.sync(queues)
    this.#isUnsynced = synced === null
    if (synced) this.#apply(running, synced)
  }

  #apply(running: Running, synced: Synced): void {
    const { dispatcher, options, sink } = running
    for (const [id, generation] of synced.tombstones) dispatcher.cancel(id, generation)
    if (synced.truncated) for (const queue of options.queues) this.#claimsAll.set(queue, false)
    // A broadcast is newer than an answer that was on its way with it.
    for (const queue of options.queues.filter((name) => !this.#heardOf.has(name))) {
      const isPaused = synced.paused.includes(queue)
      void (isPaused ? this.#pause(running, queue) : this.#resume(running, queue))
    }
    if (synced.directive !== 'running') sink.directive(synced.directive)
  }

  #onBroadcast({ type, body }: BroadcastMessage): void {
    const running = this.#running
    if (!running) return
    const members = membersOf(body)
    if (type === 'ojs.control.cancel') cancel(running, members)
    else if (type === 'ojs.control.directive') direct(running, members)
    else if (type === 'ojs.control.pause') void this.#pause(running, members['queue'])
    else if (type === 'ojs.control.resume') void this.#resume(running, members['queue'])
    else this.#link.logger.debug({ type }, 'broadcast of an unknown type')
  }

  async #resume({ intake, options }: Running, queue: unknown): Promise<void> {
    if (!isOneOf(options.queues, queue)) return
    this.#heardOf.add(queue)
    await intake.resume(queue)
  }

  async #pause({ intake, dispatcher, options }: Running, queue: unknown): Promise<void> {
    if (!isOneOf(options.queues, queue)) return
    this.#heardOf.add(queue)
    // Resumed meanwhile, it is given to the consumer that has begun since.
    if (await intake.pause(queue)) dispatcher.giveBack(queue)
  }

  /** Three in the shortest lease: two may be lost. */
  #beatIfDue(dispatcher: Dispatcher): void {
    const intervalMs = Math.min(this.#heartbeatMs, dispatcher.shortestLeaseMs() / 3)
    // Rather too soon than at the next look.
    if (performance.now() - this.#beatAt >= intervalMs - LOOK_MS) this.#beat()
  }

  /** One per queue, on the way of that queue's reports: a heartbeat never overtakes an end. */
  #beat(): void {
    const running = this.#running
    if (!running) return
    const { options, dispatcher, intake, reporter } = running
    this.#beatAt = performance.now()
    for (const [queue, wasEmpty] of [...this.#claimsAll]) {
      // What was on its way to us when it was empty has come since.
      if (wasEmpty) this.#claimsAll.delete(queue)
      else void this.#noteWhetherEmpty(intake, queue)
    }
    if (this.#isUnsynced && !this.#gateway.isSilent) void this.#sync()
    reporter.flush()
    const byQueue = dispatcher.running()
    const [first] = options.queues
    // Also when nothing runs: the gateway lists workers by it.
    if (byQueue.size === 0 && first !== undefined) byQueue.set(first, [])
    for (const [queue, ids] of byQueue) this.#beatFor(running, queue, ids)
  }

  async #noteWhetherEmpty(intake: Intake, queue: string): Promise<void> {
    if (this.#looksAt.has(queue)) return
    this.#looksAt.add(queue)
    const isEmpty = await intake.isEmpty(queue)
    this.#looksAt.delete(queue)
    if (isEmpty && this.#claimsAll.has(queue)) this.#claimsAll.set(queue, true)
  }

  #beatFor({ options, sink }: Running, queue: string, ids: readonly string[]): void {
    const version = this.#version
    for (let from = 0; from === 0 || from < ids.length; from += MAX_IDS) {
      const body = {
        worker_id: options.workerId,
        job_ids: ids.slice(from, from + MAX_IDS),
        state: sink.state(),
        queues: options.queues.slice(0, 100),
        hostname: hostname(),
        pid: process.pid,
        concurrency: options.concurrency,
        ...(version !== undefined && { version }),
      }
      // The next one comes soon: this one is not repeated.
      void this.#link.tell(queue, 'ojs.control.heartbeat', JSON.stringify(body))
    }
  }
}

/** Of the worker's own: anybody may say anything to an exchange. */
function isOneOf(queues: readonly string[], queue: unknown): queue is string {
  return typeof queue === 'string' && queues.includes(queue)
}

function cancel({ dispatcher }: Running, members: Record<string, unknown>): void {
  const { job_id: id, generation } = members
  if (typeof id !== 'string') return
  dispatcher.cancel(id, typeof generation === 'number' ? generation : undefined)
}

function direct({ options, sink }: Running, members: Record<string, unknown>): void {
  const { worker_id: workerId, state } = members
  const isForUs = workerId === undefined || workerId === null || workerId === options.workerId
  if (isForUs && (state === 'quiet' || state === 'terminate')) sink.directive(state)
}
