import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { restartDoomed, untilDead } from '../../crash/failpoints.ts'
import { Random, SEED } from '../../crash/random.ts'
import { vhostForAll } from '../../support/broker/rabbit.ts'
import { jobsOf } from '../../support/gateway/client.ts'
import { Gateway } from '../../support/gateway/gateway.ts'
import { eventually } from '../../support/gateway/in-process.ts'

/**
 * Runs cron jobs while the gateway is killed: each tick makes exactly one job, and no job is lost.
 */
const vhost = vhostForAll()

const PATIENCE_MS = 60_000
/** Longer than the second between two ticks. */
const HOLD_MS = 1_200

const CRON = 'ledger/sqlite/writes/cron.js:SqliteCron'
const BROKER = 'broker/rabbit-broker.js:RabbitBroker'
/** Where a gateway is killed: around each commit of a tick, and each publish. */
const FAILPOINTS = [
  `${CRON}.fire:before`,
  `${CRON}.fire:after`,
  `${BROKER}.publish:before`,
  `${BROKER}.publish:after`,
  // Between the cancellation of the previous job and the creation of the next one.
  'ledger/sqlite/ledger.js:SqliteLedger.cancel:after',
  `${CRON}.release:after`,
]
const RANDOM_KILLS = 2

const ENTRIES = Array.from({ length: 8 }, (_, i) => ({
  name: `entry-${i}`,
  overlap_policy: ['allow', 'skip', 'cancel_previous', 'enqueue'][i % 4] ?? 'skip',
}))

/**
 * Registers a cron job that runs every second, into one queue for all. A kill, a lost ACK or a slow machine
 * costs an attempt, so that a job with few attempts could end as discarded.
 */
async function register(gateway: Gateway, entry: (typeof ENTRIES)[number]): Promise<void> {
  const options = { queue: 'ticks', retry: { max_attempts: 50 } }
  const body = { ...entry, cron: '* * * * * *', type: 'a', options }
  expect((await gateway.client.send('POST', '/ojs/v1/cron', body)).status).toBe(201)
}

async function runCount(gateway: Gateway, name: string): Promise<number> {
  const { body } = await gateway.client.send('GET', `/ojs/v1/cron/${name}`)
  const { cron_job } = body as { cron_job?: { run_count: number } }
  return cron_job?.run_count ?? -1
}

/** Fetches, works and acknowledges, also while the gateway is down. */
function work({ client }: Gateway): { stop(): Promise<void> } {
  let isStopped = false
  const done = (async () => {
    while (!isStopped) {
      const jobs = jobsOf(await client.fetch({ queues: ['ticks'], count: 100, wait_ms: 200 }))
      await sleep(jobs.length > 0 ? HOLD_MS : 20)
      await Promise.all(jobs.map(({ id }) => client.ack({ job_id: id })))
    }
  })()
  return {
    async stop() {
      isStopped = true
      await done
    },
  }
}

interface Ticks {
  /** Ids of all jobs. */
  ids: string[]
  /** The tick times of each entry's jobs, in order. */
  byEntry: Map<string, number[]>
  runCounts: Map<string, number>
  lastRuns: Map<string, number>
}

/** Reads jobs and cron jobs from the ledger of a stopped gateway. */
async function ticksIn({ ledger }: Gateway): Promise<Ticks> {
  const jobs: { id: string; envelope: string }[] = await ledger.rows(
    'SELECT id, envelope FROM jobs',
    'SELECT id, envelope FROM job_bodies',
  )
  const byEntry = new Map<string, number[]>()
  for (const { envelope } of jobs) {
    const { meta } = JSON.parse(envelope) as {
      meta: { cron_name: string; cron_triggered_at: string }
    }
    const ticks = byEntry.get(meta.cron_name) ?? []
    byEntry.set(meta.cron_name, [...ticks, Date.parse(meta.cron_triggered_at)])
  }
  const entries: { name: string; run_count: number; last_run_at: number }[] = await ledger.rows(
    'SELECT name, run_count, last_run_at FROM cron_jobs',
  )
  return {
    ids: jobs.map(({ id }) => id),
    byEntry: new Map([...byEntry].map(([name, ticks]) => [name, ticks.sort((a, b) => a - b)])),
    runCounts: new Map(entries.map((entry) => [entry.name, entry.run_count])),
    lastRuns: new Map(entries.map((entry) => [entry.name, entry.last_run_at])),
  }
}

/** Expects one job for each tick, matching run counts, and that every job ends. */
async function judge(gateway: Gateway): Promise<void> {
  await gateway.stop()
  const { ids, byEntry, runCounts, lastRuns } = await ticksIn(gateway)
  for (const { name } of ENTRIES) {
    const ticks = byEntry.get(name) ?? []
    expect(ticks.length, name).toBeGreaterThan(1)
    expect(new Set(ticks).size, name).toBe(ticks.length)
    expect(runCounts.get(name), name).toBe(ticks.length)
    expect(lastRuns.get(name), name).toBe(ticks.at(-1))
  }
  await gateway.restart()
  const open = new Set(ids)
  await eventually(async () => {
    for (const id of open) {
      const { state } = (await gateway.client.get(id)).body
      if (state === 'completed' || state === 'cancelled') open.delete(id)
    }
    return open.size === 0
  }, PATIENCE_MS)
}

/** Waits for one more run of the entry. */
async function untilNextRun(gateway: Gateway, name: string): Promise<void> {
  const before = await runCount(gateway, name)
  expect(before).toBeGreaterThanOrEqual(0)
  await untilRuns(gateway, name, before + 1)
}

async function untilRuns(gateway: Gateway, name: string, count: number): Promise<void> {
  await eventually(async () => (await runCount(gateway, name)) >= count, PATIENCE_MS)
}

test(`gateway killed at its ticks: each tick makes one job (OJS_CRASH_SEED=${SEED})`, {
  timeout: 8 * PATIENCE_MS,
}, async () => {
  const random = new Random(SEED)
  // Long enough for the worker, and short enough that jobs of a lost FETCH answer soon run again.
  const env = { OJS_VISIBILITY_TIMEOUT_MS: '3000' }
  const gateway = await Gateway.start({ amqpUrl: vhost.url, env })
  const worker = work(gateway)
  try {
    for (const entry of ENTRIES) await register(gateway, entry)
    for (const failpoint of FAILPOINTS) {
      await restartDoomed(gateway, failpoint)
      await untilDead(gateway, failpoint, PATIENCE_MS)
    }
    await gateway.restart()
    for (let i = 0; i < RANDOM_KILLS; i++) {
      await untilNextRun(gateway, 'entry-0')
      await sleep(1_000 - (Date.now() % 1_000) + random.integer(0, 200))
      await gateway.kill9()
      await gateway.restart()
    }
    // Waits for a run of each policy after the kills; entries that skip may have run only once before.
    for (const { name } of ENTRIES.slice(0, 4)) await untilNextRun(gateway, name)
    for (const { name } of ENTRIES) await untilRuns(gateway, name, 2)
    await judge(gateway)
  } finally {
    await worker.stop()
    await gateway.dispose()
  }
})
