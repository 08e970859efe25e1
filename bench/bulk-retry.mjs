// Bulk retry of dead letters while PUSH runs: jobs per second, and what it costs PUSH. Everything is real: the jobs
// were pushed, fetched and failed over HTTP, and have their copies in the dead letter queue.
//
//   npm run build && node bench/bulk-retry.mjs [--jobs 100000] [--connections 16] [--seconds 2] [--quorum]
//     [--profile DIR]

import { resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { say } from '../scripts/process/progress.mjs'
import { describeMachine } from './machine.mjs'
import { profilerTo, renderProfiles } from './profile.mjs'
import { Stage } from './stage.mjs'
import { median } from './statistics.mjs'

const { values } = parseArgs({
  options: {
    jobs: { type: 'string', default: '100000' },
    connections: { type: 'string', default: '16' },
    seconds: { type: 'string', default: '2' },
    quorum: { type: 'boolean', default: false },
    profile: { type: 'string' },
  },
})
const JOBS = Math.ceil(Number(values.jobs) / 100) * 100
const CONNECTIONS = Number(values.connections)
const SECONDS = Number(values.seconds)
/** Rounds of PUSH alone: half before the retry, half after it. */
const ALONE = 6
const WORKERS = 8
const COUNT = 100
const QUEUE = 'dead'
const ERROR = { code: 'bench', message: 'failed on purpose', retryable: false }
const TYPE = 'application/openjobspec+json'

const profile = values.quorum ? 'quorum' : 'classic'
const dir = values.profile
const nodeArgs = profilerTo(dir)

const stage = new Stage(profile, 'bulk')
try {
  await stage.openBuilt({ nodeArgs })
  await measure()
} finally {
  await stage.close()
}
if (dir) console.log(`\n${renderProfiles(resolve(dir), [{ title: 'PUSH beside bulk retry' }])}`)

async function measure() {
  await bury()
  // Not restarted for the measurement, but warm: what came before is over.
  await pushRound()
  const alone = await pushRounds(ALONE / 2)
  say(`retrying ${JOBS} dead letters`)
  const { operation, beside, publishedMs } = await retryBesidePush()
  alone.push(...(await pushRounds(ALONE / 2)))
  report(operation, alone, beside)
  console.log(`all in RabbitMQ after ${(publishedMs / 1000).toFixed(1)} s`)
}

/** Makes dead letters, as fast as workers can fail jobs. */
async function bury() {
  say(`making ${JOBS} dead letters`)
  await stage.http.push.call('fill', { url: stage.url, queue: QUEUE, count: JOBS })
  let left = JOBS
  const work = async (/** @type {unknown} */ _, /** @type {number} */ i) => {
    const worker = { worker_id: `w-${i}` }
    while (left > 0) {
      const { jobs } = await ask('POST', '/workers/fetch', {
        ...{ ...worker, queues: [QUEUE], count: COUNT, wait_ms: 500 },
      })
      if (jobs.length === 0) continue
      left -= jobs.length
      const items = jobs.map((/** @type {{ id: string }} */ { id }) => ({
        action: 'nack',
        job_id: id,
        error: ERROR,
      }))
      await ask('POST', '/workers/settle', { ...worker, items })
    }
  }
  await Promise.all(Array.from({ length: WORKERS }, work))
  const { total } = await ask('GET', '/dead-letter/stats')
  if (total !== JOBS) throw new Error(`${total} of ${JOBS} jobs are dead letters`)
}

/** PUSH goes on in rounds; those that the operation outlived are returned. */
async function retryBesidePush() {
  const begun = await ask('POST', '/dead-letter/retry', {
    ...{ filter: { queue: QUEUE }, confirm: true, async: true },
  })
  const beside = []
  for (;;) {
    const round = await pushRound()
    const operation = await ask('GET', `/admin/operations/${begun.id}`)
    if (operation.state === 'running') beside.push(round)
    else return { operation, beside, publishedMs: await untilPublished(operation) }
  }
}

/**
 * The relay has published what the operation owed.
 * @param {{ created_at: string }} given
 */
async function untilPublished({ created_at: createdAt }) {
  while ((await stage.depth(QUEUE)) < JOBS) await sleep(100)
  return Date.now() - Date.parse(createdAt)
}

/** @param {number} count */
async function pushRounds(count) {
  const rounds = []
  for (let i = 0; i < count; i++) rounds.push(await pushRound())
  return rounds
}

async function pushRound() {
  const queue = await stage.newQueue()
  const load = { url: stage.url, queue, connections: CONNECTIONS, jobsPerRequest: 1 }
  const round = await stage.http.push.call('push', {
    ...load,
    seconds: SECONDS,
    watch: stage.watch,
  })
  await stage.purge(queue)
  return round
}

/**
 * @param {{ succeeded: number, failed: number, created_at: string, ended_at: string }} given
 * @param {import('./rounds.mjs').Round[]} alone
 * @param {import('./rounds.mjs').Round[]} beside
 */
function report({ succeeded, failed, created_at: from, ended_at: to }, alone, beside) {
  const seconds = (Date.parse(to) - Date.parse(from)) / 1000
  console.log(`${describeMachine()}, RabbitMQ ${stage.brokerVersion}, ${profile}`)
  console.log(`${succeeded} retried, ${failed} not, in ${seconds.toFixed(1)} s`)
  console.log(`retried per second: ${Math.round(succeeded / seconds)} (wanted: 3,000)`)
  console.log('PUSH | rounds | per second | p50 ms | p99 ms | gateway CPU %')
  console.log('---|--:|--:|--:|--:|--:')
  row('alone', alone)
  row('beside the retry', beside)
  if (beside.length === 0) return console.log('No round fits into the retry: ask for more jobs.')
  const ratio = middle(beside, 'p99') / middle(alone, 'p99')
  console.log(`p99 ratio: ${ratio.toFixed(2)} (wanted: below 2)`)
}

/**
 * @param {string} name
 * @param {import('./rounds.mjs').Round[]} rounds
 */
function row(name, rounds) {
  if (rounds.length === 0) return
  const cpu = median(rounds.map((round) => round.cpu.gateway))
  const numbers = [Math.round(middle(rounds, 'rate')), middle(rounds, 'p50').toFixed(1)]
  numbers.push(middle(rounds, 'p99').toFixed(1), Math.round(cpu))
  console.log([name, rounds.length, ...numbers].join(' | '))
}

/**
 * @param {import('./rounds.mjs').Round[]} rounds
 * @param {'rate' | 'p50' | 'p99'} name
 */
function middle(rounds, name) {
  return median(rounds.map((round) => round[name]))
}

/**
 * @returns {Promise<any>}
 * @param {string} method
 * @param {string} path
 * @param {object} [body]
 */
async function ask(method, path, body) {
  const response = await fetch(`${stage.url}/ojs/v1${path}`, {
    method,
    ...(body && { body: JSON.stringify(body), headers: { 'Content-Type': TYPE } }),
  })
  const answer = await response.json()
  if (!response.ok)
    throw new Error(`${method} ${path}: ${response.status} ${JSON.stringify(answer)}`)
  return answer
}
