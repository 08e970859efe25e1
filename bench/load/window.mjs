import { setTimeout as sleep } from 'node:timers/promises'
import { Meter } from '../meter.mjs'
import { quantile } from '../statistics.mjs'

/**
 * @typedef {object} Window
 * @property {number} seconds
 * @property {import('../meter.mjs').Watched} watch
 * @property {() => void} [begin]
 * @property {Promise<never>} fault
 * @property {Promise<unknown>} [ended]
 * @property {number} [rampMs]
 */

/** Before the clock starts, connections open, buffers fill and the first checkpoints happen. */
export const RAMP_MS = 1000

/**
 * Measures a part of a round whose load is running already: after the ramp, for `seconds`. Calls `begin()` at
 * its start. A `fault` ends it early, and so does `ended`, which means that the load is used up.
 * @param {Window} window
 */
async function measuredWindow({ seconds, watch, begin, fault, ended, rampMs = RAMP_MS }) {
  const early = ended ? [fault, ended] : [fault]
  await Promise.race([sleep(rampMs), ...early])
  begin?.()
  const meter = new Meter(watch)
  await Promise.race([sleep(1000 * seconds), ...early])
  return meter.stop()
}

/**
 * As `measuredWindow`, and also returns the rate of what `done()` counts.
 * @param {Window & { done: () => number }} window
 */
export async function countedWindow({ done, begin, ...window }) {
  let before = 0
  const start = () => {
    before = done()
    begin?.()
  }
  const usage = await measuredWindow({ ...window, begin: start })
  return { rate: (done() - before) / usage.seconds, ...usage }
}

/**
 * Takes one sample after the other; `sample()` resolves to milliseconds. Returns p50 and p99 of the measured
 * part. The first sample that rejects ends it, and so does a fault on the caller's `line`.
 * @param {Pick<Window, 'seconds' | 'watch'> & { sample: () => Promise<number>, line?: ReturnType<typeof faultLine> }} options
 */
export async function sampledWindow({ seconds, watch, sample, line = faultLine() }) {
  /** @type {number[]} */
  let samples = []
  let isOver = false
  const loop = async () => {
    while (!isOver) samples.push(await sample())
  }
  const finished = loop()
  finished.catch(line.fail)
  const begin = () => {
    samples = []
  }
  const usage = await measuredWindow({ seconds, watch, begin, fault: line.fault })
  isOver = true
  await finished
  return { p50: quantile(samples, 0.5), p99: quantile(samples, 0.99), ...usage }
}

/**
 * A promise that can only reject, and the function that rejects it.
 * @returns {{ fault: Promise<never>, fail: (error: unknown) => void }}
 */
export function faultLine() {
  /** @type {(error: unknown) => void} */
  let fail = () => {}
  /** @type {Promise<never>} */
  const fault = new Promise((_, reject) => {
    fail = reject
  })
  fault.catch(() => {})
  return { fault, fail }
}
