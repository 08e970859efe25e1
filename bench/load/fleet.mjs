import { setTimeout as sleep } from 'node:timers/promises'
import { serve } from '../child.mjs'
import { Meter } from '../meter.mjs'
import { complainTo } from './complaints.mjs'
import { HttpConnection } from './http-connection.mjs'
import { controlMessages } from './metrics.mjs'
import { batchRequest, cancelRequest, JOB_TYPE } from './requests.mjs'
import { faultLine } from './window.mjs'

/** The interval between two jobs of a worker. */
const PACE_MS = 1000
const HEARTBEAT_MS = 5000
const HOLD_TIMEOUT_MS = 60_000
const CANCEL_TIMEOUT_MS = 30_000

/** @type {{ start(): Promise<void>, stop(): Promise<void> }[]} */
let workers = []
/**
 * The job that runs until it is cancelled, in as many workers as have a copy of its message.
 * @type {{ id: string, count: number, cancelledAt: number[] }}
 */
let held = { id: '', count: 0, cancelledAt: [] }
let line = faultLine()

serve({ open, flow, cancel, close })

/**
 * Starts `size` workers, each with its own connections and one job at a time; resolves when all consume.
 * @param {{ native: import('../stage.mjs').Native, queue: string, size: number, heldId: string }} load
 */
async function open({ native, queue, size, heldId }) {
  const { NativeWorker } = await import(native.module)
  line = faultLine()
  held = { id: heldId, count: 0, cancelledAt: [] }
  workers = Array.from({ length: size }, () => {
    const given = { url: native.amqp, queueType: native.queueType, handleSignals: false }
    const own = { queues: [queue], concurrency: 1, heartbeatInterval: HEARTBEAT_MS }
    const worker = new NativeWorker({ ...given, ...own, logger: complainTo(line.fail) })
    return worker.register(
      JOB_TYPE,
      (/** @type {{ job: { id: string }, signal: AbortSignal }} */ { job, signal }) =>
        job.id === held.id ? hold(signal) : undefined,
    )
  })
  // Spreads their heartbeats, like those of real workers.
  for (const worker of workers) {
    await worker.start()
    await sleep(HEARTBEAT_MS / size)
  }
}

/**
 * @param {AbortSignal} signal
 * @returns {Promise<void>}
 */
function hold(signal) {
  held.count += 1
  return new Promise((resolve) => {
    signal.addEventListener('abort', () => {
      if (signal.reason.reason === 'cancelled') held.cancelledAt.push(performance.now())
      resolve()
    })
  })
}

/**
 * Pushes one job per worker and second; counts the control messages per worker and minute.
 * @param {{ url: string, queue: string, seconds: number, watch: import('../meter.mjs').Watched }} load
 */
async function flow({ url, queue, seconds, watch }) {
  const connection = await HttpConnection.open(url)
  const push = batchRequest(url, queue, workers.length)
  const pace = async (/** @type {number} */ count) => {
    const begunAt = performance.now()
    for (let sent = 0; sent < count; sent++) {
      const { status, body } = await connection.request(push)
      if (status !== 201) throw new Error(`PUSH batch answered ${status}: ${body}`)
      await sleep(Math.max(0, begunAt + (sent + 1) * PACE_MS - performance.now()))
    }
  }
  await Promise.race([pace(HEARTBEAT_MS / PACE_MS), line.fault])
  const before = await controlMessages(connection, url)
  const meter = new Meter(watch)
  await Promise.race([pace((1000 * seconds) / PACE_MS), line.fault])
  const usage = meter.stop()
  const messages = (await controlMessages(connection, url)) - before
  connection.close()
  return { perWorker: (60 * messages) / workers.length / usage.seconds, ...usage }
}

/**
 * Cancels the job of which every worker runs a copy; resolves to the delay in each worker.
 * @param {{ url: string }} load
 */
async function cancel({ url }) {
  const size = workers.length
  await until(() => held.count === size, HOLD_TIMEOUT_MS)
  if (held.count !== size) throw new Error(`${held.count} of ${size} workers run the job`)
  const connection = await HttpConnection.open(url)
  const startedAt = performance.now()
  const { status, body } = await connection.request(cancelRequest(url, held.id))
  if (status !== 200) throw new Error(`CANCEL answered ${status}: ${body}`)
  await until(() => held.cancelledAt.length === size, CANCEL_TIMEOUT_MS)
  connection.close()
  const delays = held.cancelledAt.map((at) => at - startedAt)
  if (delays.length !== size) throw new Error(`the cancel reached ${delays.length} of ${size}`)
  return delays
}

/**
 * @param {() => boolean} isDone
 * @param {number} timeoutMs
 */
async function until(isDone, timeoutMs) {
  const deadline = performance.now() + timeoutMs
  while (!isDone() && performance.now() < deadline) {
    await Promise.race([sleep(10), line.fault])
  }
}

async function close() {
  await Promise.all(workers.map((worker) => worker.stop()))
  workers = []
}
