import { setTimeout as sleep } from 'node:timers/promises'
import { connect } from 'amqplib'
import { queueMessages } from '../support/broker/queue-messages.ts'
import type { Direction, TcpProxy } from '../support/broker/tcp-proxy.ts'
import {
  check,
  type InFlight,
  type LedgerRow,
  report,
  type Verdict,
} from '../support/checker/checker.ts'
import { jobsOf, type OjsClient } from '../support/gateway/client.ts'
import type { Gateway } from '../support/gateway/gateway.ts'
import type { Load } from './load.ts'

const LOOK_AGAIN_MS = 50
/** Longer than the gateway's reconnect, shorter than the relay's interval. */
const NO_PROGRESS_MS = 10_000
const SWEEP_MS = 450
/** Longer than any of these waits takes, on any machine. */
const PATIENCE_MS = 30_000
/** Shorter than the gateway's publish timeout, so that nothing held is refused before the gateway dies. */
const HOLD_MS = 5_000

/** What serves the clients: a gateway, or several behind one address. */
export type Serving = Pick<Gateway, 'client' | 'log' | 'ledger' | 'stop' | 'dispose'>

export interface Run {
  title: string
  gateway: Serving
  load: Load
  /** AMQP URL of the broker itself. */
  amqpUrl: string
  queue: string
  /** In the broker: the name of the job queue, and the beginning of the names of its retry queues. */
  brokerQueue: string
  retryQueues: string
  /** What was in flight at the faults. */
  strikes: Strikes
}

/**
 * Waits until the load has come to its random moment and something is in flight; `isRight` says what
 * exactly.
 */
export async function momentToStrike(
  gateway: Pick<Gateway, 'untilLogged'>,
  load: Load,
  accepted: number,
  isRight: (inFlight: InFlight) => boolean = isAnything,
): Promise<void> {
  await load.pushDuring(async () => {
    await load.until((journal) => journal.accepted >= accepted)
    await untilInFlight(gateway, isRight)
  })
}

/**
 * Lets nothing pass in this direction until so much is in flight, and then nothing at all, so that it stays
 * in flight. If the hold also stops what is to come in flight, everything passes for a moment before the
 * next try.
 */
export async function holdUntil(
  gateway: Gateway,
  proxy: TcpProxy,
  direction: Direction,
  isRight: (inFlight: InFlight) => boolean,
): Promise<void> {
  const deadline = Date.now() + PATIENCE_MS
  while (!(await holds(gateway, proxy, direction, isRight))) {
    proxy.release('to-broker')
    proxy.release('to-gateway')
    if (Date.now() > deadline) throw new Error(`never held:\n${gateway.log.tail()}`)
    await untilInFlight(gateway, isAnything)
  }
}

/**
 * Confirms that passed before may be unread when the gateway writes its first line after the second hold.
 * It reads them in a turn between that line and the next, hence the second check.
 */
async function holds(
  gateway: Gateway,
  proxy: TcpProxy,
  direction: Direction,
  isRight: (inFlight: InFlight) => boolean,
): Promise<boolean> {
  const isHeld = () =>
    untilInFlight(gateway, isRight, HOLD_MS).then(
      () => true,
      () => false,
    )
  proxy.hold(direction)
  if (!(await isHeld())) return false
  proxy.hold('to-gateway')
  await untilInFlight(gateway, isAnything)
  return await isHeld()
}

async function untilInFlight(
  gateway: Pick<Gateway, 'untilLogged'>,
  isRight: (inFlight: InFlight) => boolean,
  timeoutMs = PATIENCE_MS,
): Promise<void> {
  await gateway.untilLogged('in flight', timeoutMs, (line) => isRight(inFlightIn(line)))
}

function isAnything({ publishes, retries, leases }: InFlight): boolean {
  return publishes + retries + leases > 0
}

/** Law 6: the sum of what was in flight at each fault, from the last line before it. */
export class Strikes {
  readonly #gateway: Serving
  count = 0
  inFlight: InFlight = { publishes: 0, retries: 0, leases: 0 }

  /** For each fault that was timed: how long it took until a PUSH was accepted again. */
  readonly servedMs: number[] = []

  constructor(gateway: Serving) {
    this.#gateway = gateway
  }

  /** `fault`: when it happened, ms since the epoch. `struck`: whose it was, if not of what serves now. */
  note(fault = Date.now(), struck: Pick<Serving, 'log'> = this.#gateway): void {
    const line = struck.log.last('in flight', fault)
    if (line === undefined) throw new Error('the gateway logged no "in flight" before the fault')
    const { publishes, retries, leases } = inFlightIn(line)
    this.count++
    this.inFlight = {
      publishes: this.inFlight.publishes + publishes,
      retries: this.inFlight.retries + retries,
      leases: this.inFlight.leases + leases,
    }
  }
}

function inFlightIn(line: { readonly [field: string]: unknown }): InFlight {
  const { publishes, retries, leases } = line
  return { publishes: Number(publishes), retries: Number(retries), leases: Number(leases) }
}

/** Waits until everything is pushed, worked off and read back. Prints the verdict. */
export async function conclude(run: Run): Promise<Verdict> {
  const { gateway, load } = run
  load.startWorking({ connections: 16, count: 20 })
  await load.pushed()
  await drained(gateway)
  await sweep(run)
  await load.stop()
  // A graceful stop gives back every delivery that no lease needs: the queue then holds all job messages.
  await gateway.stop()
  const { rows, kept, retryQueues } = await readLedger(gateway)
  const verdict = check({
    journal: load.journal,
    rows,
    kept,
    jobMessages: await jobMessagesOf(run, retryQueues),
    inFlight: run.strikes.inFlight,
    now: Date.now(),
  })
  process.stdout.write(`${report(run.title, verdict)}\n`)
  return verdict
}

/** The job messages in the job queue and in its retry queues. */
async function jobMessagesOf(run: Run, retryQueues: readonly number[]): Promise<string[]> {
  const names = [run.brokerQueue, ...retryQueues.map((delayMs) => `${run.retryQueues}${delayMs}`)]
  const jobMessages = await Promise.all(names.map((name) => queueMessages(run.amqpUrl, name)))
  return jobMessages.flat()
}

/** Resolves when nothing waits for a worker any more, or nothing has moved for a while. */
async function drained({ client }: Serving): Promise<void> {
  let least = Number.POSITIVE_INFINITY
  let since = Date.now()
  while (least > 0 && Date.now() - since < NO_PROGRESS_MS) {
    await sleep(LOOK_AGAIN_MS)
    const count = await waiting(client)
    if (count >= least) continue
    least = count
    since = Date.now()
  }
}

/**
 * Job messages of jobs that are over may be left behind the last useful one. They go while a worker fetches.
 * When none has gone for a while, the verdict counts those that are left.
 */
async function sweep({ gateway, amqpUrl, queue, brokerQueue }: Run): Promise<void> {
  const connection = await connect(amqpUrl)
  const channel = await connection.createChannel()
  let least = Number.POSITIVE_INFINITY
  let since = Date.now()
  while (least > 0 && Date.now() - since < NO_PROGRESS_MS) {
    const answer = await gateway.client.fetch({ queues: [queue], wait_ms: SWEEP_MS })
    const { messageCount } = await channel.checkQueue(brokerQueue)
    const count = messageCount + (await buffered(gateway.client)) + jobsOf(answer).length
    if (count >= least) continue
    least = count
    since = Date.now()
  }
  await connection.close()
}

/** Job messages in the gateway's buffers. */
async function buffered(client: OjsClient): Promise<number> {
  const { text } = await client.send('GET', '/metrics')
  const counts = [...text.matchAll(/^ojs_amqp_buffered\{.*\} (\d+)$/gm)]
  return counts.reduce((sum, [, count]) => sum + Number(count), 0)
}

const DEPTH = /^ojs_queue_depth\{.*state="(\w+)".*\} (\d+)$/gm

/** Jobs that a worker has yet to get. */
async function waiting(client: OjsClient): Promise<number> {
  const { available = 0, scheduled = 0, retryable = 0 } = await jobsByState(client)
  return available + scheduled + retryable
}

/** Resolves when at least so many jobs wait for their next attempt, under load. */
export async function untilRetrying({ client }: Gateway, load: Load, jobs: number): Promise<void> {
  for (;;) {
    const { retryable = 0 } = await jobsByState(client)
    if (retryable >= jobs) return
    if (!load.isPushing)
      throw new Error(`only ${retryable} jobs wait for a retry, and no more come`)
    await sleep(LOOK_AGAIN_MS)
  }
}

/**
 * Resolves when the retry queues of these delays take jobs, which new ones do not for the first 2 s. To be
 * called when the load begins, which must make retries of these delays.
 */
export async function untilRetryQueuesReady(gateway: Gateway, delaysMs: readonly number[]) {
  const isReady = (delayMs: number) =>
    gateway.untilLogged('retry queue is ready', PATIENCE_MS, (line) => line['delayMs'] === delayMs)
  await Promise.all(delaysMs.map(isReady))
}

/** From the metrics, because a live gateway locks its ledger. */
async function jobsByState(client: OjsClient): Promise<Record<string, number>> {
  const { status, text } = await client.send('GET', '/metrics')
  if (status !== 200) throw new Error(`GET /metrics answered ${status}: ${text}`)
  const counts: Record<string, number> = {}
  for (const [, state = '', count] of text.matchAll(DEPTH)) {
    counts[state] = (counts[state] ?? 0) + Number(count)
  }
  return counts
}

/** What the ledger of a gateway that is dead or stopped knows. */
export interface LedgerContent {
  rows: LedgerRow[]
  /** The counts by state that the ledger kept. */
  kept: Record<string, number>
  /** Delays of the retry queues that were declared. */
  retryQueues: number[]
}

export async function readLedger({ ledger }: Pick<Serving, 'ledger'>): Promise<LedgerContent> {
  // PostgreSQL makes lower case of a name without quotes.
  const columns = `id, state, attempt, max_attempts AS "maxAttempts", result, outbox,
    due_at AS "dueAt", lease_expires_at AS "leaseExpiresAt"`
  const rows: LedgerRow[] = await ledger.rows(
    `SELECT ${columns} FROM jobs`,
    `SELECT ${columns} FROM jobs JOIN job_bodies USING (id)`,
  )
  const counts: { state: string; count: number }[] = await ledger.rows(
    `SELECT state, sum(count) AS count FROM state_counts WHERE state <> 'dead_letter'
      GROUP BY state HAVING sum(count) <> 0`,
  )
  const retryQueues: { delay: number }[] = await ledger.rows(
    'SELECT delay_ms AS delay FROM rungs',
    'SELECT delay_ms AS delay FROM retry_queues',
  )
  return {
    rows,
    kept: Object.fromEntries(counts.map(({ state, count }) => [state, Number(count)])),
    retryQueues: retryQueues.map(({ delay }) => Number(delay)),
  }
}
