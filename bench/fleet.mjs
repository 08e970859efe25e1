import { say } from '../scripts/process/progress.mjs'
import { quantile } from './statistics.mjs'

/**
 * @typedef {import('./stage.mjs').Stage} Stage
 * @typedef {import('./rounds.mjs').Plan} Plan
 */

const SIZES = [20, 100, 200]
/** A whole number of heartbeat intervals, so that the count does not depend on how heartbeats are spread. */
const SECONDS = 30
const QUICK_SECONDS = 10

/**
 * Runs fleets of native workers on one queue, each worker with connections of its own. The cost of the
 * control plane per worker must not depend on their number, and one cancel has to reach every one of them.
 * @param {Stage} stage
 * @param {Plan} plan
 */
export async function measureFleet(stage, plan) {
  const rows = []
  for (const size of SIZES) {
    plan.signal.throwIfAborted()
    const round = await measureSize(stage, size, plan.quick ? QUICK_SECONDS : SECONDS)
    say(`  ${plan.title}: ${round.perWorker.toFixed(1)} from each of ${size} workers a minute`)
    rows.push({
      title: `${size} native workers, ${plan.profile}`,
      wanted: plan.wanted,
      result: { kind: 'fleet', gateway: [round] },
    })
  }
  const note = noteOf(rows.flatMap(({ result }) => result.gateway))
  return rows.map((row, i) =>
    i === rows.length - 1 ? { ...row, result: { ...row.result, note } } : row,
  )
}

/**
 * @param {Stage} stage
 * @param {number} size
 * @param {number} seconds
 */
async function measureSize(stage, size, seconds) {
  const { fleet } = stage.amqp
  const queue = await stage.newQueue()
  const { id: heldId } = await stage.sample(queue)
  await fleet.call('open', { native: stage.native, queue, size, heldId })
  const { url, watch } = stage
  /** @type {import('./rounds.mjs').Round} */
  const round = await fleet.call('flow', { url, queue, seconds, watch })
  // Copies of one job message. No worker can take two of them, so each worker runs the job that is cancelled.
  await stage.raw.call('fill', { count: size })
  const delays = await fleet.call('cancel', { url })
  await fleet.call('close')
  return {
    ...round,
    size,
    p50: quantile(delays, 0.5),
    p99: quantile(delays, 0.99),
    lastMs: Math.max(...delays),
  }
}

/** @param {readonly Awaited<ReturnType<typeof measureSize>>[]} rounds */
function noteOf(rounds) {
  const rates = rounds.map(({ perWorker }) => perWorker)
  const apart = 100 * (Math.max(...rates) / Math.min(...rates) - 1)
  const each = rounds.map(
    ({ size, perWorker, cpu, lastMs }) =>
      `${size} workers: ${perWorker.toFixed(1)} control messages per worker and minute, gateway ` +
      `at ${cpu.gateway.toFixed(0)} % of a core, one cancel reached all ${size} in ` +
      `${lastMs.toFixed(0)} ms.`,
  )
  return [...each, `The control messages differ by ${apart.toFixed(1)} %.`].join('\n')
}
