/** The worker's source of jobs, directly from RabbitMQ (docs/architecture.md §6). */
import { setTimeout as sleep } from 'node:timers/promises'
import { isStill } from '../broker/connection/connection.ts'
import { isInTime, reconnectDelayMs } from '../broker/connection/reconnect.ts'
import { untilDeadline } from '../lifecycle.ts'
import type { NativeContext } from '../schemas/requests/native-job.ts'
import { Deferred } from '../sdk/async/deferred.ts'
import { requireKnown, requireObject } from '../sdk/async/options.ts'
import type { JobSource, SourceOptions, SourceSink } from '../sdk/worker/source.ts'
import { uuid7 } from '../uuid.ts'
import { ClaimedQueues } from './claimed-queues.ts'
import { AmqpLink } from './connection.ts'
import { Intake } from './consumers.ts'
import { ControlOrders } from './control-messages.ts'
import { Dispatcher } from './dispatcher.ts'
import { GatewayRpc } from './gateway-rpc.ts'
import { GiveBack } from './give-back.ts'
import { Heartbeat } from './heartbeat.ts'
import { OneByOne } from './one-by-one.ts'
import { AMQP_OPTIONS, type AmqpOptions, delayMs, requireVersion, withDefaults } from './options.ts'
import { Reporter } from './reporter.ts'
import { decideFailure } from './retry-message.ts'

const HEARTBEAT_MS = 5_000
/** How long `start` waits for RabbitMQ, as over HTTP. Then it resolves, and the worker keeps trying. */
const START_PATIENCE_MS = 5_000
/** Time between the last acknowledgement and the end of its channel. */
const SETTLE_MS = 250
/** `basic.qos` has a 16-bit count. */
const MAX_PREFETCH = 65_535

export interface AmqpSourceOptions extends AmqpOptions {
  /** Milliseconds between two heartbeats; must be well below the jobs' visibility timeout. Default 5,000. */
  heartbeatInterval?: number | undefined
  /** Version of the worker program, shown in the gateway's list of workers. */
  version?: string | undefined
}

export const SOURCE_OPTIONS: Readonly<Record<keyof AmqpSourceOptions, true>> = {
  ...AMQP_OPTIONS,
  heartbeatInterval: true,
  version: true,
}

/**
 * A source of jobs directly from RabbitMQ (docs/architecture.md §6), for `OJSWorker`. Throws `TypeError` for
 * a URL that is not AMQP, and for other invalid options.
 */
export function amqpSource(options: AmqpSourceOptions): JobSource {
  return new AmqpSource(options)
}

/** The parts that exist from `start` on. */
interface Running {
  sink: SourceSink
  options: SourceOptions
  reporter: Reporter
  dispatcher: Dispatcher
  intake: Intake
  orders: ControlOrders
  heartbeat: Heartbeat
  relief: GiveBack
}

/** The lifecycle of a native worker: assembles its parts, and sets them up again after each reconnect. */
class AmqpSource implements JobSource {
  readonly name = 'amqp'
  readonly #version: string | undefined
  readonly #heartbeatMs: number
  readonly #link: AmqpLink
  readonly #gateway: GatewayRpc
  #running: Running | null = null
  /** Resolves when the queues are consumed for the first time, or when the worker stops before that. */
  readonly #established = new Deferred<void>()
  #stopping: Promise<void> | null = null

  constructor(options: AmqpSourceOptions) {
    requireObject(options, 'The options must be an object, such as { url }.')
    requireKnown(options, SOURCE_OPTIONS, 'amqpSource')
    const { heartbeatInterval = HEARTBEAT_MS, version, ...others } = options
    requireVersion(version)
    this.#version = version
    this.#heartbeatMs = delayMs('heartbeatInterval', heartbeatInterval)
    this.#link = new AmqpLink(withDefaults(others, 'ojs-worker'), {
      askForQueue: (queue, retryQueueMs) => this.#gateway.announce(queue, retryQueueMs),
      gauges: () => this.#running?.intake.gauges() ?? { consumers: [], queues: [] },
    })
    this.#gateway = new GatewayRpc(this.#link, () => this.#running?.options.workerId ?? '')
  }

  async start(sink: SourceSink, options: SourceOptions): Promise<void> {
    const running = this.#assemble(sink, options)
    this.#running = running
    this.#link.consume.listen({
      up: () => void this.#establish(running),
      down: (reason) => {
        if (!this.#stopping) sink.onError(new Error(`no connection to RabbitMQ: ${reason}`))
      },
    })
    running.heartbeat.start()
    running.relief.start()
    const begun = this.#begin(sink).then((isUp) => (isUp ? this.#established.promise : undefined))
    await isInTime(begun, START_PATIENCE_MS)
  }

  /** Connects. False: RabbitMQ cannot be reached yet. */
  async #begin(sink: SourceSink): Promise<boolean> {
    const { consume } = this.#link
    await this.#link.start()
    if (!consume.isUp && !this.#stopping) {
      sink.onError(new Error(`no connection to RabbitMQ: ${consume.downReason}`))
    }
    return consume.isUp
  }

  slotFree(): void {
    this.#running?.dispatcher.pump()
    this.#running?.relief.slotFree()
  }

  async quiet(): Promise<void> {
    const { intake, dispatcher, heartbeat } = this.#running ?? {}
    await intake?.quiet()
    dispatcher?.giveBack()
    heartbeat?.beat()
  }

  stop(deadline: AbortSignal): Promise<void> {
    this.#stopping ??= this.#stop(deadline)
    return this.#stopping
  }

  /**
   * A RabbitMQ that hangs answers none of these steps, so each is bounded by `deadline`; the end of the
   * connection then releases all deliveries.
   */
  async #stop(deadline: AbortSignal): Promise<void> {
    const { reporter, dispatcher, heartbeat, relief } = this.#running ?? {}
    this.#established.resolve()
    heartbeat?.stop()
    relief?.stop()
    await untilDeadline(this.quiet(), deadline)
    await reporter?.stop(deadline)
    const left = dispatcher?.unsettled() ?? []
    if (left.length > 0) this.#link.logger.warn({ job_ids: left }, 'jobs given back unfinished')
    // When a channel closes, a quorum queue loses the acknowledgements that it has not applied yet, and
    // nothing tells when it has: 453 of 1,000 came again (3.10.8, busy machine).
    await sleep(SETTLE_MS, undefined, { signal: deadline }).catch(() => {})
    await untilDeadline(this.#closeChannels(), deadline)
    await this.#link.stop(deadline)
  }

  async #closeChannels(): Promise<void> {
    await this.#running?.intake.close()
    await this.#running?.orders.close()
  }

  #assemble(sink: SourceSink, options: SourceOptions): Running {
    const link = this.#link
    const gateway = this.#gateway
    const claimedQueues = new ClaimedQueues()
    const reporter = new Reporter({
      workerId: options.workerId,
      logger: link.logger,
      tell: (queue, body) => link.tell(queue, 'ojs.control.report', body),
      ensure: (queue) => link.declarer.recheck(queue),
    })
    const dispatcher = new Dispatcher({
      sink,
      logger: link.logger,
      lease: {
        now: () => link.clock.wall(),
        started: (...event) => reporter.started(...event),
        report: (...event) => reporter.report(...event),
        workerId: () => options.workerId,
        tell: async (queue, type, body) => {
          reporter.flush()
          return (await link.tell(queue, type, JSON.stringify(body))) === 'confirmed'
        },
        checkpointOf: (queue, id) => gateway.checkpointOf(queue, id),
        decide: (run) => decideFailure(link, run, !gateway.isAlone),
        lastAttempts: new OneByOne(),
      },
      context: () => this.#context(),
      claim: (delivery, keyed) => gateway.claim(delivery, keyed),
      claimsAll: (queue) => claimedQueues.has(queue),
    })
    const intake = new Intake({
      link,
      prefetch: Math.min(options.concurrency, MAX_PREFETCH),
      lingerMs: 4 * SETTLE_MS,
      instance: `ojs-worker-${uuid7().slice(-12)}`,
      onDelivery: (delivery) => dispatcher.arrive(delivery),
      onLost: (lost) => dispatcher.forget(lost),
      onError: (error) => sink.onError(error),
    })
    const parts = { link, sink, options, reporter, dispatcher, intake }
    const orders = new ControlOrders({ ...parts, gateway, claimedQueues })
    const heartbeat = new Heartbeat({
      ...parts,
      intervalMs: this.#heartbeatMs,
      version: this.#version,
      onBeat: () => {
        claimedQueues.review((queue) => intake.isEmpty(queue))
        orders.catchUpIfUnanswered()
      },
    })
    const relief = new GiveBack(parts)
    return { sink, options, reporter, dispatcher, intake, orders, heartbeat, relief }
  }

  #context(): NativeContext {
    const { clock, options } = this.#link
    const { prefix, timeoutMs } = options
    return { newId: uuid7, now: clock.now(), wall: clock.wall(), timeoutMs, prefix }
  }

  /** Sets everything up after each (re)connect. Tries again until that works or the connection is lost. */
  async #establish(running: Running): Promise<void> {
    const { consume, logger } = this.#link
    const { generation } = consume
    // Also in a quiet worker: its running jobs may be cancelled, and it may be told to end.
    const isCurrent = () => !this.#stopping && isStill(consume, generation)
    for (let attempt = 1; isCurrent(); attempt++) {
      try {
        await this.#establishOnce(running, isCurrent)
        this.#established.resolve()
        return
      } catch (error) {
        logger.warn({ err: error }, 'queues cannot be consumed yet')
        running.sink.onError(error)
        const pauseMs = reconnectDelayMs(attempt, this.#link.random)
        await sleep(pauseMs, undefined, { ref: false })
      }
    }
  }

  /** The order of seed 002 §11.3. Consumes nothing before the ids of cancelled jobs are known. */
  async #establishOnce(running: Running, isCurrent: () => boolean): Promise<void> {
    const { intake, orders, heartbeat, options } = running
    const base = await this.#link.declarer.ensureBase()
    if (base !== 'ready') throw new Error(`the exchanges cannot be used: ${base}`)
    await orders.listen(() => {
      // The broadcast channel closed, but not its connection. The next answer to `sync` contains what was
      // broadcast meanwhile.
      if (isCurrent()) void this.#establish(running)
    })
    await orders.catchUp()
    if (!isCurrent()) return
    await intake.open(options.queues)
    heartbeat.beat()
  }
}
