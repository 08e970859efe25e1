import { say } from '../scripts/process/progress.mjs'
import { alternate } from './rounds.mjs'

/**
 * @typedef {import('./stage.mjs').Stage} Stage
 * @typedef {import('./rounds.mjs').Plan} Plan
 */

const COUNT = 10_000
const QUICK_COUNT = 500
const MINUTE_MS = 60_000
const QUICK_SPREAD_MS = 2_000
/** Long enough to store all jobs before the first is due. */
const LEAD_MS = 10_000
const QUICK_LEAD_MS = 2_000
const CONNECTIONS = 64

/**
 * Measures how late jobs become available, and how many can be scheduled per second.
 * @param {Stage} stage
 * @param {Plan} plan
 */
export async function measureSchedules(stage, plan) {
  const spreadMs = plan.quick ? QUICK_SPREAD_MS : MINUTE_MS
  const spread = await lateness(stage, plan, 'in one minute', spreadMs)
  const burst = await lateness(stage, plan, 'at one instant', 0)
  const rate = await alternate(plan, { gateway: (seconds) => schedule(stage, seconds) })
  const part = (
    /** @type {string} */ title,
    /** @type {string} */ wanted,
    /** @type {import('./table.mjs').Result} */ result,
  ) => ({
    title: `${title}, ${plan.profile}`,
    wanted,
    result,
  })
  const note = `Schedules, ${plan.profile}: spread ${inShort(spread)}; burst ${inShort(burst)}.`
  return [
    part('Due in one minute', 'p99 ≤ 250 ms', { kind: 'lateness', gateway: [spread] }),
    part('Due at one instant', 'max ≤ 1.5 s', { kind: 'lateness', gateway: [burst], note }),
    part('Schedules in', '', { kind: 'rate', ...rate }),
  ]
}

/**
 * @param {import('./stage.mjs').Stage} stage
 * @param {import('./rounds.mjs').Plan} plan
 * @param {string} label
 * @param {number} spreadMs
 */
async function lateness(stage, plan, label, spreadMs) {
  plan.signal.throwIfAborted()
  const queue = await stage.newQueue()
  await stage.purge(queue)
  const round = await stage.http.schedules.call('lateness', {
    url: stage.url,
    amqpUrl: stage.native.amqp,
    queue,
    brokerQueue: stage.brokerQueue(queue),
    count: plan.quick ? QUICK_COUNT : COUNT,
    leadMs: plan.quick ? QUICK_LEAD_MS : LEAD_MS,
    spreadMs,
    watch: stage.watch,
  })
  say(`  ${plan.title}, ${label}: ${inShort(round)}`)
  return round
}

/**
 * Schedules jobs with one request each. They are due tomorrow, so that nothing happens to them meanwhile.
 * @param {import('./stage.mjs').Stage} stage
 * @param {number} seconds
 */
async function schedule(stage, seconds) {
  const queue = await stage.newQueue()
  const load = { url: stage.url, queue, connections: CONNECTIONS, jobsPerRequest: 1 }
  const options = { scheduled_at: new Date(Date.now() + 86_400_000).toISOString() }
  return stage.http.push.call('push', { ...load, options, watch: stage.watch, seconds })
}

/** @param {{ p50: number, p99: number, max: number, inRate: number }} given */
function inShort({ p50, p99, max, inRate }) {
  const batched = `${Math.round(inRate)}/s in, through PUSH batch`
  return `late by p50 ${p50} ms, p99 ${p99} ms, at most ${max} ms (${batched})`
}
