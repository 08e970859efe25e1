import { setTimeout as sleep } from 'node:timers/promises'
import { checkArrived, jobsFor, PAUSE_MS } from './measures.mjs'
import { alternate } from './rounds.mjs'

/**
 * @typedef {import('./stage.mjs').Stage} Stage
 * @typedef {import('./rounds.mjs').Plan} Plan
 */

/** The concurrency of the native worker, and the prefetch of the ceiling. */
const CONCURRENCY = 200
const IN_FLIGHT = [1000, 64]
const POLL_MS = 20

/**
 * With a gateway that applies the reports; the clock stops when every job reads `completed`.
 * @param {Stage} stage
 * @param {Plan} plan
 */
export async function measureNative(stage, plan) {
  const ceiling = await consumedCeiling(stage)
  return { kind: 'rate', ...(await alternate(plan, { ceiling, gateway: working(stage) })) }
}

/** @param {Stage} stage */
export function working(stage) {
  return async (/** @type {number} */ seconds) => {
    const load = await postedJobs(stage, seconds)
    const round = await stage.amqp.worker.call('work', { ...load, watch: stage.watch })
    await stage.amqp.worker.call('verify', load)
    return round
  }
}

/**
 * Without a gateway, and then how long a gateway that comes back needs to know everything.
 * @param {Stage} stage
 * @param {Plan} plan
 */
export async function measureAlone(stage, plan) {
  const ceiling = await consumedCeiling(stage)
  const gateway = async (/** @type {number} */ seconds) => {
    const load = await postedJobs(stage, seconds)
    await stage.stopGateway()
    const alone = { ...load, isAlone: true, watch: stage.watch }
    const round = await stage.amqp.worker.call('work', alone)
    return { ...round, ...(await comeBack(stage, load)) }
  }
  const { title, profile } = plan
  const rounds = await alternate(plan, { ceiling, gateway })
  const note =
    `${title}: every job read completed over HTTP ` +
    `${Math.max(...rounds.gateway.map(({ knownS }) => knownS)).toFixed(1)} s at most after the ` +
    'start of the gateway.'
  return [
    { title, wanted: '', sides: ALONE, result: { kind: 'rate', note, ...rounds } },
    {
      title: `Control queue empty, ${profile}`,
      wanted: '≤ 30 s',
      result: { kind: 'recovery', gateway: rounds.gateway.map(recoveryOf) },
    },
  ]
}

/**
 * Without the CPU, which, like the rest of the round, is the worker's.
 * @param {{ emptyS: number }} given
 */
function recoveryOf({ emptyS }) {
  const round = /** @type {unknown} */ ({ emptyS, cpu: {} })
  return /** @type {import('./rounds.mjs').Round} */ (round)
}

const ALONE = { ceiling: 'raw amqplib', gateway: 'worker alone' }

/**
 * Starts the gateway and returns seconds since the start of its process.
 * @param {import('./stage.mjs').Stage} stage
 * @param {{ queue: string } & object} given
 */
async function comeBack(stage, { queue, ...load }) {
  const startedAt = performance.now()
  const elapsed = () => (performance.now() - startedAt) / 1000
  await stage.startGateway()
  while ((await stage.controlDepth(queue)) > 0) await sleep(POLL_MS)
  const emptyS = elapsed()
  const there = { ...load, queue, url: stage.url }
  await stage.amqp.worker.call('untilCompleted', there)
  const knownS = elapsed()
  await stage.amqp.worker.call('verify', there)
  return { emptyS, knownS }
}

/**
 * The ceiling: as many messages of the same size, consumed and acknowledged by bare amqplib.
 * @param {Stage} stage
 */
async function consumedCeiling(stage) {
  const queue = await stage.newQueue()
  await stage.sample(queue)
  return async (/** @type {number} */ seconds) => {
    const jobs = jobsFor(seconds)
    await stage.raw.call('fill', { count: jobs })
    const load = { brokerQueue: stage.brokerQueue(queue), jobs, prefetch: CONCURRENCY }
    return stage.raw.call('consume', { ...load, watch: stage.watch })
  }
}

/**
 * Creates a queue that holds only the jobs that it posts over HTTP.
 * @param {Stage} stage
 * @param {number} seconds
 */
async function postedJobs(stage, seconds) {
  const jobs = jobsFor(seconds)
  const queue = await stage.newQueue()
  await stage.purge(queue)
  const { url } = stage
  await stage.amqp.worker.call('post', { url, queue, count: jobs })
  return { native: stage.native, url, queue, jobs, concurrency: CONCURRENCY }
}

/**
 * One row for each number of calls in flight. The ceiling publishes the producer's own message.
 * @param {import('./stage.mjs').Stage} stage
 * @param {import('./rounds.mjs').Plan} plan
 */
export async function measureProducer(stage, plan) {
  const rows = []
  for (const inFlight of IN_FLIGHT) {
    const title = `${plan.title}, ${inFlight} in flight`
    const result = await compareProducer(stage, { ...plan, title }, inFlight)
    rows.push({ title, wanted: plan.wanted, result })
  }
  return rows
}

/**
 * @param {import('./stage.mjs').Stage} stage
 * @param {import('./rounds.mjs').Plan} plan
 * @param {number} inFlight
 */
async function compareProducer(stage, plan, inFlight) {
  const ceilingQueue = await stage.newQueue()
  await stage.purge(ceilingQueue)
  await stage.amqp.producer.call('produceOne', { native: stage.native, queue: ceilingQueue })
  const jobMessage = await stage.sample(ceilingQueue)
  const ceiling = async (/** @type {number} */ seconds) => {
    const round = await stage.raw.call('publish', { inFlight, seconds, watch: stage.watch })
    checkArrived(await stage.purge(ceilingQueue), round.created)
    return round
  }
  const gateway = async (/** @type {number} */ seconds) => {
    const queue = await stage.newQueue()
    const load = { queue, inFlight, seconds, watch: stage.watch }
    const round = await stage.amqp.producer.call('produce', load)
    checkArrived(await stage.purge(queue), round.created)
    return round
  }
  return { kind: 'rate', jobMessage, ...(await alternate(plan, { ceiling, gateway })) }
}

/**
 * @param {import('./stage.mjs').Stage} stage
 * @param {import('./rounds.mjs').Plan} plan
 */
export async function measureStartLatency(stage, plan) {
  const ceilingQueue = await stage.newQueue()
  await stage.sample(ceilingQueue)
  const queue = await stage.newQueue()
  await stage.purge(queue)
  const brokerQueue = stage.brokerQueue(ceilingQueue)
  const common = { pauseMs: PAUSE_MS, watch: stage.watch }
  const load = { ...common, native: stage.native, url: stage.url, queue }
  const rounds = await alternate(plan, {
    ceiling: (seconds) => stage.raw.call('latency', { ...common, brokerQueue, seconds }),
    gateway: (seconds) => stage.amqp.worker.call('latency', { ...load, seconds }),
  })
  return { kind: 'latency', ...rounds }
}

/** Connections of the producers, and the concurrency of the worker. */
const PACED = { connections: 64, concurrency: CONCURRENCY }

/**
 * The whole way of a job at half the rate that the machine was seen to reach just before: how long one waits when the
 * system is neither idle nor full.
 * @param {Stage} stage
 * @param {Plan} plan
 */
export async function measureHalfLoad(stage, plan) {
  const paced = async (/** @type {number} */ seconds, /** @type {number | undefined} */ rate) => {
    const queue = await stage.newQueue()
    await stage.purge(queue)
    const load = { ...PACED, native: stage.native, url: stage.url, queue, rate }
    return await stage.amqp.worker.call('pace', { ...load, seconds, watch: stage.watch })
  }
  /** @type {number[]} */
  const full = []
  const ceiling = async (/** @type {number} */ seconds) => {
    const round = await paced(seconds, undefined)
    full.push(round.rate)
    return round
  }
  const gateway = (/** @type {number} */ seconds) => paced(seconds, (full.at(-1) ?? 0) / 2)
  return { kind: 'rate', ...(await alternate(plan, { ceiling, gateway })) }
}
