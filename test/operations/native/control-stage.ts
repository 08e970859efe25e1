import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import amqp from 'amqplib'
import { SILENT_OBSERVER } from '../../../src/broker/observer.ts'
import { RabbitBroker } from '../../../src/broker/rabbit-broker.ts'
import { readConfig } from '../../../src/config/config.ts'
import { brokerHooks } from '../../../src/gateway.ts'
import type { JobRow } from '../../../src/job/job.ts'
import { type Service, startAll, stopAll } from '../../../src/lifecycle.ts'
import { createLogger } from '../../../src/logger.ts'
import type { Deps } from '../../../src/operations/deps.ts'
import { EndWaiters } from '../../../src/operations/end-waiters.ts'
import { push } from '../../../src/operations/enqueue/push.ts'
import { fetch } from '../../../src/operations/fetch/fetch.ts'
import { StartLimits } from '../../../src/operations/fetch/rate-limiter.ts'
import { Transient } from '../../../src/operations/in-flight.ts'
import { JobMessages } from '../../../src/operations/job-messages/tracker.ts'
import { PruneHold } from '../../../src/operations/prune-hold.ts'
import { BulkSignals } from '../../../src/operations/steer/signals.ts'
import { WorkerRegistry } from '../../../src/operations/workers/worker-registry.ts'
import { ArgsSchemas } from '../../../src/schemas/args/args-schemas.ts'
import { promoter } from '../../../src/services/promoter.ts'
import { reaper } from '../../../src/services/reaper.ts'
import { relay } from '../../../src/services/relay.ts'
import type { JobEvent } from '../../../src/telemetry/events.ts'
import { createJobEvents } from '../../../src/telemetry/events.ts'
import { uuid7 } from '../../../src/uuid.ts'
import { createVhost, type Vhost } from '../../support/broker/rabbit.ts'
import { eventually } from '../../support/gateway/in-process.ts'
import { newLedger } from '../../support/gateway/test-ledger.ts'
import { AheadClock } from '../../support/time/ahead-clock.ts'
import { forAll } from '../../support/time/late.ts'

export const CONTEXT = { requestId: 'req-test' }

/** The operations with a real broker and a real ledger, without the HTTP server. */
export interface Stage {
  readonly deps: Deps
  readonly vhost: Vhost
  readonly events: JobEvent[]
  /** The channel of a native worker, on its own connection. */
  readonly channel: amqp.ConfirmChannel
  row(id: string): Promise<JobRow>
  /** Pushes a job and returns its id. */
  pushed(queue: string, options?: object): Promise<string>
  /** Takes the next job message of the queue as a native worker does, without acknowledging it. */
  jobMessage(queue: string): Promise<amqp.GetMessage>
  /** Leases the next job of the queue over HTTP. */
  fetched(queue: string, over?: object): Promise<JobRow>
  /** Collects the control messages that workers of this queue get from now on. */
  heard(queue: string): Promise<{ type: string; body: unknown }[]>
  /** The types of the events of this job, in order. */
  storyOf(id: string): string[]
  /** Moves the gateway's clock forward. */
  advance(ms: number): void
  untilState(id: string, state: JobRow['state']): Promise<JobRow>
  stop(): Promise<void>
}

/** One stage for all tests of the file or `describe` that calls this. */
export function stageForAll(): Stage {
  return forAll(openStage, (stage) => stage.stop())
}

async function openStage(): Promise<Stage> {
  const vhost = await createVhost()
  const dir = mkdtempSync(join(tmpdir(), 'ojs-stage-'))
  const { config } = readConfig({
    OJS_AMQP_URL: vhost.url,
    OJS_LOG_LEVEL: 'silent',
    OJS_CONTROL_SCOPE: 'any',
  })
  const logger = createLogger('silent')
  const own = await newLedger(join(dir, 'ojs.db'))
  const ledger = await own.open()
  const clock = new AheadClock()
  const events: JobEvent[] = []
  const broker = new RabbitBroker(
    { ...config, retryQueueSettleMs: 0 },
    { clock, logger, random: Math.random, observer: SILENT_OBSERVER },
  )
  const deps: Deps = {
    ledger,
    broker,
    clock,
    logger,
    // Copied, since a listener must not keep the row of an event.
    events: createJobEvents([(event) => void events.push(structuredClone(event))]),
    settings: config,
    argsSchemas: new ArgsSchemas(),
    jobMessages: new JobMessages(),
    transient: new Transient(),
    ends: new EndWaiters(),
    bulk: new BulkSignals(),
    workers: new WorkerRegistry(clock),
    pruneHold: new PruneHold(clock, logger, await ledger.read.epochs.seenAt()),
    startLimits: new StartLimits(clock, (jobId) => broker.unpark(jobId)),
    random: () => 0.5,
    wakeRelay: (what) => outbox.wake(what),
    newId: uuid7,
  }
  const hooks = brokerHooks(deps, { died() {}, malformed() {}, received() {} } as never)
  broker.attach({
    ...hooks,
    jobs: { ...hooks.jobs, hasMessages: () => true, onDrift: async () => 0 },
    epochs: { ...hooks.epochs, isLedgerNew: () => false },
    // The tests call the operations of control messages themselves.
    arrivals: { ...hooks.arrivals, onControl: async () => 'handled', onConsumeUp: async () => {} },
  })
  const outbox = relay(deps)
  const services: Service[] = [broker, outbox, promoter(deps), reaper(deps)]
  await startAll(services, logger)
  await eventually(() => broker.status().state === 'up' && broker.controlBacklogConsumed())
  const connection = await amqp.connect(vhost.url)
  const channel = await connection.createConfirmChannel()

  const row = async (id: string): Promise<JobRow> => {
    const found = await ledger.read.find(id)
    if (found === null) throw new Error(`no row ${id}`)
    return found
  }
  return {
    deps,
    vhost,
    events,
    channel,
    row,
    async pushed(queue, options = {}) {
      const body = { type: 'test.job', args: [1], options: { queue, ...options } }
      return (await push(deps, body, CONTEXT)).job.id
    },
    async jobMessage(queue) {
      let message: amqp.GetMessage | false = false
      await eventually(async () => {
        message = await channel.get(`ojs.queue.${queue}`)
        return message !== false
      })
      if (message === false) throw new Error(`no job message in ${queue}`)
      return message
    },
    async fetched(queue, over = {}) {
      const body = { queues: [queue], wait_ms: 10_000, ...over }
      const [job] = await fetch(deps, body, CONTEXT, new AbortController().signal)
      if (job === undefined) throw new Error(`no job came from ${queue}`)
      return job
    },
    async heard(queue) {
      const messages: { type: string; body: unknown }[] = []
      const { queue: own } = await channel.assertQueue('', { exclusive: true })
      await channel.bindQueue(own, 'ojs.exchange.direct', `ojs.control.workers.${queue}`)
      const listen = (message: amqp.ConsumeMessage | null) => {
        if (message === null) return
        const body: unknown = JSON.parse(message.content.toString())
        messages.push({ type: message.properties.type, body })
      }
      await channel.consume(own, listen, { noAck: true })
      return messages
    },
    storyOf: (id) =>
      events.filter((event) => 'job' in event && event.job.id === id).map(({ type }) => type),
    advance: (ms) => {
      clock.aheadMs += ms
    },
    async untilState(id, state) {
      await eventually(async () => (await row(id)).state === state)
      return await row(id)
    },
    async stop() {
      await connection.close()
      await stopAll(services, AbortSignal.timeout(10_000), logger)
      await ledger.close()
      await own.remove()
      await vhost.drop()
      rmSync(dir, { recursive: true, force: true })
    },
  }
}
