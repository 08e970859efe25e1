import { once } from 'node:events'
import { createServer, Socket } from 'node:net'
import fc from 'fast-check'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import {
  isAnyListening,
  RestartDelay,
  reconnectDelayMs,
  waitToReconnect,
} from '../../../src/broker/connection/reconnect.ts'

const MIDDLE = () => 0.5

describe('reconnectDelayMs (seed 002 §11.3)', () => {
  it('is 1, 2, 4 … 60 s', () => {
    const delays = [1, 2, 3, 4, 5, 6, 7, 8, 100].map((n) => reconnectDelayMs(n, MIDDLE) / 1000)
    expect(delays).toEqual([1, 2, 4, 8, 16, 32, 60, 60, 60])
  })

  it('jitters by ±25 %', () => {
    expect(reconnectDelayMs(3, () => 0)).toBe(3000)
    expect(reconnectDelayMs(3, () => 1)).toBe(5000)
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 10_000 }), fc.double({ min: 0, max: 1 }), (n, r) => {
        if (Number.isNaN(r)) return
        const plain = Math.min(2 ** (n - 1), 60) * 1000
        const delay = reconnectDelayMs(n, () => r)
        expect(delay).toBeGreaterThanOrEqual(plain * 0.75)
        expect(delay).toBeLessThanOrEqual(plain * 1.25)
      }),
    )
  })
})

describe('the delay before a consumer is registered again (seed 002 §10.4)', () => {
  it('grows while consumers keep ending, and begins anew after one that lived for long', () => {
    const delay = new RestartDelay(MIDDLE)
    expect([0, 10_000, 0].map((livedMs) => delay.after(livedMs))).toEqual([1_000, 2_000, 4_000])
    expect([10_001, 0].map((livedMs) => delay.after(livedMs))).toEqual([1_000, 2_000])
    delay.forgetFailures()
    expect(delay.after(0)).toBe(1_000)
  })
})

describe('waitToReconnect', () => {
  const wait = (given: object) =>
    waitToReconnect({
      delayMs: 60_000,
      portWasOpen: false,
      probe: async () => false,
      random: () => 0,
      signal: new AbortController().signal,
      ...given,
    })

  it('is cut short when the port opens', async () => {
    let probes = 0
    const probe = async () => {
      probes += 1
      return probes === 2
    }
    expect(await wait({ probe })).toBe(true)
    expect(probes).toBe(2)
  })

  it('is not cut short by a broker that accepts and refuses all along', async () => {
    let probes = 0
    const probe = async () => {
      probes += 1
      return true
    }
    expect(await wait({ probe, portWasOpen: true, delayMs: 1_600 })).toBe(false)
    expect(probes).toBe(2)
  })

  it('is cut short by a port that was open, closes and opens again', async () => {
    const answers = [false, true]
    const probe = async () => answers.shift() ?? false
    expect(await wait({ probe, portWasOpen: true, random: () => -1.48 })).toBe(true)
    expect(answers).toEqual([])
  })

  it('is over at once when it is aborted, and probes no port then', async () => {
    const stop = new AbortController()
    let probes = 0
    const probe = async () => {
      probes += 1
      return true
    }
    const waiting = wait({ signal: stop.signal, probe })
    stop.abort()
    expect([await waiting, probes]).toEqual([false, 0])
  })

  it('waits the whole time when nothing listens', async () => {
    const startedAt = performance.now()
    expect(await wait({ delayMs: 300 })).toBe(false)
    // A timer may be a millisecond early by this clock.
    expect(performance.now() - startedAt).toBeGreaterThan(298)
  })
})

describe('isAnyListening', () => {
  it('is true when one of several hosts listens, and closes its probes', async () => {
    const ends: Promise<unknown>[] = []
    const server = createServer((socket) => {
      ends.push(once(socket.resume(), 'close'))
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const address = server.address()
    const port = typeof address === 'object' && address ? address.port : 0
    const open = new URL(`amqp://127.0.0.1:${port}`)
    const closed = new URL('amqp://127.0.0.1:1')
    // A busy machine may take longer than the second that isAnyListening() waits for an answer.
    await expect.poll(() => isAnyListening([closed, open])).toBe(true)
    // No connection of a probe stays open.
    await Promise.all(ends)
    server.close()
    expect(await isAnyListening([closed])).toBe(false)
  })

  it('is false for a host that does not answer within a second', async () => {
    const connect = vi.spyOn(Socket.prototype, 'connect').mockReturnThis()
    onTestFinished(() => connect.mockRestore())
    expect(await isAnyListening([new URL('amqp://127.0.0.1:1')])).toBe(false)
  })
})
