import { setTimeout as sleep } from 'node:timers/promises'
import { openDatabase } from '../../src/ledger/sqlite/driver.ts'
import { check, type InFlight, type LedgerRow, report, type Verdict } from '../support/checker.ts'
import { jobsOf, type OjsClient } from '../support/client.ts'
import type { Gateway } from '../support/gateway.ts'
import { queueTokens } from '../support/queue-tokens.ts'
import type { Load } from './load.ts'

const LOOK_AGAIN_MS = 50
/** Longer than the gateway's reconnect, shorter than the relay's interval. */
const NO_PROGRESS_MS = 10_000
const SWEEP_MS = 450

export interface Run {
  title: string
  gateway: Gateway
  load: Load
  /** AMQP URL of the broker itself. */
  amqpUrl: string
  queue: string
  /** Its name in the broker. */
  brokerQueue: string
  /** What the fault found under way. */
  inFlight: InFlight
}

/** Waits until the load is at its random moment and something is in flight there. */
export async function momentToStrike(gateway: Gateway, load: Load, accepted: number) {
  await load.until((journal) => journal.accepted >= accepted)
  await gateway.untilLogged('in flight', 10_000, (line) => numbersOf(line) !== '0 0')
}

/** Law 6, from the last line that the gateway wrote before `fault` (ms since the epoch). */
export function inFlightAt(gateway: Gateway, fault: number): InFlight {
  const line = gateway.log.last('in flight', fault)
  if (line === undefined) throw new Error('the gateway logged no "in flight" before the fault')
  return { publishes: Number(line['publishes']), leases: Number(line['leases']) }
}

/** Everything is pushed, worked off and read back. Prints the verdict. */
export async function conclude(run: Run): Promise<Verdict> {
  const { gateway, load } = run
  load.startWorking({ connections: 16, count: 20 })
  await load.pushed()
  await drained(gateway, run.queue)
  await load.stop()
  // A graceful stop gives back every delivery that no lease needs: the queue then holds all tokens.
  await gateway.stop()
  const { rows, kept } = await readLedger(gateway.ledgerPath)
  const verdict = check({
    journal: load.journal,
    rows,
    kept,
    tokens: await queueTokens(run.amqpUrl, run.brokerQueue),
    inFlight: run.inFlight,
    now: Date.now(),
  })
  process.stdout.write(`${report(run.title, verdict)}\n`)
  return verdict
}

/** Nothing waits for a worker any more, or nothing has moved for a while. */
async function drained({ client }: Gateway, queue: string): Promise<void> {
  let least = Number.POSITIVE_INFINITY
  let since = Date.now()
  while (least > 0 && Date.now() - since < NO_PROGRESS_MS) {
    await sleep(LOOK_AGAIN_MS)
    const count = await waiting(client)
    if (count >= least) continue
    least = count
    since = Date.now()
  }
  await sweep(client, queue)
}

/** Tokens of jobs that are over may be left behind the last one that was worth something. */
async function sweep(client: OjsClient, queue: string): Promise<void> {
  for (;;) {
    const startedAt = Date.now()
    const answer = await client.fetch({ queues: [queue], wait_ms: SWEEP_MS })
    // An answer that took longer came because there was too much to sift through.
    if (jobsOf(answer).length === 0 && Date.now() - startedAt < 2 * SWEEP_MS) return
  }
}

const DEPTH = /^ojs_queue_depth\{.*state="(?:available|scheduled|retryable)".*\} (\d+)$/gm

/** Jobs that a worker has yet to get, from the metrics: a live gateway locks its ledger. */
async function waiting(client: OjsClient): Promise<number> {
  const { status, text } = await client.send('GET', '/metrics')
  if (status !== 200) throw new Error(`GET /metrics answered ${status}: ${text}`)
  return [...text.matchAll(DEPTH)].reduce((sum, [, count]) => sum + Number(count), 0)
}

/** The ledger of a gateway that is dead or stopped: every row, and the counts that it kept. */
export async function readLedger(
  path: string,
): Promise<{ rows: LedgerRow[]; kept: Record<string, number> }> {
  const ledger = await openDatabase(path)
  const rows = ledger.prepare(
    `SELECT id, state, attempt, result, outbox, due_at AS dueAt,
      lease_expires_at AS leaseExpiresAt FROM jobs`,
  )
  const counts = ledger.prepare(
    'SELECT state, sum(count) AS count FROM state_counts GROUP BY state HAVING sum(count) <> 0',
  )
  const read = {
    rows: rows.all() as LedgerRow[],
    kept: Object.fromEntries(
      counts.all().map((row) => Object.values(row as { state: string; count: number })),
    ),
  }
  ledger.close()
  return read
}

function numbersOf(line: { readonly [field: string]: unknown }): string {
  return `${line['publishes']} ${line['leases']}`
}
