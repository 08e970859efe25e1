import { alternate } from './rounds.mjs'

/**
 * @typedef {import('./stage.mjs').Stage} Stage
 * @typedef {import('./rounds.mjs').Plan} Plan
 */

const CONNECTIONS = 64
/** Pause between two jobs of the latency rows, so that everything is idle again, timers and disk included. */
export const PAUSE_MS = 20
const ONE_BY_ONE = { connections: CONNECTIONS, jobsPerRequest: 1 }
const BATCH = { connections: 10, jobsPerRequest: 100 }
const DRAIN = { workers: 16, count: 10 }
const WORKER = { concurrency: 50 }
/** Jobs per second of a round with a filled queue. A faster side ends its round when they are used up. */
const DRAIN_JOBS_PER_SECOND = 6000

const CHAIN_LENGTH = 10
/** The same for workflow steps, each of which becomes available only when the previous one is completed. */
const STEPS_PER_SECOND = 4000

/**
 * @param {Stage} stage
 * @param {Plan} plan
 */
export function measurePush(stage, plan) {
  return comparePush(stage, plan)
}

/**
 * As many jobs in flight as the ceiling has unconfirmed messages: 1,000.
 * @param {Stage} stage
 * @param {Plan} plan
 */
export function measureBatch(stage, plan) {
  return comparePush(stage, plan, BATCH)
}

/**
 * All jobs differ, with the policy and without: this measures the price of the policy, not of conflicts.
 * @param {Stage} stage
 * @param {Plan} plan
 */
export async function measureUnique(stage, plan) {
  const side =
    (/** @type {object | undefined} */ unique) => async (/** @type {number} */ seconds) => {
      const queue = await stage.newQueue()
      const load = { url: stage.url, queue, unique, connections: CONNECTIONS, watch: stage.watch }
      const round = await stage.http.push.call('pushNumbered', { ...load, seconds })
      checkArrived(await stage.purge(queue), round.created)
      return round
    }
  const rounds = await alternate(plan, {
    ceiling: side(undefined),
    gateway: side({ period: 'PT1H' }),
  })
  return { kind: 'rate', ...rounds }
}

/**
 * The ceiling keeps one queue, which is emptied after each round; the gateway gets a new one each time.
 * @param {Stage} stage
 * @param {Plan} plan
 */
async function comparePush(stage, plan, load = ONE_BY_ONE) {
  const ceilingQueue = await stage.newQueue()
  const jobMessage = await stage.sample(ceilingQueue)
  const inFlight = load.connections * load.jobsPerRequest
  const ceiling = publishing(stage, ceilingQueue, inFlight)
  const rounds = await alternate(plan, { ceiling, gateway: pushing(stage, load) })
  return { kind: 'rate', jobMessage, ...rounds }
}

/**
 * The message that was sampled last.
 * @param {Stage} stage
 * @param {string} ceilingQueue
 * @param {number} inFlight
 */
export function publishing(stage, ceilingQueue, inFlight = CONNECTIONS) {
  return async (/** @type {number} */ seconds) => {
    const round = await stage.raw.call('publish', { inFlight, seconds, watch: stage.watch })
    checkArrived(await stage.purge(ceilingQueue), round.created)
    return round
  }
}

/** @param {Stage} stage */
export function pushing(stage, load = ONE_BY_ONE) {
  return async (/** @type {number} */ seconds) => {
    const queue = await stage.newQueue()
    const given = { ...load, url: stage.url, queue, watch: stage.watch }
    const round = await stage.http.push.call('push', { ...given, seconds })
    checkArrived(await stage.purge(queue), round.created)
    return round
  }
}

/**
 * @param {Stage} stage
 * @param {Plan} plan
 */
export async function measureLatency(stage, plan) {
  const ceilingQueue = await stage.newQueue()
  await stage.sample(ceilingQueue)
  const queue = await stage.newQueue()
  await stage.http.latency.call('takeOne', { url: stage.url, queue })
  const common = { pauseMs: PAUSE_MS, watch: stage.watch }
  const brokerQueue = stage.brokerQueue(ceilingQueue)
  const rounds = await alternate(plan, {
    ceiling: (seconds) => stage.raw.call('latency', { ...common, brokerQueue, seconds }),
    gateway: (seconds) =>
      stage.http.latency.call('latency', { ...common, url: stage.url, queue, seconds }),
  })
  return { kind: 'latency', ...rounds }
}

/**
 * @param {Stage} stage
 * @param {Plan} plan
 */
export async function measureFlow(stage, plan) {
  const gateway = async (/** @type {number} */ seconds) => {
    const queue = await stage.newQueue()
    const load = { url: stage.url, queue, connections: CONNECTIONS, seconds, watch: stage.watch }
    return stage.http.flow.call('flow', load)
  }
  return { kind: 'rate', ...(await alternate(plan, { gateway })) }
}

/**
 * Without producers: the queue of each round is filled before it.
 * @param {Stage} stage
 * @param {Plan} plan
 */
export async function measureDrain(stage, plan) {
  const ceilingQueue = await stage.newQueue()
  await stage.sample(ceilingQueue)
  const ceiling = async (/** @type {number} */ seconds) => {
    const jobs = jobsFor(seconds)
    await stage.raw.call('fill', { count: jobs })
    const brokerQueue = stage.brokerQueue(ceilingQueue)
    const load = { brokerQueue, jobs, prefetch: DRAIN.workers * DRAIN.count, watch: stage.watch }
    const round = await stage.raw.call('drain', { ...load, seconds })
    await stage.purge(ceilingQueue)
    return round
  }
  return { kind: 'rate', ...(await alternate(plan, { ceiling, gateway: draining(stage) })) }
}

/** @param {Stage} stage */
export function draining(stage) {
  return async (/** @type {number} */ seconds) => {
    const jobs = jobsFor(seconds)
    const queue = await stage.newQueue()
    await stage.http.push.call('fill', { url: stage.url, queue, count: jobs })
    const load = { ...DRAIN, url: stage.url, queue, jobs, seconds, watch: stage.watch }
    const round = await stage.http.drain.call('drain', load)
    await stage.purge(queue)
    return round
  }
}

/**
 * Compares steps of chains with as many plain jobs: what it costs that a step begins when another ends.
 * @param {Stage} stage
 * @param {Plan} plan
 */
export async function measureWorkflows(stage, plan) {
  const side =
    (/** @type {'fill' | 'fillChains'} */ fill) => async (/** @type {number} */ seconds) => {
      const jobs = STEPS_PER_SECOND * (seconds + 1)
      const queue = await stage.newQueue()
      await stage.purge(queue)
      await stage.http.push.call(fill, { url: stage.url, queue, count: jobs, length: CHAIN_LENGTH })
      const load = { ...DRAIN, url: stage.url, queue, jobs, seconds, watch: stage.watch }
      const round = await stage.http.drain.call('drain', load)
      await stage.purge(queue)
      return round
    }
  const rounds = await alternate(plan, { ceiling: side('fill'), gateway: side('fillChains') })
  return { kind: 'rate', ...rounds }
}

/**
 * Measures the SDK's worker instead of bare requests: what a real program gets. Beside it the same worker with a
 * request for each ACK.
 * @param {Stage} stage
 * @param {Plan} plan
 */
export async function measureWorker(stage, plan) {
  const side = (/** @type {boolean} */ isSingle) => async (/** @type {number} */ seconds) => {
    const jobs = jobsFor(seconds)
    const queue = await stage.newQueue()
    await stage.http.push.call('fill', { url: stage.url, queue, count: jobs })
    const load = { sdk: stage.sdk, url: stage.url, queue, jobs, watch: stage.watch, isSingle }
    const round = await stage.http.worker.call('work', { ...load, ...WORKER, seconds })
    await stage.purge(queue)
    return round
  }
  return { kind: 'rate', ...(await alternate(plan, { ceiling: side(true), gateway: side(false) })) }
}

/** @param {number} seconds */
export function jobsFor(seconds) {
  return DRAIN_JOBS_PER_SECOND * (seconds + 1)
}

/**
 * Throws if messages that were confirmed are not in the queue: a rate would be worth nothing then.
 * @param {number} found
 * @param {number} confirmed
 */
export function checkArrived(found, confirmed) {
  if (found >= confirmed) return
  throw new Error(`${confirmed} were confirmed, but only ${found} messages are in the queue`)
}
