import { setTimeout as sleep } from 'node:timers/promises'
import { serve } from '../child.mjs'
import { Meter } from '../meter.mjs'
import { complainTo } from './complaints.mjs'
import { fill } from './fill.mjs'
import { HttpConnection } from './http-connection.mjs'
import { completedIn } from './metrics.mjs'
import { getRequest, JOB_TYPE, pushRequest } from './requests.mjs'
import { faultLine, sampledWindow } from './window.mjs'

const POLL_MS = 10
/** No report may take so long, whatever else the machine does. */
const COMPLETION_TIMEOUT_MS = 300_000
const VERIFY_PIPELINE = 100

/** The ids of the jobs that were posted last. */
let posted = []

serve({ post, work, untilCompleted, verify, latency })

async function post({ url, queue, count }) {
  posted = []
  const onCreated = (body) => {
    for (const { id } of JSON.parse(body).jobs) posted.push(id)
  }
  await fill({ url, queue, count, onCreated })
}

/**
 * Runs the native worker with an empty handler on a queue with `jobs` in it. The clock runs from the first
 * delivery until every job reads `completed` over HTTP; with `isAlone`, when there is no gateway, until every
 * job is reported, confirmed and acknowledged.
 */
async function work({ native, url, queue, concurrency, jobs, isAlone, watch }) {
  const { fault, fail } = faultLine()
  let handled = 0
  let meter
  let onHandled
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
  const usage = meter.stop()
  await worker.stop()
  if (handled !== jobs) throw new Error(`${jobs} jobs, but ${handled} executions`)
  return { rate: jobs / usage.seconds, ...usage }
}

async function workerOf({ module, amqp, queueType }, { queue, concurrency, fail }, handler) {
  const { NativeWorker } = await import(module)
  const logger = complainTo(fail)
  const given = { url: amqp, queueType, logger, handleSignals: false }
  return new NativeWorker({ ...given, queues: [queue], concurrency }).register(JOB_TYPE, handler)
}

async function untilIdle(worker) {
  while (worker.activeJobs > 0) await sleep(1)
}

/** Asks for the counts of the ledger, not for each job: 60,000 requests would be a load of their own. */
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

/** Checks each posted job over HTTP, after the clock has stopped. */
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
 */
async function latency({ native, url, queue, pauseMs, seconds, watch }) {
  const line = faultLine()
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
