import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { OwedMessage } from '../../src/job/job.ts'
import { RelayLine, type RelayOutcome } from '../../src/services/relay-line.ts'

/** What was sent, and how each of it is to end. */
class Sends {
  readonly nonces: number[] = []
  rooms = 0
  readonly #open = new Map<number, (outcome: RelayOutcome) => void>()
  readonly line = new RelayLine('q', {
    send: ({ outbox }) => {
      this.nonces.push(outbox)
      return new Promise((resolve) => this.#open.set(outbox, resolve))
    },
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

  offer(...nonces: number[]): void {
    for (const outbox of nonces) this.line.offer(owed(outbox))
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
  it('sends large ones a few at a time, however large they are', async () => {
    const sizes = [9, 9, 30, 9, 9]
    for (const [i, size] of sizes.entries()) sends.line.offer(owed(i + 1, size * 1024 * 1024))
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

  it('sends in the order of the outbox, 256 at a time, each once', async () => {
    sends.offer(...range(1, 301), ...range(1, 301))
    expect(sends.nonces).toEqual(range(1, 257))
    await sends.end('sent', 200)
    expect(sends.nonces).toEqual(range(1, 258))
    await sends.end('skipped', ...range(1, 258))
    expect(sends.nonces).toEqual(range(1, 301))
    await sends.end('sent', ...range(258, 301))
    expect(sends.line.isIdle).toBe(true)
    expect(sends.rooms).toBe(0)
  })

  it('leaves what is too much in the outbox, in order, and takes it when it has room', async () => {
    sends.offer(...range(1, 4_500))
    expect(sends.line.hasLeft).toBe(true)
    while (sends.inFlight > 0) await sends.end('sent', ...sends.nonces.slice(-256))
    expect(sends.rooms).toBeGreaterThan(0)
    expect(sends.line.hasRoom).toBe(true)
    const from = sends.line.startAgain()
    expect(from).toBe((sends.nonces.at(-1) ?? 0) + 1)
    sends.offer(...range(from ?? 0, 4_500))
    while (sends.inFlight > 0) await sends.end('sent', ...sends.nonces.slice(-256))
    expect(sends.nonces).toEqual(range(1, 4_500))
    expect(sends.line.isIdle).toBe(true)
  })

  it('takes nothing ahead of what it has left', async () => {
    sends.offer(...range(1, 4_500))
    await sends.end('sent', ...range(1, 257))
    sends.offer(4_500)
    while (sends.inFlight > 0) await sends.end('sent', ...sends.nonces.slice(-256))
    expect(sends.nonces).not.toContain(4_500)
    expect(sends.line.startAgain()).toBe(4_353)
  })

  it('begins again with the first that it owes, whatever it had left before', async () => {
    sends.offer(...range(1, 4_500))
    await sends.end('failed', 1)
    expect(sends.line.startAgain()).toBe(1)
  })

  it('leaves what waits behind a failure, also where that is older', async () => {
    sends.offer(...range(1_000, 1_256), 3)
    await sends.end('failed', 1_000)
    expect(sends.line.startAgain()).toBe(3)
  })

  it('is set aside by a failure, longer each time, and then sends one ahead', async () => {
    sends.offer(...range(1, 401))
    await sends.end('failed', ...range(1, 257))
    expect(sends.inFlight).toBe(0)
    expect([sends.line.hasRoom, sends.line.isIdle]).toEqual([false, false])
    let rooms = 0
    for (const seconds of [1, 2, 4, 8, 16, 30, 30]) {
      const before = sends.nonces.length
      sends.offer(7)
      await vi.advanceTimersByTimeAsync(1_000 * seconds - 1)
      expect([sends.line.hasRoom, sends.rooms]).toEqual([false, rooms])
      await vi.advanceTimersByTimeAsync(1)
      rooms += 1
      expect([sends.line.hasRoom, sends.rooms]).toEqual([true, rooms])
      expect(sends.line.startAgain()).toBe(1)
      sends.offer(...range(1, 401))
      expect(sends.nonces.slice(before)).toEqual([1])
      await sends.end('failed', 1)
    }
  })

  it('sends those that had waited behind a failure, when the one has arrived', async () => {
    sends.offer(...range(1, 401))
    await sends.end('failed', ...range(1, 257))
    await vi.advanceTimersByTimeAsync(1_000)
    sends.line.startAgain()
    sends.offer(...range(1, 401))
    await sends.end('sent', 1)
    expect(sends.nonces.slice(256)).toEqual(range(1, 258))
  })

  it('does not take for arrived what nobody owes any more', async () => {
    sends.offer(1)
    await sends.end('failed', 1)
    await vi.advanceTimersByTimeAsync(1_000)
    sends.line.startAgain()
    sends.offer(1, 2, 3)
    await sends.end('skipped', 1)
    expect(sends.nonces).toEqual([1, 1, 2])
  })

  it('goes on with all when the one has arrived', async () => {
    sends.offer(1, 2, 3)
    await sends.end('failed', 2)
    await sends.end('sent', 1, 3)
    await vi.advanceTimersByTimeAsync(1_000)
    expect(sends.line.startAgain()).toBe(2)
    sends.offer(2, 4, 5)
    await sends.end('sent', 2)
    expect(sends.nonces).toEqual([1, 2, 3, 2, 4, 5])
    await sends.end('sent', 4, 5)
    expect(sends.line.isIdle).toBe(true)
  })

  it('is as new when it is forgiven', async () => {
    sends.offer(1)
    await sends.end('failed', 1)
    sends.line.forgive()
    expect(sends.line.startAgain()).toBe(1)
    sends.offer(1, 2)
    expect(sends.nonces).toEqual([1, 1, 2])
    await vi.advanceTimersByTimeAsync(60_000)
    expect(sends.rooms).toBe(0)
  })

  it('begins nothing once it is stopped', async () => {
    sends.offer(...range(1, 400))
    sends.line.stop()
    await sends.end('sent', ...range(1, 256))
    await sends.end('failed', 256)
    sends.offer(500)
    await vi.advanceTimersByTimeAsync(60_000)
    expect(sends.nonces).toHaveLength(256)
    expect(sends.rooms).toBe(0)
  })

  it('is stuck from the first failure until one is sent, and not while it is only busy', async () => {
    sends.offer(1, 2)
    vi.advanceTimersByTime(5_000)
    expect(sends.line.stuckSince).toBeNull()
    const since = Date.now()
    await sends.end('failed', 1, 2)
    expect(sends.line.stuckSince).toBe(since)
    await vi.advanceTimersByTimeAsync(1_000)
    sends.line.startAgain()
    sends.offer(1, 2)
    await sends.end('failed', 1)
    sends.line.forgive()
    expect(sends.line.stuckSince).toBe(since)
    sends.line.startAgain()
    sends.offer(1, 2)
    await sends.end('sent', 1)
    expect(sends.line.stuckSince).toBeNull()
  })

  it('is not stuck when nothing is owed any more', async () => {
    sends.offer(1)
    await sends.end('failed', 1)
    expect(sends.line.stuckSince).not.toBeNull()
    sends.line.startAgain()
    expect(sends.line.stuckSince).toBeNull()
  })
})
