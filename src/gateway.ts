/** The composition root: builds ledger, broker, operations, services and doors, and starts them. */
import { hostname } from 'node:os'
import type {
  Arrivals,
  BrokerHooks,
  BrokerOptions,
  JobCounts,
  LedgerEpochs,
  QueueRecords,
} from './broker/options.ts'
import { RabbitBroker } from './broker/rabbit-broker.ts'
import { priorityOrder } from './broker/topology/priority-order.ts'
import { type Clock, systemClock } from './clock.ts'
import type { Config } from './config/config.ts'
import { shownConfig } from './config/shown.ts'
import { controlDoor } from './control/consumer.ts'
import { deadControlDoor } from './control/died-in-queue.ts'
import { Failover } from './failover.ts'
import { readTls } from './http/access/tls.ts'
import { createHttpService } from './http/server.ts'
import { createStandbyService } from './http/standby.ts'
import type { Ledger } from './ledger/ledger.ts'
import type { PostgresAddress } from './ledger/postgres/address.ts'
import { LedgerClock } from './ledger/postgres/clock.ts'
import type { Leadership } from './ledger/postgres/leadership.ts'
import { openPostgresLedger } from './ledger/postgres/open.ts'
import { standBy } from './ledger/postgres/stand-by.ts'
import { openSqliteLedger } from './ledger/sqlite/open.ts'
import { type Service, startAll, stopAll } from './lifecycle.ts'
import type { Logger } from './logger.ts'
import { diedInBroker } from './operations/dead-letters/died-in-broker.ts'
import type { Deps } from './operations/deps.ts'
import { onDrift } from './operations/drift.ts'
import { EndWaiters } from './operations/end-waiters.ts'
import { StartLimits } from './operations/fetch/rate-limiter.ts'
import { healthWarnings, isHealthy } from './operations/health.ts'
import { followKeys } from './operations/held-jobs.ts'
import { Transient } from './operations/in-flight.ts'
import { JobMessages } from './operations/job-messages/tracker.ts'
import { adoptSchedule } from './operations/native/adopt-schedule.ts'
import { PruneHold } from './operations/prune-hold.ts'
import {
  identityOf,
  onQueueMissing,
  onRetryQueueMissing,
} from './operations/queues/queue-missing.ts'
import { BulkSignals } from './operations/steer/signals.ts'
import { WorkerRegistry } from './operations/workers/worker-registry.ts'
import { ownVersion } from './own-version.ts'
import { ArgsSchemas } from './schemas/args/args-schemas.ts'
import { bulkOperations } from './services/bulk.ts'
import { cron } from './services/cron.ts'
import { dlxSweep } from './services/dlx-sweep.ts'
import { expiry } from './services/expiry.ts'
import { heldJobs } from './services/held-jobs.ts'
import { idleQueues } from './services/idle-queues.ts'
import { inFlightLog } from './services/in-flight-log.ts'
import { extendLeases, leaseKeeper } from './services/lease-extension.ts'
import { promoter } from './services/promoter.ts'
import { reaper } from './services/reaper.ts'
import { type Relay, relay } from './services/relay.ts'
import { retention } from './services/retention.ts'
import type { ControlObserver } from './telemetry/control-metrics.ts'
import { EventRing } from './telemetry/event-ring.ts'
import { createJobEvents } from './telemetry/events.ts'
import { jobLog } from './telemetry/job-log.ts'
import { createMetrics, type MetricSources } from './telemetry/metrics.ts'
import { standbyMetrics } from './telemetry/standby-metrics.ts'
import { uuid7 } from './uuid.ts'

/** How many events are kept for `GET /ojs/v1/events`; about 500 bytes each. */
const KEPT_EVENTS = 10_000

/** A gateway that runs in this process. */
export interface Gateway {
  /** The address that it listens on, e.g. `http://127.0.0.1:8080`. */
  readonly url: string
  /**
   * Stops taking requests, answers those under way, makes the ledger the holder of the live leases, and
   * closes the ledger last. When `deadline` aborts, whatever is still open is cut off.
   */
  stop(deadline: AbortSignal): Promise<void>
}

/** `clock` lets an embedder bring a clock of its own; the other settings are for tests. */
type Overrides = { clock?: Clock } & Pick<
  BrokerOptions,
  'retryQueueSettleMs' | 'watchMs' | 'driftMs' | 'idleMs' | 'prefetch' | 'maxConsumerChannels'
>

/**
 * Starts a gateway. Resolves when it listens, whether or not RabbitMQ can be reached yet; with a ledger on
 * PostgreSQL perhaps as one that stands by while another is active. Rejects when the
 * ledger or a TLS file cannot be read, when the port cannot be bound, or when RabbitMQ lacks the plugin that
 * `delayMode` needs. After a rejection everything has been closed again, and the caller may retry.
 */
export async function startGateway(
  config: Config,
  logger: Logger,
  overrides: Overrides = {},
): Promise<Gateway> {
  const { ledger, ledgerSync: sync } = config
  const tls = config.access.tls && (await readTls(config.access.tls))
  if (ledger.type === 'postgres')
    return startOnPostgres(config, logger, { address: ledger.address, tls, overrides })
  const { clock = systemClock(), ...tuning } = overrides
  const opened = openSqliteLedger({ path: ledger.path, sync, logger, wall: () => clock.wall() })
  return composeOn(await opened, config, logger, { clock, tls, tuning })
}

interface OnPostgres {
  address: PostgresAddress
  tls: Given['tls']
  overrides: Overrides
}

/** Others may share the ledger: one gateway serves at a time. */
async function startOnPostgres(
  config: Config,
  logger: Logger,
  { address, tls, overrides: { clock: given, ...tuning } }: OnPostgres,
): Promise<Gateway> {
  const clock = new LedgerClock()
  const url = () => config.advertisedUrl ?? reachableUrl(failover.url)
  const place = { address, prefix: config.prefix }
  const { leadership, ledgerId } = await standBy(place, { url, clock, logger })
  const { isLedgerReplicated: isStorageReplicated } = config
  const failover: Failover = new Failover({
    ...{ leadership, logger, port: config.port },
    async activate(port, door) {
      clock.settle()
      const time = given ?? clock
      const wall = () => time.wall()
      const options = { ...place, logger, leadership, clock, wall, isStorageReplicated }
      const ledger = await openPostgresLedger(options)
      return composeOn(ledger, { ...config, port }, logger, {
        ...{ clock: time, tls, tuning, ledgerId, door },
      })
    },
    openDoor: (port) => standbyDoor({ ...config, port }, logger, { leadership, clock, tls }),
  })
  return failover.start()
}

/** Another machine cannot connect to "all addresses". */
function reachableUrl(url: string): string {
  return url.replace(/\/\/(0\.0\.0\.0|\[::\])(?=:)/, `//${hostname()}`)
}

async function standbyDoor(
  config: Config,
  logger: Logger,
  given: { leadership: Leadership; clock: Clock; tls: Given['tls'] },
): Promise<Gateway> {
  const { leadership, clock, tls } = given
  const facts = () => leadership.seen
  const isLedgerReachable = () => facts().fault === null
  const metrics = standbyMetrics({ version: await ownVersion(), isLedgerReachable })
  const now = () => clock.now()
  const door = createStandbyService({ ...config, tls, logger, now, facts, metrics })
  await door.start()
  return { url: door.url(), stop: (deadline) => door.stop(deadline) }
}

/** Closes the ledger again if the gateway cannot be started. */
async function composeOn(
  ledger: Ledger,
  config: Config,
  logger: Logger,
  given: Omit<Given, 'ledger'>,
): Promise<Gateway> {
  try {
    return await compose(config, logger, { ...given, ledger })
  } catch (error) {
    await ledger.close()
    throw error
  }
}

interface Given {
  clock: Clock
  ledger: Ledger
  tls: Awaited<ReturnType<typeof readTls>> | undefined
  tuning: Omit<Overrides, 'clock'>
  /** Of a ledger that other gateways share. */
  ledgerId?: string
  /** Comes before the door of this gateway: frees its port. */
  door?: Service
}

/** The composition root: builds everything in reading order and starts it. */
async function compose(
  config: Config,
  logger: Logger,
  { clock, ledger, tls, tuning, ledgerId, door }: Given,
): Promise<Gateway> {
  const metrics = createMetrics()
  const ring = new EventRing(KEPT_EVENTS, clock, uuid7)
  const isDebug = config.logLevel === 'debug' || config.logLevel === 'trace'
  const log = jobLog(logger, { isDebug, now: () => clock.now() })
  const ends = new EndWaiters()
  const events = createJobEvents([log, metrics.onJobEvent, ring.onJobEvent, ends.onJobEvent])

  const brokerOptions: BrokerOptions = { ...config, ...tuning, ...(ledgerId && { ledgerId }) }
  const { observer } = metrics
  const broker = new RabbitBroker(brokerOptions, { clock, logger, random: Math.random, observer })

  const deps: Deps = {
    ledger,
    broker,
    clock,
    logger,
    events,
    settings: config,
    jobMessages: new JobMessages(),
    transient: new Transient(),
    argsSchemas: new ArgsSchemas(),
    workers: new WorkerRegistry(clock),
    ends,
    bulk: new BulkSignals(),
    pruneHold: new PruneHold(clock, logger, await ledger.read.epochs.seenAt()),
    startLimits: new StartLimits(clock, (jobId) => broker.unpark(jobId)),
    random: Math.random,
    wakeRelay: (what) => outboxRelay.wake(what),
    newId: uuid7,
  }

  if (config.eventsExchange) broker.publishEvents(ring, metrics.eventExchange)
  broker.attach(brokerHooks(deps, metrics.control))
  const outboxRelay = relay(deps)
  ledger.concurrency.onNews((news) => followKeys(deps, news))
  const version = await ownVersion()
  const http = createHttpService(deps, {
    ...config,
    tls,
    priorityOrder: () => priorityOrder(config.queueType, broker.serverVersion),
    version,
    events: ring,
    shownConfig: shownConfig(config),
    ledgerAtStart: { ...(await ledger.read.size()), at: clock.now() },
    metrics: metrics.exposition(metricSources(deps, { broker, relay: outboxRelay, version })),
  })

  const services: Service[] = [
    { name: 'ledger', start: async () => {}, stop: () => ledger.close() },
    broker,
    leaseKeeper(deps),
    outboxRelay,
    ...timers(deps, config),
    ...(isDebug ? [inFlightLog(deps)] : []),
    ...(door ? [door] : []),
    http,
  ]
  for (const queue of config.queues) await ledger.recordQueue(queue, clock.now())
  await startAll(services, logger)
  logger.info({ version, url: http.url(), queueType: config.queueType }, 'gateway listening')
  return { url: http.url(), stop: (deadline) => stopAll(services, deadline, logger) }
}

function metricSources(
  deps: Deps,
  { broker, relay, version }: { broker: RabbitBroker; relay: Relay; version: string },
): MetricSources {
  return {
    broker: () => broker.gauges(),
    eventsPending: () => broker.eventsPending,
    gateway: {
      version,
      sharesLedger: deps.ledger.known.replication.kind === 'postgres',
      isHealthy: () => isHealthy(deps),
      warnings: () => healthWarnings(deps),
    },
    ledger: {
      ...deps.ledger.known,
      owedMessages: deps.ledger.read.owedMessages,
      search: deps.ledger.read.search,
    },
    relay,
    workers: () => deps.workers.gauges(),
    clock: deps.clock,
  }
}

/** The services that a clock drives. */
function timers(deps: Deps, config: Config): Service[] {
  return [
    promoter(deps),
    cron(deps),
    reaper(deps),
    expiry(deps),
    dlxSweep(deps),
    retention(deps, config.retention),
    bulkOperations(deps),
    heldJobs(deps),
    ...(config.queueIdleMs > 0 ? [idleQueues(deps, config.queueIdleMs)] : []),
  ]
}

/** Connects the broker layer to the ledger and the operations. */
export function brokerHooks(deps: Deps, observer: ControlObserver): BrokerHooks {
  return {
    queues: queueRecords(deps),
    jobs: jobCounts(deps),
    epochs: ledgerEpochs(deps.ledger),
    arrivals: arrivals(deps, observer),
  }
}

function queueRecords(deps: Deps): QueueRecords {
  const { ledger } = deps
  return {
    recordedQueues: () => ledger.known.queues().map((queue) => queue.name),
    onQueueFound: (queue) => recordFoundQueue(deps, queue),
    onQueueMissing: (queue, isRenewed) => onQueueMissing(deps, queue, isRenewed),
    identityOf: (queue) => identityOf(deps, queue),
    recordIdentity: (queue, identity) => ledger.recordIdentity(queue, identity),
    isUnwritten: (queue) => ledger.known.unwritten.has(queue),
    onWritten: (queue) => ledger.unwritten.settle(queue),
    isPaused: (queue) =>
      ledger.known.pauses.since(queue) !== null || deps.transient.deleting.has(queue),
    recordedRetryQueues: () => ledger.known.retryQueues(),
    onRetryQueueDeclared: (queue, delayMs) => ledger.recordRetryQueue({ queue, delayMs }),
    onRetryQueueMissing: (queue, delayMs) => onRetryQueueMissing(deps, { queue, delayMs }),
  }
}

function jobCounts(deps: Deps): JobCounts {
  const { ledger } = deps
  return {
    hasMessages: (queue) =>
      ledger.known.counts(queue).available + ledger.known.counts(queue).active > 0,
    availableJobs: (queue) => jobsWithJobMessage(ledger, queue),
    claimableJobs: (queue) => ledger.known.claimable(queue),
    onDrift: (drift) => onDrift(deps, drift),
  }
}

function ledgerEpochs(ledger: Ledger): LedgerEpochs {
  // Read here, at construction: `compose` records the configured queues in the ledger only later.
  const isLedgerNew = ledger.known.queues().length === 0
  return {
    isLedgerNew: () => isLedgerNew,
    all: () => ledger.read.epochs.all(),
    record: (epoch, before) => ledger.epochs.record(epoch, before),
  }
}

function arrivals(deps: Deps, observer: ControlObserver): Arrivals {
  const onControl = controlDoor({ deps, observer })
  const onDeadControl = deadControlDoor({ deps, observer, onControl })
  return {
    onDeadLetter: (letter) =>
      letter.isControl ? onDeadControl(letter) : diedInBroker(deps, letter),
    onControl,
    onScheduled: (message) => adoptSchedule(deps, message),
    onUp: () => onPublishingAgain(deps),
    onConsumeUp: () => extendLeases(deps),
  }
}

const MANY_OWED = 1_000

/**
 * Counts the available jobs whose job message should be in RabbitMQ, i.e. without the rows that still owe
 * their message. Returns 0 when many rows owe one: the relay is publishing then, and a queue's depth proves
 * nothing.
 */
async function jobsWithJobMessage(ledger: Ledger, queue: string): Promise<number> {
  const owed = await ledger.read.owedMessages(MANY_OWED)
  const withMessage = ledger.known.counts(queue).available - ledger.known.held(queue)
  return owed === MANY_OWED ? 0 : Math.max(0, withMessage - owed)
}

/** After a reconnect and after `unblocked`: workers could not renew their leases in between. */
function onPublishingAgain(deps: Deps): void {
  deps.wakeRelay('all')
  extendLeases(deps).catch((error: unknown) => {
    deps.logger.warn({ err: error }, 'leases were not extended')
  })
}

function recordFoundQueue(deps: Deps, queue: string): void {
  deps.ledger.recordQueue(queue, deps.clock.now()).catch((error: unknown) => {
    deps.logger.warn({ err: error, queue }, 'queue could not be recorded')
  })
}
