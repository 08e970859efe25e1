import { serve } from '../child.mjs'
import { Meter } from '../meter.mjs'
import { fill } from './fill.mjs'
import { HttpConnection } from './http-connection.mjs'
import { ackRequest, fetchRequest } from './requests.mjs'
import { countedWindow, faultLine, RAMP_MS } from './window.mjs'

const WAIT_MS = 2000

serve({ drain, circulate })

/**
 * Runs `workers` workers with one connection each: FETCH `count`, then an ACK for each job, in one write.
 * `jobs` are in the queue; the round ends early, while there are still enough for all workers.
 * @param {{ url: string, queue: string, workers: number, count: number, jobs: number, seconds: number, watch: import('../meter.mjs').Watched }} load
 */
async function drain({ url, queue, workers, count, jobs, seconds, watch }) {
  const { fault, fail } = faultLine()
  const pool = await Promise.all(
    Array.from({ length: workers }, (_, index) => openWorker(url, queue, index, count)),
  )
  const last = jobs - 2 * workers * count
  let acked = 0
  let isOver = false
  let endRound = () => {}
  /** @type {Promise<void>} */
  const ended = new Promise((resolve) => {
    endRound = resolve
  })
  const run = async (/** @type {Awaited<ReturnType<typeof openWorker>>} */ worker) => {
    while (!isOver) {
      // Not `acked += await …`, which reads `acked` before the await and would drop what the other workers
      // add meanwhile.
      const jobsDone = await fetchAndAck(worker)
      acked += jobsDone
      if (acked >= last) endRound()
    }
  }
  const finished = Promise.all(pool.map(run))
  finished.catch(fail)
  const round = await countedWindow({ done: () => acked, seconds, watch, fault, ended })
  isOver = true
  await finished
  for (const { connection } of pool) connection.close()
  return round
}

/**
 * Runs one worker. Again and again `segment` jobs are pushed and as many worked off, so that the queue is as
 * deep at the end as before. The rate counts only the time of working off; the CPU is that of both.
 * @param {{ url: string, queue: string, padding: string | undefined, segment: number, count: number, seconds: number, watch: import('../meter.mjs').Watched }} load
 */
async function circulate({ url, queue, padding, segment, count, seconds, watch }) {
  const worker = await openWorker(url, queue, 0, count)
  const workOff = async (/** @type {number} */ ms) => {
    const sum = { jobs: 0, ms: 0 }
    while (sum.ms < ms) {
      await fill({ url, queue, padding, count: segment })
      const startedAt = performance.now()
      sum.jobs += await fetchAndAckMany(worker, segment)
      sum.ms += performance.now() - startedAt
    }
    return sum
  }
  await workOff(RAMP_MS)
  const meter = new Meter(watch)
  const { jobs, ms } = await workOff(1000 * seconds)
  const usage = meter.stop()
  worker.connection.close()
  return { rate: (1000 * jobs) / ms, ...usage }
}

/**
 * @param {Awaited<ReturnType<typeof openWorker>>} worker
 * @param {number} atLeast
 */
async function fetchAndAckMany(worker, atLeast) {
  let acked = 0
  while (acked < atLeast) {
    const jobs = await fetchAndAck(worker)
    if (jobs === 0) throw new Error(`${atLeast} jobs were pushed, but only ${acked} came back`)
    acked += jobs
  }
  return acked
}

/**
 * @param {string} url
 * @param {string} queue
 * @param {number} index
 * @param {number} count
 */
async function openWorker(url, queue, index, count) {
  const fetch = fetchRequest(url, queue, `bench-worker-${index}`, WAIT_MS, count)
  return { connection: await HttpConnection.open(url), url, fetch }
}

/**
 * Resolves to the number of jobs.
 * @param {{ connection: import('../load/http-connection.mjs').HttpConnection, url: string, fetch: Buffer }} load
 */
async function fetchAndAck({ connection, url, fetch }) {
  const fetched = await connection.request(fetch)
  if (fetched.status !== 200) throw new Error(`FETCH answered ${fetched.status}: ${fetched.body}`)
  const { jobs } = JSON.parse(fetched.body)
  if (jobs.length === 0) return 0
  const answers = await connection.pipeline(
    jobs.map((/** @type {{ id: string }} */ { id }) => ackRequest(url, id)),
  )
  for (const { status, body } of answers) {
    if (status !== 200) throw new Error(`ACK answered ${status}: ${body}`)
  }
  return jobs.length
}
