import { setTimeout as sleep } from 'node:timers/promises'
import { say } from '../scripts/process/progress.mjs'
import { DISTURBED_PERCENT, quietMachine } from './meter.mjs'

/**
 * What a round has measured; each kind of row has some of these.
 *
 * @typedef {object} Round
 * @property {Record<'load' | 'gateway' | 'broker' | 'others', number> & { ledger?: number }} cpu in percent of one core
 * @property {number} rate per second
 * @property {number} p50 in ms, as those below
 * @property {number} p99
 * @property {number} max
 * @property {number} emptyS
 * @property {number} knownS
 * @property {number} perWorker
 * @property {number} rssMb
 * @property {{ from: number, to: number }} window in µs of the clock that all processes share
 * @property {number} created
 * @property {number} inRate
 * @property {Record<string, number>} [other] how many answers had another status
 *
 * @typedef {'rate' | 'p50' | 'p99'} Figure
 */

/**
 * What a row is measured with: the options of the command line, and the row's own members.
 *
 * @typedef {object} Plan
 * @property {string} title
 * @property {string} profile
 * @property {string} wanted
 * @property {number} rounds
 * @property {number} seconds
 * @property {boolean} quick
 * @property {boolean} patient
 * @property {AbortSignal} signal
 * @property {Record<import('./table.mjs').Side, string> | undefined} [sides] what the sides are called, if not ceiling and gateway
 */

/** After a purge, so that late writes of the broker and the ledger do not burden the next round. */
const SETTLE_MS = 1000
/** With `--patient`: a machine that is never quiet must not keep the benchmark running for ever. */
const MAX_TRIES = 20

/**
 * Runs one warm-up round of each side, then the sides in turns: ceiling, gateway, ceiling, gateway … Returns
 * all rounds but the warm-up.
 * @template {string} Side
 * @param {Plan} plan
 * @param {Record<Side, (seconds: number) => Promise<Round>>} sides
 * @returns {Promise<Record<Side, Round[]>>}
 */
export async function alternate(plan, sides) {
  const names = /** @type {Side[]} */ (Object.keys(sides))
  const results = /** @type {Record<Side, Round[]>} */ ({})
  /** @type {Partial<Record<string, string>>} */
  const called = plan.sides ?? {}
  for (const side of names) {
    results[side] = []
    await measureRound(
      { ...plan, seconds: Math.min(plan.seconds, 5) },
      `warm-up, ${called[side] ?? side}`,
      sides[side],
    )
  }
  for (let round = 1; round <= plan.rounds; round++) {
    for (const side of names) {
      results[side].push(
        await undisturbedRound(plan, `round ${round}, ${called[side] ?? side}`, sides[side]),
      )
    }
  }
  return results
}

/**
 * Without `--patient` returns the first try, however disturbed it was.
 * @param {import('./rounds.mjs').Plan} plan
 * @param {string} label
 * @param {(seconds: number) => Promise<Round>} run
 */
async function undisturbedRound(plan, label, run) {
  for (let tries = 1; ; tries++) {
    if (plan.patient) await quietMachine(plan.signal)
    const result = await measureRound(plan, label, run)
    const isDisturbed = plan.patient && result.cpu.others > DISTURBED_PERCENT
    if (!isDisturbed || tries === MAX_TRIES) return result
    say('  disturbed; once more')
  }
}

/**
 * @param {{ title: string, seconds: number, signal: AbortSignal }} given
 * @param {string} label
 * @param {(seconds: number) => Promise<Round>} run
 */
async function measureRound({ title, seconds, signal }, label, run) {
  signal.throwIfAborted()
  const result = await run(seconds)
  say(`  ${title}, ${label}: ${inShort(result)}`)
  await sleep(SETTLE_MS)
  return result
}

/** @param {{ rate: number, p50: number, p99: number, emptyS: number }} given */
function inShort({ rate, p50, p99, emptyS }) {
  const after = emptyS === undefined ? '' : `, control queue empty after ${emptyS.toFixed(1)} s`
  if (rate !== undefined) return `${Math.round(rate)} per second${after}`
  return `p50 ${p50.toFixed(2)} ms, p99 ${p99.toFixed(2)} ms`
}
