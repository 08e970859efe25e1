import { setTimeout as sleep } from 'node:timers/promises'
import { serve } from '../child.mjs'
import { Meter } from '../meter.mjs'
import { quantile } from '../statistics.mjs'
import { complainTo } from './complaints.mjs'
import { fill } from './fill.mjs'
import { HttpConnection } from './http-connection.mjs'
import { completedIn } from './metrics.mjs'
import { getRequest, JOB_TYPE, numberedPush, pushRequest } from './requests.mjs'
import { countedWindow, faultLine, sampledWindow } from './window.mjs'

const POLL_MS = 10
/** No report may take so long, whatever else the machine does. */
const COMPLETION_TIMEOUT_MS = 300_000
const VERIFY_PIPELINE = 100

/**
 * The ids of the jobs that were posted last.
 * @type {string[]}
 */
let posted = []

serve({ post, work, untilCompleted, verify, latency, pace })

/** @param {{ url: string, queue: string, count: number }} load */
async function post({ url, queue, count }) {
  posted = []
  const onCreated = (/** @type {string} */ body) => {
    for (const { id } of JSON.parse(body).jobs) posted.push(id)
  }
  await fill({ url, queue, count, onCreated })
}

/**
 * Runs the native worker with an empty handler on a queue with `jobs` in it. The clock runs from the first
 * delivery until every job reads `completed` over HTTP; with `isAlone`, when there is no gateway, until every
 * job is reported, confirmed and acknowledged.
 * @param {{ native: import('../stage.mjs').Native, url: string, queue: string, concurrency: number, jobs: number, isAlone: boolean | undefined, watch: import('../meter.mjs').Watched }} load
 */
async function work({ native, url, queue, concurrency, jobs, isAlone, watch }) {
  const { fault, fail } = faultLine()
  let handled = 0
  /** @type {Meter | undefined} */
  let meter
  let onHandled = () => {}
  /** @type {Promise<void>} */
  const allHandled = new Promise((resolve) => {
    onHandled = resolve
  })
  const worker = await workerOf(native, { queue, concurrency, fail }, () => {
    meter ??= new Meter(watch)
    handled += 1
    if (handled === jobs) onHandled()
  })
  await worker.start()
  await Promise.race([allHandled, fault])
  if (isAlone) await Promise.race([untilIdle(worker), fault])
  else await Promise.race([untilCompleted({ url, queue, jobs }), fault])
  const usage = (meter ?? new Meter(watch)).stop()
  await worker.stop()
  if (handled !== jobs) throw new Error(`${jobs} jobs, but ${handled} executions`)
  return { rate: jobs / usage.seconds, ...usage }
}

/**
 * @param {{ module: string, amqp: string, queueType: string }} load
 * @param {{ queue: string, concurrency: number, fail: (error: unknown) => void }} load
 * @param {(given: { args: readonly unknown[] }) => void} handler
 */
async function workerOf({ module, amqp, queueType }, { queue, concurrency, fail }, handler) {
  const { NativeWorker } = await import(module)
  const logger = complainTo(fail)
  const given = { url: amqp, queueType, logger, handleSignals: false }
  return new NativeWorker({ ...given, queues: [queue], concurrency }).register(JOB_TYPE, handler)
}

/** @param {{ activeJobs: number }} worker */
async function untilIdle(worker) {
  while (worker.activeJobs > 0) await sleep(1)
}

/**
 * Asks for the counts of the ledger, not for each job: 60,000 requests would be a load of their own.
 * @param {{ url: string, queue: string, jobs: number }} load
 */
async function untilCompleted({ url, queue, jobs }) {
  const connection = await HttpConnection.open(url)
  const deadline = Date.now() + COMPLETION_TIMEOUT_MS
  for (;;) {
    const completed = await completedIn(connection, url, queue)
    if (completed >= jobs) break
    if (Date.now() > deadline) throw new Error(`${completed} of ${jobs} jobs read completed`)
    await sleep(POLL_MS)
  }
  connection.close()
}

/**
 * Checks each posted job over HTTP, after the clock has stopped.
 * @param {{ url: string }} load
 */
async function verify({ url }) {
  const connection = await HttpConnection.open(url)
  for (let from = 0; from < posted.length; from += VERIFY_PIPELINE) {
    const ids = posted.slice(from, from + VERIFY_PIPELINE)
    const answers = await connection.pipeline(
      ids.map((id) => getRequest(url, `/ojs/v1/jobs/${id}`)),
    )
    for (const { status, body } of answers) {
      if (status === 200 && JSON.parse(body).job.state === 'completed') continue
      throw new Error(`a job that was worked off reads ${status}: ${body}`)
    }
  }
  connection.close()
}

/**
 * A waiting native worker, and one PUSH over HTTP while all is idle. Measures the time from just before the
 * PUSH is written to the first line of the handler. A pause precedes each sample.
 * @param {{ native: import('../stage.mjs').Native, url: string, queue: string, pauseMs: number, seconds: number, watch: import('../meter.mjs').Watched }} load
 */
async function latency({ native, url, queue, pauseMs, seconds, watch }) {
  const line = faultLine()
  /** @type {(at: number) => void} */
  let started
  const worker = await workerOf(native, { queue, concurrency: 1, fail: line.fail }, () => {
    started(performance.now())
  })
  await worker.start()
  const producer = await HttpConnection.open(url)
  const push = pushRequest(url, queue)
  const sample = async () => {
    await sleep(pauseMs)
    const starting = new Promise((resolve) => {
      started = resolve
    })
    const startedAt = performance.now()
    const { status, body } = await producer.request(push)
    if (status !== 201) throw new Error(`PUSH answered ${status}: ${body}`)
    const ms = (await starting) - startedAt
    await untilIdle(worker)
    return ms
  }
  const measured = await sampledWindow({ seconds, watch, sample, line })
  producer.close()
  await worker.stop()
  return measured
}

/** Jobs that are pushed and not yet handled; producers without a pace wait at so many. */
const MAX_BACKLOG = 1024

/**
 * PUSH over `connections` connections and a native worker at once. Without `rate` as fast as both can: the rate of
 * handled jobs. With it so many jobs are due a second, whatever has become of those before, and the times are those
 * from the moment when a job was due to the first line of its handler.
 * @param {{ native: import('../stage.mjs').Native, url: string, queue: string, connections: number, concurrency: number, rate: number | undefined, seconds: number, watch: import('../meter.mjs').Watched }} load
 */
async function pace({ native, url, queue, connections, concurrency, rate, seconds, watch }) {
  const { fault, fail } = faultLine()
  const state = new Pace()
  const worker = await workerOf(native, { queue, concurrency, fail }, ({ args }) => {
    state.handled += 1
    const number = Number(args.at(-1))
    state.samples.push(performance.now() - state.due.get(number))
    state.due.delete(number)
  })
  await worker.start()
  const pool = await Promise.all(
    Array.from({ length: connections }, () => HttpConnection.open(url)),
  )
  const interval = rate === undefined ? undefined : (1000 * connections) / rate
  const finished = Promise.all(
    pool.map((connection, index) => {
      const next = numberedPush(url, queue, { first: index * PER_CONNECTION })
      return pushOn({ connection, next, number: index * PER_CONNECTION, interval, state })
    }),
  )
  finished.catch(fail)
  const begin = () => {
    state.samples = []
  }
  const measured = await countedWindow({
    done: () => state.handled,
    begin,
    seconds,
    watch,
    fault,
  })
  const { samples } = state
  state.isOver = true
  await finished
  await Promise.race([untilHandled(state), fault])
  await untilIdle(worker)
  for (const connection of pool) connection.close()
  await worker.stop()
  return { ...measured, p50: quantile(samples, 0.5), p99: quantile(samples, 0.99) }
}

class Pace {
  pushed = 0
  handled = 0
  isOver = false
  /** When each job was due, by its number, until it is handled. */
  due = new Map()
  /** @type {number[]} */
  samples = []
}

const PER_CONNECTION = 1_000_000

/**
 * The due times of the connections are spread over the interval.
 * @param {{ connection: import('../load/http-connection.mjs').HttpConnection, next: () => Buffer, number: number, interval: number | undefined, state: Pace }} load
 */
async function pushOn({ connection, next, number, interval, state }) {
  let dueAt = performance.now() + Math.random() * (interval ?? 0)
  for (let each = number + 1; !state.isOver; each++) {
    if (interval === undefined) {
      while (state.pushed - state.handled >= MAX_BACKLOG && !state.isOver) await sleep(1)
      dueAt = performance.now()
    } else if (dueAt > performance.now()) await sleep(dueAt - performance.now())
    state.due.set(each, dueAt)
    const { status, body } = await connection.request(next())
    if (status !== 201) throw new Error(`PUSH answered ${status}: ${body}`)
    state.pushed += 1
    dueAt += interval ?? 0
  }
}

/** @param {Pace} state */
async function untilHandled(state) {
  while (state.handled < state.pushed) await sleep(1)
}
