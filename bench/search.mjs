// How long each search of a console takes in a ledger of a million jobs while PUSH runs, how long it holds the event
// loop, and what its indexes cost a job. No broker, no HTTP: the ledger alone, in this process.
//
//   npm run build && node bench/search.mjs [--rows 1000000] [--searches 100] [--rounds 5]

import { mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { parseArgs } from 'node:util'
import { ANY_JOB } from '../dist/job/search/filter.js'
import { SqliteLedger } from '../dist/ledger/sqlite/ledger.js'
import { openLedgerFile } from '../dist/ledger/sqlite/open.js'

const { values } = parseArgs({
  options: {
    rows: { type: 'string', default: '1000000' },
    searches: { type: 'string', default: '100' },
    rounds: { type: 'string', default: '5' },
  },
})
const ROWS = Number(values.rows)
const SEARCHES = Number(values.searches)
const ROUNDS = Number(values.rounds)
const PUSHES_IN_FLIGHT = 16
const JOBS_PER_ROUND = 5_000

const silent = () => {}
const logger = { debug: silent, info: silent, warn: console.warn, error: console.error }
const dir = mkdtempSync(join(process.env['TMPDIR'] ?? '/tmp', 'ojs-search-'))
process.on('exit', () => rmSync(dir, { recursive: true, force: true }))

/** @param {string} name */
const openFile = (name) =>
  openLedgerFile({ path: join(dir, name), sync: 'normal', logger: /** @type {any} */ (logger) })

/** Ten queues, twelve types; nine of ten jobs are completed, as after a long day. */
const FILL = `
WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ${ROWS}),
  job AS (SELECT i, i * 7919 % 1000 AS draw, ${Date.now()} - 86400000 + i * 80 AS at FROM n)
INSERT INTO jobs (id, generation, state, attempt, queue, type, priority, max_attempts, timeout_ms,
  token_out, dead_letter_copied, created_at, enqueued_at, started_at, completed_at, discarded_at,
  ended_at, dead_letter, due_at, worker_id, carry, error, envelope)
SELECT printf('0197a1c2-77d0-7aa1-9d55-%012d', i), 0,
  CASE WHEN draw < 900 THEN 'completed' WHEN draw < 950 THEN 'available' WHEN draw < 970 THEN 'discarded'
    WHEN draw < 990 THEN 'scheduled' ELSE 'retryable' END,
  iif(draw < 900, 1, 0), 'queue.' || (i % 10), 'type.' || (i % 4) || '.' || (i % 3), i % 5, 3, 30000,
  0, 0, at, at, at, iif(draw < 900, at + 50, NULL), iif(draw BETWEEN 950 AND 969, at + 50, NULL),
  iif(draw < 900 OR draw BETWEEN 950 AND 969, at + 50, NULL), draw BETWEEN 950 AND 969,
  iif(draw >= 970, at + 90000000, NULL), 'worker-' || (i % 50),
  iif(i % 100 = 0, '{"tags":["urgent"]}', NULL),
  iif(draw >= 950, '{"code":"code-' || (i % 7) || '","type":"Type' || (i % 7) || '","message":"m"}', NULL),
  '{"specversion":"1.0","type":"t","args":[{"customer":"c-' || (i % 5000) || '"}],"meta":{"tenant":"t' ||
    (i % 300) || '"},"padding":"' || printf('%.200c', 'x') || '"}'
FROM job;
INSERT INTO queues (name, created_at) SELECT DISTINCT queue, 0 FROM jobs;
INSERT INTO state_counts (queue, state, count) SELECT queue, state, count(*) FROM jobs GROUP BY 1, 2
  UNION ALL SELECT queue, 'dead_letter', count(*) FROM jobs WHERE dead_letter = 1 GROUP BY 1;`

const texts = ANY_JOB.text
const hourAgo = Date.now() - 3_600_000
/** @type {[string, Record<string, any> | null, Record<string, any>?][]} */
const SEARCHES_OF_A_CONSOLE = [
  ['(none: PUSH alone)', null],
  ['nothing', {}],
  ['state', { states: ['discarded'] }],
  ['states', { states: ['available', 'retryable', 'active'] }],
  ['queue', { queues: ['queue.3'] }],
  ['queue and state', { queues: ['queue.3'], states: ['available'] }],
  ['type', { types: [{ text: 'type.1.2', isPrefix: false }] }],
  ['prefix of types', { types: [{ text: 'type.1', isPrefix: true }] }],
  ['type that none has', { types: [{ text: 'type.9', isPrefix: true }] }],
  ['created within an hour', { created: { from: hourAgo, until: null } }],
  ['created before, state', { created: { from: null, until: hourAgo }, states: ['discarded'] }],
  ['error code', { errorCode: 'code-3' }],
  ['error code, state, queue', { errorCode: 'code-3', states: ['discarded'], queues: ['queue.3'] }],
  ['worker’s active jobs', { workerId: 'worker-7', states: ['active'] }],
  ['worker', { workerId: 'worker-7' }],
  ['ended within an hour', { ended: { from: hourAgo, until: null } }],
  ['tag', { text: { ...texts, tags: ['urgent'] } }],
  ['meta', { text: { ...texts, meta: [{ name: 'tenant', value: 't7' }] } }],
  ['args', { text: { ...texts, args: [{ customer: 'c-812' }] } }],
  ['args that none has', { text: { ...texts, args: [{ customer: 'nobody' }] } }],
  ['workflow', { workflowId: 'none' }],
  [
    'scheduled, by due time',
    { states: ['scheduled'] },
    { order: 'scheduled_at', isAscending: true },
  ],
  ['available, by priority', { states: ['available'] }, { order: 'priority' }],
  ['page 100', {}, { offset: 1_980 }],
]
const PAGE = {
  order: 'created_at',
  isAscending: false,
  after: null,
  offset: 0,
  limit: 20,
  isWhole: false,
}

/** @returns {never} */
const known = () => {
  throw new Error('the ledger knows every job')
}

let pushed = 0
/**
 * @param {number} now
 * @returns {import('../dist/job/job.js').NewJob}
 */
function newJob(now) {
  pushed += 1
  const id = `0197a1c3-77d0-7aa1-9d55-${String(pushed).padStart(12, '0')}`
  const envelope = JSON.stringify({ specversion: '1.0', id, args: ['x'.repeat(200)] })
  return {
    ...{ id, type: 'type.1.1', queue: `queue.${pushed % 10}`, priority: 0, maxAttempts: 3 },
    ...{ visibilityTimeoutMs: null, timeoutMs: 30_000, expiresAt: null, createdAt: now, envelope },
    ...{ carry: null, start: { state: 'available' }, unique: null },
  }
}

/**
 * PUSHes until `isOver`, and collects how long each took.
 * @param {import('../dist/ledger/sqlite/ledger.js').SqliteLedger} ledger
 * @param {() => boolean} isOver
 * @param {number[]} times
 */
async function pushUntil(ledger, isOver, times) {
  while (!isOver()) {
    const before = performance.now()
    await ledger.insert(newJob(Date.now()), Date.now())
    times.push(performance.now() - before)
  }
}

/**
 * @param {readonly number[]} times
 * @param {number} share
 */
function quantile(times, share) {
  const sorted = times.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0
}

async function measureSearches() {
  const db = await openFile('full.db')
  const before = performance.now()
  db.exec('BEGIN')
  db.exec(FILL)
  db.exec('COMMIT')
  console.log(`${ROWS} rows written in ${Math.round((performance.now() - before) / 1000)} s`)
  const ledger = new SqliteLedger(db, /** @type {any} */ (logger))
  console.log('search | p50 ms | p99 ms | count p99 ms | searched | PUSH p99 ms | longest turn ms')
  console.log('---|--:|--:|--:|--:|--:|--:')
  for (const [name, given, page = {}] of SEARCHES_OF_A_CONSOLE) {
    let isOver = false
    /** @type {number[]} */
    const pushes = []
    const load = Array.from({ length: PUSHES_IN_FLIGHT }, () =>
      pushUntil(ledger, () => isOver, pushes),
    )
    const delay = monitorEventLoopDelay({ resolution: 1 })
    await new Promise((resolve) => setTimeout(resolve, 200))
    delay.enable()
    /** @type {number[]} */
    const pages = []
    /** @type {number[]} */
    const counts = []
    /** @type {number | null} */
    let searched = null
    const filter = { ...ANY_JOB, ...given }
    for (let i = 0; given !== null && i < SEARCHES; i++) {
      const start = performance.now()
      const found = await ledger.read.search.page(filter, /** @type {any} */ ({ ...PAGE, ...page }))
      const middle = performance.now()
      await ledger.read.search.count(filter, 10_000)
      counts.push(performance.now() - middle)
      pages.push(middle - start)
      searched = found.searched
    }
    if (given === null) await new Promise((resolve) => setTimeout(resolve, 2_000))
    delay.disable()
    isOver = true
    await Promise.all(load)
    const cells = [quantile(pages, 0.5), quantile(pages, 0.99), quantile(counts, 0.99)].map((ms) =>
      ms.toFixed(1),
    )
    const turn = (delay.max / 1e6).toFixed(1)
    console.log(
      [name, ...cells, searched ?? 'all', quantile(pushes, 0.99).toFixed(1), turn].join(' | '),
    )
  }
  const start = performance.now()
  await ledger.read.search.oldest(
    ledger.known.queues().map(({ name }) => name),
    Date.now(),
    Date.now(),
  )
  console.log(`the oldest job of each queue: ${(performance.now() - start).toFixed(1)} ms`)
  await ledger.close()
}

/** PUSH, claim and completion of jobs, one group for all, with and without the indexes of the search, in turns. */
async function measureCost() {
  const INDEXES = ['jobs_search', 'jobs_late', 'jobs_of_cron', 'jobs_error']
  /** @type {{ name: string, ledger: SqliteLedger, push: number[], life: number[] }[]} */
  const ledgers = []
  for (const name of ['with', 'without']) {
    const db = await openFile(`${name}.db`)
    const ledger = new SqliteLedger(db, /** @type {any} */ (logger))
    // After the statements are prepared, which name the indexes; they are prepared anew and fail only if they run.
    if (name === 'without') for (const index of INDEXES) db.exec(`DROP INDEX ${index}`)
    ledgers.push({ name, ledger, push: [], life: [] })
  }
  for (let round = 0; round <= ROUNDS; round++) {
    for (const { ledger, push, life } of ledgers) {
      const start = process.cpuUsage()
      const cpu = () => {
        const { user, system } = process.cpuUsage(start)
        return (user + system) / JOBS_PER_ROUND
      }
      const jobs = Array.from({ length: JOBS_PER_ROUND }, () => newJob(Date.now()))
      for (let i = 0; i < jobs.length; i += 64) {
        await Promise.all(jobs.slice(i, i + 64).map((job) => ledger.insert(job, Date.now())))
      }
      const pushUs = cpu()
      for (let i = 0; i < jobs.length; i += 64) {
        const part = jobs.slice(i, i + 64)
        const terms = {
          workerId: 'w',
          leaseMs: null,
          defaultLeaseMs: 30_000,
          now: Date.now(),
          wall: Date.now(),
        }
        const messages = part.map(({ id }) => ({
          id,
          generation: 0,
          attempt: 1,
          isHeldDelivery: false,
          adopt: known,
        }))
        await Promise.all(messages.map((message) => ledger.claim([message], terms)))
        const end = { now: Date.now(), result: null }
        await Promise.all(part.map(({ id }) => ledger.complete(id, {}, end)))
      }
      if (round > 0) {
        push.push(pushUs)
        life.push(cpu())
      }
    }
  }
  for (const { name, ledger, push, life } of ledgers) {
    console.log(
      `${name} the indexes: PUSH ${quantile(push, 0.5).toFixed(1)} µs of CPU in the ledger, ` +
        `PUSH+FETCH+ACK ${quantile(life, 0.5).toFixed(1)} µs (medians of ${ROUNDS} rounds)`,
    )
    await ledger.close()
  }
}

await measureCost()
await measureSearches()
