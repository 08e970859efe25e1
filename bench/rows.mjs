import { setTimeout as sleep } from 'node:timers/promises'
import { say } from '../scripts/progress.mjs'
import { DISTURBED_PERCENT, quietMachine } from './meter.mjs'

const CONNECTIONS = 64
/** Between two jobs of the latency rows: everything is idle again, timers and disk included. */
const PAUSE_MS = 20
/** After a purge: the broker's and the ledger's late writes do not burden the next round. */
const SETTLE_MS = 1000
/** With `--patient`: a machine that never rests must not keep the benchmark for ever. */
const MAX_TRIES = 20

export const PROFILES = ['classic', 'quorum']

/**
 * In the order of the table. `measure(stage, plan)` answers the lines of the row; `wanted` is the
 * aim of the project for a machine with two cores, printed beside the figure and never asserted.
 */
export const ROWS = PROFILES.flatMap((profile) => [
  {
    name: `push-${profile}`,
    title: `PUSH, ${profile}`,
    profile,
    wanted: profile === 'classic' ? 'ratio ≥ 0.60' : 'ratio ≥ 0.40',
    measure: measurePush,
  },
  {
    name: `latency-${profile}`,
    title: `PUSH→FETCH, idle, ${profile}`,
    profile,
    wanted: 'p50 ≤ 5 ms',
    measure: measureLatency,
  },
  {
    name: `flow-${profile}`,
    title: `PUSH+FETCH+ACK, ${profile}`,
    profile,
    wanted: '',
    measure: measureFlow,
  },
])

/** The ceiling keeps one queue and empties it after each round; the gateway gets a new one. */
async function measurePush(stage, plan) {
  const ceilingQueue = await stage.newQueue()
  const token = await stage.sample(ceilingQueue)
  const ceiling = async (seconds) => {
    const load = { inFlight: CONNECTIONS, seconds, watch: stage.watch }
    const round = await stage.raw.call('publish', load)
    checkArrived(await stage.purge(ceilingQueue), round.created)
    return round
  }
  const gateway = async (seconds) => {
    const queue = await stage.newQueue()
    const load = { url: stage.url, queue, connections: CONNECTIONS, seconds, watch: stage.watch }
    const round = await stage.http.push.call('push', load)
    checkArrived(await stage.purge(queue), round.created)
    return round
  }
  const rounds = await alternate(plan, { ceiling, gateway })
  return { kind: 'rate', token, ...rounds }
}

async function measureLatency(stage, plan) {
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

async function measureFlow(stage, plan) {
  const gateway = async (seconds) => {
    const queue = await stage.newQueue()
    const load = { url: stage.url, queue, connections: CONNECTIONS, seconds, watch: stage.watch }
    return stage.http.flow.call('flow', load)
  }
  return { kind: 'rate', ...(await alternate(plan, { gateway })) }
}

/** One warm-up round of each side, then ceiling, gateway, ceiling, gateway …; every round kept. */
async function alternate(plan, sides) {
  const results = Object.fromEntries(Object.keys(sides).map((side) => [side, []]))
  for (const [side, run] of Object.entries(sides)) {
    await measureRound({ ...plan, seconds: Math.min(plan.seconds, 5) }, `warm-up, ${side}`, run)
  }
  for (let round = 1; round <= plan.rounds; round++) {
    for (const [side, run] of Object.entries(sides)) {
      results[side].push(await undisturbedRound(plan, `round ${round}, ${side}`, run))
    }
  }
  return results
}

/** Without `--patient` the first try, whatever happened on the machine meanwhile. */
async function undisturbedRound(plan, label, run) {
  for (let tries = 1; ; tries++) {
    if (plan.patient) await quietMachine(plan.signal)
    const result = await measureRound(plan, label, run)
    const isDisturbed = plan.patient && result.cpu.others > DISTURBED_PERCENT
    if (!isDisturbed || tries === MAX_TRIES) return result
    say('  disturbed; once more')
  }
}

async function measureRound({ title, seconds, signal }, label, run) {
  signal.throwIfAborted()
  const result = await run(seconds)
  say(`  ${title}, ${label}: ${inShort(result)}`)
  await sleep(SETTLE_MS)
  return result
}

function inShort({ rate, p50, p99 }) {
  if (rate !== undefined) return `${Math.round(rate)} per second`
  return `p50 ${p50.toFixed(2)} ms, p99 ${p99.toFixed(2)} ms`
}

/** A rate is worth nothing if what was confirmed is not there. */
function checkArrived(found, confirmed) {
  if (found >= confirmed) return
  throw new Error(`${confirmed} were confirmed, but only ${found} messages are in the queue`)
}
