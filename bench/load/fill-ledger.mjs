import { serve } from '../child.mjs'
import { ARGS, JOB_TYPE } from './requests.mjs'

const PAGE = 1000
const QUEUES = 10
/** One job in so many is scheduled for a time that no benchmark reaches; the others are completed. */
const WAITING_ONE_IN = 10

const SILENT = { debug() {}, info() {}, warn() {}, error() {} }
const TERMS = { workerId: 'bench-worker', leaseMs: null, defaultLeaseMs: 30_000 }

serve({ fill })

/** @returns {never} */
const known = () => {
  throw new Error('the ledger knows every job')
}

/**
 * Writes a ledger as a gateway leaves it after `count` jobs, with the ledger code of the measured build.
 * @param {{ modules: string, path: string, count: number }} load
 */
async function fill({ modules, path, count }) {
  const { openSqliteLedger } = await import(new URL('./ledger/sqlite/open.js', modules).href)
  const { toNewJob } = await import(new URL('./job/envelope.js', modules).href)
  const { uuid7 } = await import(new URL('./uuid.js', modules).href)
  const ledger = await openSqliteLedger({ path, sync: 'normal', logger: SILENT })
  for (let made = 0; made < count; made += PAGE) {
    const now = Date.now()
    const context = { newId: uuid7, now, wall: now, timeoutMs: 30_000, prefix: '' }
    const jobs = Array.from({ length: PAGE }, (_, i) => toNewJob(request(made + i), context))
    await work(ledger, jobs, now)
  }
  await ledger.close()
  return {}
}

/** @param {number} number */
function request(number) {
  const isWaiting = number % WAITING_ONE_IN === 0
  const delay = isWaiting ? { delay_until: '2099-01-01T00:00:00Z' } : {}
  return { type: JOB_TYPE, args: ARGS, options: { queue: `old.${number % QUEUES}`, ...delay } }
}

/**
 * @param {import('../../dist/ledger/ledger.js').Ledger} ledger
 * @param {import('../../dist/job/job.js').NewJob[]} jobs
 * @param {number} now
 */
async function work(ledger, jobs, now) {
  const inserted = await ledger.insertAll(jobs, now)
  const stored = inserted.outcome === 'inserted' ? inserted.stored : []
  const owed = jobs.flatMap(({ id }, i) => {
    const one = stored[i]
    return one?.outcome === 'inserted' && one.outbox !== null ? [{ ...one, id }] : []
  })
  for (const { outbox } of owed) ledger.confirmed(outbox ?? 0)
  const messages = owed.map(({ id, generation }) => {
    return { id, generation, attempt: 1, isHeldDelivery: false, adopt: known }
  })
  await ledger.claim(messages, { ...TERMS, now, wall: now })
  await Promise.all(
    owed.map(({ id }) => ledger.complete(id, { attempt: 1 }, { now: now + 5, result: null })),
  )
  for (const { id, generation } of owed) ledger.messageReturned(id, generation)
}
