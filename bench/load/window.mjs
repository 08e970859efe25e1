import { setTimeout as sleep } from 'node:timers/promises'
import { Meter } from '../meter.mjs'

/** Connections open, buffers fill and the first checkpoints come before the clock starts. */
export const RAMP_MS = 1000

/**
 * The measured part of a round whose load runs already: after the ramp, `seconds` long.
 * `begin()` is called at its start; a `fault` ends it early, and so does `ended`: the load is used up.
 */
export async function measuredWindow({ seconds, watch, begin, fault, ended, rampMs = RAMP_MS }) {
  const early = ended ? [fault, ended] : [fault]
  await Promise.race([sleep(rampMs), ...early])
  begin()
  const meter = new Meter(watch)
  await Promise.race([sleep(1000 * seconds), ...early])
  return meter.stop()
}

/** A promise that only ever rejects, and the function that makes it do so. */
export function faultLine() {
  let fail
  const fault = new Promise((_, reject) => {
    fail = reject
  })
  fault.catch(() => {})
  return { fault, fail }
}
