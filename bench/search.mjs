// How long each search of a console (a page with its number) takes in a ledger of a million jobs while PUSH runs, whether
// its p99 is within 50 ms, how long it holds the event loop, and what its indexes cost a job. No broker, no HTTP: the
// ledger alone, in this process. On PostgreSQL in a schema of its own, which is dropped, and without the cost of indexes.
//
//   npm run build && node bench/search.mjs [--rows 1000000] [--searches 100] [--rounds 5] [--ledger postgres://…]

import { mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { parseArgs } from 'node:util'
import { ANY_JOB } from '../dist/job/search/filter.js'
import { readAddress } from '../dist/ledger/postgres/address.js'
import { connectWritable } from '../dist/ledger/postgres/connection.js'
import { migrate } from '../dist/ledger/postgres/migrations.js'
import { openPostgresLedger } from '../dist/ledger/postgres/open.js'
import { schemaOf } from '../dist/ledger/postgres/schema.js'
import { SqliteLedger } from '../dist/ledger/sqlite/ledger.js'
import { openLedgerFile } from '../dist/ledger/sqlite/open.js'
import { searchJobs } from '../dist/operations/search/search.js'

const { values } = parseArgs({
  options: {
    rows: { type: 'string', default: '1000000' },
    searches: { type: 'string', default: '100' },
    rounds: { type: 'string', default: '5' },
    ledger: { type: 'string' },
  },
})
const ROWS = Number(values.rows)
const SEARCHES = Number(values.searches)
const ROUNDS = Number(values.rounds)
const PUSHES_IN_FLIGHT = 16
const WANTED_MS = 50
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

/**
 * The same for PostgreSQL.
 * @param {string} schema
 */
const fillOf = (schema) => [
  `INSERT INTO ${schema}.jobs (id, generation, state, attempt, queue, type, priority, max_attempts, timeout_ms,
     message_out, created_at, enqueued_at, started_at, completed_at, discarded_at, ended_at, is_dead_letter,
     dead_letter_copied, due_at, worker_id, history, error_code)
   SELECT '0197a1c2-77d0-7aa1-9d55-' || lpad(i::text, 12, '0'), 0, state, CASE WHEN draw < 900 THEN 1 ELSE 0 END,
     'queue.' || i % 10, 'type.' || i % 4 || '.' || i % 3, i % 5, 3, 30000, false, at, at, at,
     CASE state WHEN 'completed' THEN at + 50 END, CASE state WHEN 'discarded' THEN at + 50 END,
     CASE WHEN state IN ('completed', 'discarded') THEN at + 50 END, state = 'discarded', false,
     CASE WHEN state IN ('scheduled', 'retryable') THEN at + 90000000 END, 'worker-' || i % 50, '',
     CASE WHEN draw >= 950 THEN 'code-' || i % 7 ELSE '' END
   FROM (SELECT i, i * 7919 % 1000 AS draw, ${Date.now()} - 86400000 + i * 80 AS at
     FROM generate_series(0, ${ROWS - 1}::bigint) AS i) AS n
   CROSS JOIN LATERAL (SELECT CASE WHEN draw < 900 THEN 'completed' WHEN draw < 950 THEN 'available'
     WHEN draw < 970 THEN 'discarded' WHEN draw < 990 THEN 'scheduled' ELSE 'retryable' END AS state) AS s`,
  `INSERT INTO ${schema}.job_bodies (id, carry, error, envelope)
   SELECT id, CASE WHEN i % 100 = 0 THEN '{"tags":["urgent"]}' END,
     CASE WHEN error_code <> '' THEN '{"code":"' || error_code || '","type":"Type' || i % 7 || '","message":"m"}' END,
     '{"specversion":"1.0","type":"t","args":[{"customer":"c-' || i % 5000 || '"}],"meta":{"tenant":"t' ||
       i % 300 || '"},"padding":"' || repeat('x', 200) || '"}'
   FROM (SELECT id, error_code, right(id, 12)::bigint AS i FROM ${schema}.jobs) AS made`,
  `INSERT INTO ${schema}.queues (name, created_at) SELECT DISTINCT queue, 0::bigint FROM ${schema}.jobs`,
  `INSERT INTO ${schema}.state_counts SELECT 5, queue, state, count(*) FROM ${schema}.jobs GROUP BY 2, 3
   UNION ALL SELECT 5, queue, 'dead_letter', count(*) FROM ${schema}.jobs WHERE is_dead_letter GROUP BY 2`,
  `VACUUM ANALYZE ${schema}.jobs, ${schema}.job_bodies`,
]

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
  ['error type', { text: { ...texts, errorType: 'Type3' } }],
  ['error pattern that none has', { text: { ...texts, errorPattern: 'nothing' } }],
  ['priority', { priority: 3 }],
  ['priority that none has', { priority: 99 }],
  ['not held', { isHeld: false, states: ['available'] }],
  ['cron entry', { cron: 'none' }],
  ['ids', { ids: [1, 2, 3].map((i) => `0197a1c2-77d0-7aa1-9d55-${String(i).padStart(12, '0')}`) }],
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
const NOBODY = { requestId: 'bench' }
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
 * @param {import('../dist/ledger/ledger.js').Ledger} ledger
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

/** @param {number} before */
function tellRows(before) {
  console.log(`${ROWS} rows written in ${Math.round((performance.now() - before) / 1000)} s`)
}

async function fullFile() {
  const db = await openFile('full.db')
  const before = performance.now()
  db.exec('BEGIN')
  db.exec(FILL)
  db.exec('COMMIT')
  tellRows(before)
  return { ledger: new SqliteLedger(db, /** @type {any} */ (logger)), drop: async () => {} }
}

/** @param {string} url */
async function fullSchema(url) {
  /** @type {string[]} */
  const mistakes = []
  const address = readAddress(url, mistakes)
  if (address === null) throw new Error(mistakes.join())
  const prefix = `bench${process.pid}`
  const schema = schemaOf(prefix)
  const admin = await connectWritable(address, { connectMs: 5_000, answerMs: 0 })
  /** @param {string} text */
  const run = async (text) => {
    const [result] = await admin.ask([{ text }])
    if (result?.status !== 'fulfilled') throw result?.reason
  }
  const drop = async () => {
    await run(`DROP SCHEMA ${schema} CASCADE`)
    await admin.close()
  }
  await migrate(admin, schema)
  const before = performance.now()
  for (const text of fillOf(schema)) await run(text)
  tellRows(before)
  const options = { address, prefix, logger: /** @type {any} */ (logger) }
  return { ledger: await openPostgresLedger(options), drop }
}

async function measureSearches() {
  const { ledger, drop } = await (values.ledger === undefined
    ? fullFile()
    : fullSchema(values.ledger))
  console.log(
    `search | p50 ms | p99 ms | p99 ≤ ${WANTED_MS} ms | searched | PUSH p99 ms | longest turn ms`,
  )
  console.log('---|--:|--:|---|--:|--:|--:')
  /** @type {string[]} */
  const late = []
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
    /** @type {number | null} */
    let searched = null
    const filter = { ...ANY_JOB, ...given }
    for (let i = 0; given !== null && i < SEARCHES; i++) {
      const start = performance.now()
      const asked = /** @type {any} */ ({ ...PAGE, ...page })
      const found = await searchJobs({ ledger }, filter, asked, NOBODY)
      pages.push(performance.now() - start)
      searched = found.searched
    }
    if (given === null) await new Promise((resolve) => setTimeout(resolve, 2_000))
    delay.disable()
    isOver = true
    await Promise.all(load)
    const [p50, p99, push] = [quantile(pages, 0.5), quantile(pages, 0.99), quantile(pushes, 0.99)]
    if (p99 > WANTED_MS) late.push(name)
    const turn = (delay.max / 1e6).toFixed(1)
    const verdict = given === null ? '' : p99 <= WANTED_MS ? 'yes' : 'NO'
    const cells = [
      p50.toFixed(1),
      p99.toFixed(1),
      verdict,
      searched ?? 'all',
      push.toFixed(1),
      turn,
    ]
    console.log([name, ...cells].join(' | '))
  }
  const start = performance.now()
  await ledger.read.search.oldest(
    ledger.known.queues().map(({ name }) => name),
    Date.now(),
    Date.now(),
  )
  console.log(`the oldest job of each queue: ${(performance.now() - start).toFixed(1)} ms`)
  console.log(
    late.length === 0
      ? `every search keeps ${WANTED_MS} ms`
      : `over ${WANTED_MS} ms: ${late.join(', ')}`,
  )
  await ledger.close()
  await drop()
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

if (values.ledger === undefined) await measureCost()
await measureSearches()
