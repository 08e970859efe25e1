// What each part of the ledger's record of a job costs a job's life: the index of the search, the history, the
// statistics. Each is taken away in turns, in the same process. No broker, no HTTP: CPU time, not clock time.
//
//   npm run build && node bench/cost.mjs [--jobs 5000] [--rounds 9]

import { mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { SqliteLedger } from '../dist/ledger/sqlite/ledger.js'
import { openLedgerFile } from '../dist/ledger/sqlite/open.js'
import { TrafficNotes } from '../dist/ledger/writes/traffic.js'
import { median } from './statistics.mjs'

const { values } = parseArgs({
  options: {
    jobs: { type: 'string', default: '5000' },
    rounds: { type: 'string', default: '9' },
    queues: { type: 'string', default: '10' },
    types: { type: 'string', default: '3' },
  },
})
const JOBS = Number(values.jobs)
const ROUNDS = Number(values.rounds)
const QUEUES = Number(values.queues)
const TYPES = Number(values.types)
const GROUP = 64

const silent = () => {}
const logger = { debug: silent, info: silent, warn: console.warn, error: console.error }
const dir = mkdtempSync(join(process.env['TMPDIR'] ?? '/tmp', 'ojs-cost-'))
process.on('exit', () => rmSync(dir, { recursive: true, force: true }))

/**
 * @typedef {import('../dist/job/job.js').NewJob} NewJob
 * @typedef {Record<'push' | 'claim' | 'ack', number[]>} Costs
 * @typedef {{ name: string, ledger: SqliteLedger, costs: Costs }} Life
 */

/** @returns {never} */
const known = () => {
  throw new Error('the ledger knows every job')
}

/** The methods of `TrafficNotes` of a job's life, and what stands for them in a ledger without. */
const NOTES = /** @type {const} */ (['enqueued', 'began', 'completed'])
const noted = NOTES.map((name) => ({ name, own: TrafficNotes.prototype[name] }))
/** @param {boolean} isOn */
function countTraffic(isOn) {
  for (const { name, own } of noted) {
    Object.assign(TrafficNotes.prototype, { [name]: isOn ? own : silent })
  }
}

/** `history = iif(…) || line` in an UPDATE, without what it appends. The line's parameter stays in use. */
const APPENDED =
  /history = iif\(octet_length\(history\) < \d+, history, .*? \|\| (\?\d+)(?=[\s,])/gs

/** Other indexes than `jobs_search`: what a search with another plan would cost. */
const LATE = 'abs(enqueued_at - created_at) > 1000'
/** @type {Record<string, string>} */
const INSTEAD = {
  'without index': '',
  'index without state': 'CREATE INDEX a ON jobs (queue, type, created_at)',
  'index with state of the ended': `
    CREATE INDEX a ON jobs (queue, type, ${LATE}, created_at) WHERE ended_at IS NULL;
    CREATE INDEX b ON jobs (queue, state, type, created_at) WHERE ended_at IS NOT NULL`,
}

/** @param {string} name */
async function openLedger(name) {
  const db = await openLedgerFile({
    path: join(dir, `${name}.db`),
    sync: 'normal',
    logger: /** @type {any} */ (logger),
  })
  let cut = 0
  const withoutHistory = {
    ...db,
    /** @param {string} sql */
    prepare: (sql) =>
      db.prepare(
        sql.replaceAll(APPENDED, (_, line) => {
          cut += 1
          return `history = iif(${line} IS NULL, '', '')`
        }),
      ),
  }
  const given = name === 'without history' ? withoutHistory : db
  const ledger = new SqliteLedger(/** @type {any} */ (given), /** @type {any} */ (logger))
  if (name === 'without history' && cut < 2) throw new Error(`only ${cut} statements were cut`)
  // After the statements are prepared, which name it; they are prepared anew and fail only if they run.
  const instead = INSTEAD[name]
  if (instead !== undefined) db.exec(`DROP INDEX jobs_search; ${instead}`)
  return { name, ledger, costs: { push: [], claim: [], ack: [] } }
}

let made = 0
/** @returns {NewJob} */
function newJob() {
  made += 1
  const id = `0197a1c3-77d0-7aa1-9d55-${String(made).padStart(12, '0')}`
  const envelope = JSON.stringify({ specversion: '1.0', id, args: ['x'.repeat(200)] })
  return {
    ...{
      id,
      type: `type.1.${made % TYPES}`,
      queue: `queue.${made % QUEUES}`,
      priority: 0,
      maxAttempts: 3,
    },
    ...{ visibilityTimeoutMs: null, timeoutMs: 30_000, expiresAt: null, createdAt: Date.now() },
    ...{ envelope, carry: null, start: { state: 'available' }, unique: null },
  }
}

/**
 * µs of CPU per job of `act`, called for each job, in groups.
 * @param {readonly NewJob[]} jobs
 * @param {(job: NewJob) => Promise<unknown>} act
 */
async function costOf(jobs, act) {
  const start = process.cpuUsage()
  for (let i = 0; i < jobs.length; i += GROUP) {
    await Promise.all(jobs.slice(i, i + GROUP).map(act))
  }
  const { user, system } = process.cpuUsage(start)
  return (user + system) / jobs.length
}

/** @param {Life} life */
async function live({ name, ledger, costs }) {
  countTraffic(name !== 'without statistics')
  const terms = { workerId: 'worker-7', leaseMs: null, defaultLeaseMs: 30_000 }
  const jobs = Array.from({ length: JOBS }, newJob)
  const cause = { requestId: 'req_0197a1c377d07aa19d55', principal: 'key' }
  costs.push.push(await costOf(jobs, (job) => ledger.insert(job, Date.now(), { cause })))
  costs.claim.push(
    await costOf(jobs, ({ id }) => {
      const message = { id, generation: 0, attempt: 1, isHeldDelivery: false, adopt: known }
      return ledger.claim([message], { ...terms, now: Date.now(), wall: Date.now() })
    }),
  )
  costs.ack.push(
    await costOf(jobs, ({ id }) => ledger.complete(id, {}, { now: Date.now(), result: null })),
  )
}

const names = ['whole', ...Object.keys(INSTEAD), 'without history', 'without statistics']
/** @type {Life[]} */
const ledgers = []
for (const name of names) ledgers.push(await openLedger(name))
for (let round = 0; round <= ROUNDS; round++) {
  // Each begins a round once, so that none always runs after the same one.
  const first = round % ledgers.length
  for (const one of [...ledgers.slice(first), ...ledgers.slice(0, first)]) await live(one)
  if (round === 0)
    for (const { costs } of ledgers) for (const list of Object.values(costs)) list.length = 0
}
console.log(`µs of CPU per job, medians of ${ROUNDS} rounds of ${JOBS} jobs`)
console.log('ledger | PUSH | claim | ack | life | ratio of lives to the whole, in the same round')
console.log('---|--:|--:|--:|--:|--:')
/** @param {Costs | undefined} costs */
const livesOf = (costs) =>
  (costs?.push ?? []).map((push, i) => push + (costs?.claim[i] ?? 0) + (costs?.ack[i] ?? 0))
const whole = livesOf(ledgers[0]?.costs)
for (const { name, ledger, costs } of ledgers) {
  const lives = livesOf(costs)
  const ratios = lives.map((life, i) => life / (whole[i] ?? Number.NaN))
  const cells = [costs.push, costs.claim, costs.ack, lives].map((list) => median(list).toFixed(1))
  console.log([name, ...cells, median(ratios).toFixed(3)].join(' | '))
  await ledger.close()
}
