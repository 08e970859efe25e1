// What a flood of control messages costs HTTP: latency of a light load of requests before, during and after 3,000
// heartbeats with 1,000 ids each, and 60 reports of 6.9 MB, in the control queue of another queue. Ratios of the same run.
//
//   npm run build && node bench/flood.mjs [--heartbeats 3000] [--ids 1000] [--reports 60] [--seconds 15] [--longest 60]
//     [--quorum] [--profile DIR]

import { resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { say } from '../scripts/process/progress.mjs'
import { startChild } from './child.mjs'
import { describeMachine } from './machine.mjs'
import { profilerTo, renderProfiles } from './profile.mjs'
import { Stage } from './stage.mjs'
import { quantile } from './statistics.mjs'

const { values } = parseArgs({
  options: {
    heartbeats: { type: 'string', default: '3000' },
    ids: { type: 'string', default: '1000' },
    reports: { type: 'string', default: '60' },
    seconds: { type: 'string', default: '15' },
    longest: { type: 'string', default: '60' },
    quorum: { type: 'boolean', default: false },
    profile: { type: 'string' },
  },
})
const HEARTBEATS = Number(values.heartbeats)
const IDS = Number(values.ids)
const REPORTS = Number(values.reports)
const SECONDS = Number(values.seconds)
/** With results as large as may be, a report of them has 6.9 MB. */
const EVENTS_PER_REPORT = 7
const QUEUE = 'loud'
const TYPE = 'application/openjobspec+json'
const JOBS_PER_BATCH = 500
/** The gateway spreads a flood over time: what is left of it after so long is purged. */
const LONGEST_MS = Number(values.longest) * 1000

const dir = values.profile
const nodeArgs = profilerTo(dir)

const stage = new Stage(values.quorum ? 'quorum' : 'classic', 'flood')
const light = startChild(new URL('./load/light.mjs', import.meta.url))
const flood = startChild(new URL('./load/control-flood.mjs', import.meta.url))
try {
  await stage.openBuilt({ nodeArgs })
  await measure()
} finally {
  await Promise.all([light.stop(), flood.stop()])
  await stage.close()
}
if (dir) console.log(`\n${renderProfiles(resolve(dir), [{ title: 'A flood' }])}`)

/** @typedef {{ name: string, seconds: number, left: unknown, latencies: number[], failed: number }} Row */

async function measure() {
  const jobs = await pushJobs(Math.max(IDS, REPORTS * EVENTS_PER_REPORT))
  await flood.call('open', { url: stage.native.amqp, queue: QUEUE, jobs })
  await during('warming up', () => sleep(5_000))
  const rows = [await during('before', () => sleep(SECONDS * 1000))]
  rows.push(await during(`${HEARTBEATS} heartbeats with ${IDS} ids`, beat))
  rows.push(await during('after', () => sleep(SECONDS * 1000)))
  rows.push(await during(`${REPORTS} reports of 6.9 MB`, report))
  rows.push(await during('after', () => sleep(SECONDS * 1000)))
  print(rows)
}

/**
 * Runs the light load while `work` runs.
 * @param {string} name
 * @param {() => Promise<unknown>} work
 */
async function during(name, work) {
  say(name)
  await light.call('start', { url: stage.url, queue: 'light' })
  const begun = performance.now()
  const left = await work()
  const seconds = (performance.now() - begun) / 1000
  return { name, seconds, left, ...(await light.call('stop')) }
}

async function beat() {
  await flood.call('heartbeats', { count: HEARTBEATS, size: IDS })
  return await handled()
}

async function report() {
  const { bytes } = await flood.call('reports', { count: REPORTS, events: EVENTS_PER_REPORT })
  say(`the last report had ${(bytes / 1e6).toFixed(1)} MB`)
  return await handled()
}

/** Waits for the answer to a question behind the flood. Returns how many messages nobody has taken by then. */
async function handled() {
  const isOver = { isOver: false }
  const answered = flood.call('ask').then(() => {
    isOver.isOver = true
  })
  await Promise.race([answered, sleep(LONGEST_MS)])
  if (isOver.isOver) return 0
  const left = await stage.raw.call('purge', { brokerQueue: `ojs.queue.control.${QUEUE}` })
  await sleep(5_000)
  return left
}

/** @param {number} count */
async function pushJobs(count) {
  const ids = []
  const job = { type: 'bench.loud', args: [], options: { queue: QUEUE } }
  while (ids.length < count) {
    const { jobs } = await ask('POST', '/jobs/batch', { jobs: Array(JOBS_PER_BATCH).fill(job) })
    ids.push(...jobs.map((/** @type {{ id: string }} */ { id }) => id))
  }
  return ids
}

/**
 * @param {string} method
 * @param {string} path
 * @param {object} [body]
 */
async function ask(method, path, body) {
  const init = {
    method,
    headers: { 'content-type': TYPE },
    body: body === undefined ? null : JSON.stringify(body),
  }
  const response = await fetch(`${stage.url}/ojs/v1${path}`, init)
  const answer = await response.json()
  if (!response.ok) throw new Error(`${path}: ${response.status} ${JSON.stringify(answer)}`)
  return answer
}

/**
 * The ratios are those to the calm before and after it, because other programs may use the machine too.
 * @param {readonly Row[]} rows
 */
function print(rows) {
  const calm = (/** @type {number} */ at) =>
    [rows[at - 1], rows[at + 1]].flatMap((row) => row?.latencies ?? [])
  console.log(`${describeMachine()}, RabbitMQ ${stage.brokerVersion}, ${stage.native.queueType}\n`)
  console.log('| | s | requests | p50 ms | × calm | p99 ms | × calm | most ms | refused | left |')
  console.log('|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|')
  for (const [at, row] of rows.entries()) {
    const isFlood = row.left !== undefined
    const figures = [0.5, 0.99].flatMap((share) => {
      const ms = quantile(row.latencies, share)
      return [ms.toFixed(1), isFlood ? (ms / quantile(calm(at), share)).toFixed(2) : '']
    })
    const most = Math.max(...row.latencies).toFixed(0)
    const cells = [row.name, row.seconds.toFixed(1), row.latencies.length, ...figures, most]
    console.log(`| ${[...cells, row.failed, row.left ?? ''].join(' | ')} |`)
  }
}
