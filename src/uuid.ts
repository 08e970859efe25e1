import { randomFillSync } from 'node:crypto'
import { v7 } from 'uuid'

const pool = Buffer.alloc(4_096)
let used = pool.length

const MAX_SEQUENCE = 0xffff_ffff

let lastMs = 0
let sequence = 0

/**
 * A UUIDv7, lower case (RFC 9562 §6.2, method 1): in order of creation within this process, also
 * within a millisecond and when the clock goes back. An index takes such ids at its end. The library
 * counts likewise, but only with its own source of randomness, at six times the cost.
 */
export function uuid7(): string {
  const now = Date.now()
  if (now > lastMs) {
    lastMs = now
    sequence = randomStart()
  } else if (sequence === MAX_SEQUENCE) {
    lastMs += 1
    sequence = randomStart()
  } else sequence += 1
  return v7({ msecs: lastMs, seq: sequence, rng: randomBytes16 })
}

/** In the lower half of the numbers, so that there is room to count up within the millisecond. */
function randomStart(): number {
  return randomBytes16().readUInt32BE() >>> 1
}

/** One call of the system for 256 ids: asking for 16 bytes at a time costs four times the id. */
function randomBytes16(): Buffer {
  if (used === pool.length) {
    randomFillSync(pool)
    used = 0
  }
  used += 16
  return pool.subarray(used - 16, used)
}
