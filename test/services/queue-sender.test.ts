import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { OwedMessage } from '../../src/job/job.ts'
import { QueueSender, type RelayOutcome } from '../../src/services/queue-sender.ts'

/** Records what a line sends, and ends each send when the test says so. */
class Sends {
  readonly nonces: number[] = []
  rooms = 0
  readonly #open = new Map<number, (outcome: RelayOutcome) => void>()
  readonly line = new QueueSender('q', {
    send: (some) =>
      some.map(({ outbox }) => {
        this.nonces.push(outbox)
        return new Promise((resolve) => this.#open.set(outbox, resolve))
      }),
    onRoom: () => {
      this.rooms += 1
    },
    now: () => Date.now(),
    onStuck() {},
    onMoving() {},
  })

  get inFlight(): number {
    return this.#open.size
  }

  /** Offers these at the same moment. */
  async offer(...nonces: number[]): Promise<void> {
    for (const outbox of nonces) this.line.offer(owed(outbox))
    await Promise.resolve()
  }

  async end(outcome: RelayOutcome, ...nonces: number[]): Promise<void> {
    for (const nonce of nonces) {
      this.#open.get(nonce)?.(outcome)
      this.#open.delete(nonce)
    }
    await vi.advanceTimersByTimeAsync(0)
  }
}

function owed(outbox: number, bytes = 100): OwedMessage {
  return { id: `job-${outbox}`, queue: 'q', state: 'available', outbox, bytes }
}

function range(from: number, to: number): number[] {
  return Array.from({ length: to - from }, (_, i) => from + i)
}

let sends: Sends
beforeEach(() => {
  vi.useFakeTimers()
  sends = new Sends()
})
afterEach(() => vi.useRealTimers())

describe('a line of the relay', () => {
  it('limits the bytes in flight, but always sends at least one message', async () => {
    const sizes = [9, 9, 30, 9, 9]
    for (const [i, size] of sizes.entries()) sends.line.offer(owed(i + 1, size * 1024 * 1024))
    await Promise.resolve()
    expect(sends.nonces).toEqual([1, 2])
    await sends.end('sent', 1)
    expect(sends.nonces).toEqual([1, 2, 3])
    await sends.end('sent', 2)
    expect(sends.nonces).toEqual([1, 2, 3])
    await sends.end('sent', 3)
    expect(sends.nonces).toEqual([1, 2, 3, 4, 5])
    expect(sends.line.isIdle).toBe(false)
    await sends.end('sent', 4, 5)
    expect(sends.line.isIdle).toBe(true)
  })

  it('sends each message once in the order of the outbox, at most 256 at a time', async () => {
    await sends.offer(...range(1, 301), ...range(1, 301))
    expect(sends.nonces).toEqual(range(1, 257))
    await sends.end('sent', 200)
    expect(sends.nonces).toEqual(range(1, 258))
    await sends.end('skipped', ...range(1, 258))
    expect(sends.nonces).toEqual(range(1, 301))
    await sends.end('sent', ...range(258, 301))
    expect(sends.line.isIdle).toBe(true)
    expect(sends.rooms).toBe(0)
  })

  it('leaves messages beyond its capacity in the outbox, and takes them in order when it has room', async () => {
    await sends.offer(...range(1, 4_500))
    expect(sends.line.hasLeft).toBe(true)
    while (sends.inFlight > 0) await sends.end('sent', ...sends.nonces.slice(-256))
    expect(sends.rooms).toBeGreaterThan(0)
    expect(sends.line.hasRoom).toBe(true)
    const from = sends.line.startAgain()
    expect(from).toBe((sends.nonces.at(-1) ?? 0) + 1)
    await sends.offer(...range(from ?? 0, 4_500))
    while (sends.inFlight > 0) await sends.end('sent', ...sends.nonces.slice(-256))
    expect(sends.nonces).toEqual(range(1, 4_500))
    expect(sends.line.isIdle).toBe(true)
  })

  it('accepts no later message while earlier ones are left in the outbox', async () => {
    await sends.offer(...range(1, 4_500))
    await sends.end('sent', ...range(1, 257))
    await sends.offer(4_500)
    while (sends.inFlight > 0) await sends.end('sent', ...sends.nonces.slice(-256))
    expect(sends.nonces).not.toContain(4_500)
    expect(sends.line.startAgain()).toBe(4_097)
  })

  it('starts again with the failed message, although it had left later ones', async () => {
    await sends.offer(...range(1, 4_500))
    await sends.end('failed', 1)
    expect(sends.line.startAgain()).toBe(1)
  })

  it('starts again with an older message that waited behind the failed one', async () => {
    await sends.offer(...range(1_000, 1_256), 3)
    await sends.end('failed', 1_000)
    expect(sends.line.startAgain()).toBe(3)
  })

  it('pauses after a failure, longer each time, and then tries one message', async () => {
    await sends.offer(...range(1, 401))
    await sends.end('failed', ...range(1, 257))
    expect(sends.inFlight).toBe(0)
    expect([sends.line.hasRoom, sends.line.isIdle]).toEqual([false, false])
    let rooms = 0
    for (const seconds of [1, 2, 4, 8, 16, 30, 30]) {
      const before = sends.nonces.length
      await sends.offer(7)
      await vi.advanceTimersByTimeAsync(1_000 * seconds - 1)
      expect([sends.line.hasRoom, sends.rooms]).toEqual([false, rooms])
      await vi.advanceTimersByTimeAsync(1)
      rooms += 1
      expect([sends.line.hasRoom, sends.rooms]).toEqual([true, rooms])
      expect(sends.line.startAgain()).toBe(1)
      await sends.offer(...range(1, 401))
      expect(sends.nonces.slice(before)).toEqual([1])
      await sends.end('failed', 1)
    }
  })

  it('sends the messages behind a failed one when its retry has been sent', async () => {
    await sends.offer(...range(1, 401))
    await sends.end('failed', ...range(1, 257))
    await vi.advanceTimersByTimeAsync(1_000)
    sends.line.startAgain()
    await sends.offer(...range(1, 401))
    await sends.end('sent', 1)
    expect(sends.nonces.slice(256)).toEqual(range(1, 258))
  })

  it('does not take a skipped message for a successful retry, and tries the next one', async () => {
    await sends.offer(1)
    await sends.end('failed', 1)
    await vi.advanceTimersByTimeAsync(1_000)
    sends.line.startAgain()
    await sends.offer(1, 2, 3)
    await sends.end('skipped', 1)
    expect(sends.nonces).toEqual([1, 1, 2])
  })

  it('sends all others when the retry has been sent', async () => {
    await sends.offer(1, 2, 3)
    await sends.end('failed', 2)
    await sends.end('sent', 1, 3)
    await vi.advanceTimersByTimeAsync(1_000)
    expect(sends.line.startAgain()).toBe(2)
    await sends.offer(2, 4, 5)
    await sends.end('sent', 2)
    expect(sends.nonces).toEqual([1, 2, 3, 2, 4, 5])
    await sends.end('sent', 4, 5)
    expect(sends.line.isIdle).toBe(true)
  })

  it('ends its pause when it is forgiven', async () => {
    await sends.offer(1)
    await sends.end('failed', 1)
    sends.line.forgive()
    expect(sends.line.startAgain()).toBe(1)
    await sends.offer(1, 2)
    expect(sends.nonces).toEqual([1, 1, 2])
    await vi.advanceTimersByTimeAsync(60_000)
    expect(sends.rooms).toBe(0)
  })

  it('sends nothing once it is stopped', async () => {
    await sends.offer(...range(1, 400))
    sends.line.stop()
    await sends.end('sent', ...range(1, 256))
    await sends.end('failed', 256)
    await sends.offer(500)
    await vi.advanceTimersByTimeAsync(60_000)
    expect(sends.nonces).toHaveLength(256)
    expect(sends.rooms).toBe(0)
  })

  it('is stuck from the first failure until a message is sent, but not while sends are slow', async () => {
    await sends.offer(1, 2)
    vi.advanceTimersByTime(5_000)
    expect(sends.line.stuckSince).toBeNull()
    const since = Date.now()
    await sends.end('failed', 1, 2)
    expect(sends.line.stuckSince).toBe(since)
    await vi.advanceTimersByTimeAsync(1_000)
    sends.line.startAgain()
    await sends.offer(1, 2)
    await sends.end('failed', 1)
    sends.line.forgive()
    expect(sends.line.stuckSince).toBe(since)
    sends.line.startAgain()
    await sends.offer(1, 2)
    await sends.end('sent', 1)
    expect(sends.line.stuckSince).toBeNull()
  })

  it('is no longer stuck when it starts again with nothing owed', async () => {
    await sends.offer(1)
    await sends.end('failed', 1)
    expect(sends.line.stuckSince).not.toBeNull()
    sends.line.startAgain()
    expect(sends.line.stuckSince).toBeNull()
  })
})
