/** The load process of one system in `npm run bench:peers`: producer and worker, and what they count. */
import { setTimeout as sleep } from 'node:timers/promises'
import { serve } from '../child.mjs'

const IN_FLIGHT = 64
const BULK = 100
const BULKS_IN_FLIGHT = 10
const CONCURRENCY = 50
/** Whole life: producers wait while so many jobs are not handled yet. */
const MOST_WAITING = 1_024
const PATIENCE_MS = 60_000

/**
 * @typedef {object} System
 * @property {() => Promise<unknown>} enqueue
 * @property {(count: number) => Promise<unknown>} enqueueMany
 * @property {(concurrency: number, onJob: () => void) => Promise<() => unknown>} work returns what stops it
 * @property {() => unknown} close
 */

/** @type {System} */
let system
let onJob = () => {}

serve({
  async open({ file, how }) {
    const { open } = await import(file)
    system = await open(how)
  },
  enqueue: ({ seconds }) => enqueueFor(seconds, IN_FLIGHT, 1, () => system.enqueue()),
  bulk: ({ seconds }) => enqueueFor(seconds, BULKS_IN_FLIGHT, BULK, () => system.enqueueMany(BULK)),
  async fill({ jobs }) {
    for (let i = 0; i < jobs; i += BULK) await system.enqueueMany(BULK)
    return { count: jobs }
  },
  process: ({ jobs }) => handle(jobs),
  life,
  latency,
  close: () => system.close(),
})

/**
 * Jobs that were confirmed within the time.
 * @param {number} seconds
 * @param {number} inFlight
 * @param {number} each
 * @param {() => Promise<unknown>} enqueue
 */
async function enqueueFor(seconds, inFlight, each, enqueue) {
  const endsAt = performance.now() + seconds * 1_000
  const startedAt = performance.now()
  let count = 0
  const loop = async () => {
    while (performance.now() < endsAt) {
      await enqueue()
      count += each
    }
  }
  await Promise.all(Array.from({ length: inFlight }, loop))
  return { count, seconds: (performance.now() - startedAt) / 1_000 }
}

/**
 * From the first job to the last: some workers need seconds to start.
 * @param {number} jobs
 */
async function handle(jobs) {
  let count = 0
  let startedAt = 0
  const all = new Promise((resolve) => {
    onJob = () => {
      if (count === 0) startedAt = performance.now()
      count += 1
      if (count === jobs) resolve(undefined)
    }
  })
  const stop = await system.work(CONCURRENCY, () => onJob())
  const timeout = AbortSignal.timeout(PATIENCE_MS)
  const late = new Promise((_, reject) => {
    timeout.addEventListener('abort', () => reject(new Error(`${count} of ${jobs} jobs`)))
  })
  await Promise.race([all, late])
  const seconds = (performance.now() - startedAt) / 1_000
  await stop()
  return { count, seconds }
}

/**
 * Enqueue and handle at the same time; handled jobs count.
 * @param {{ seconds: number }} given
 */
async function life({ seconds }) {
  let handled = 0
  let enqueued = 0
  onJob = () => {
    handled += 1
  }
  const stop = await system.work(CONCURRENCY, () => onJob())
  const startedAt = performance.now()
  const endsAt = startedAt + seconds * 1_000
  const loop = async () => {
    while (performance.now() < endsAt) {
      if (enqueued - handled >= MOST_WAITING) await sleep(1)
      else {
        enqueued += 1
        await system.enqueue()
      }
    }
  }
  await Promise.all(Array.from({ length: IN_FLIGHT }, loop))
  const count = handled
  const took = (performance.now() - startedAt) / 1_000
  const until = performance.now() + PATIENCE_MS
  while (handled < enqueued && performance.now() < until) await sleep(5)
  await stop()
  if (handled < enqueued) throw new Error(`${enqueued - handled} jobs were lost`)
  return { count, seconds: took }
}

/**
 * From just before a job is enqueued to the first line of its handler. `perSecond`: jobs are enqueued at this
 * rate, and those of a FIFO queue are matched in order; without it one at a time, 20 ms apart.
 * @param {{ seconds: number, perSecond: number | undefined }} given
 */
async function latency({ seconds, perSecond }) {
  /** @type {number[]} */
  const startedAt = []
  /** @type {number[]} */
  const took = []
  onJob = () => took.push(performance.now() - (startedAt[took.length] ?? Number.NaN))
  const stop = await system.work(CONCURRENCY, () => onJob())
  await sleep(500)
  const began = performance.now()
  const endsAt = began + seconds * 1_000
  const sending = []
  let open = 0
  const send = async () => {
    open += 1
    await system.enqueue()
    open -= 1
  }
  while (performance.now() < endsAt) {
    const due = perSecond ? ((performance.now() - began) / 1_000) * perSecond : startedAt.length + 1
    while (startedAt.length < due && open < IN_FLIGHT) {
      startedAt.push(performance.now())
      sending.push(send())
    }
    if (perSecond) await sleep(1)
    else {
      while (took.length < startedAt.length) await sleep(1)
      await sleep(20)
    }
  }
  await Promise.all(sending)
  const until = performance.now() + PATIENCE_MS
  while (took.length < startedAt.length && performance.now() < until) await sleep(5)
  await stop()
  took.sort((a, b) => a - b)
  const at = (/** @type {number} */ part) =>
    took[Math.min(took.length - 1, Math.floor(took.length * part))]
  return { count: took.length, seconds, p50: at(0.5), p99: at(0.99) }
}
