import { createServer } from 'node:net'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isAnyListening, reconnectDelayMs, waitToReconnect } from '../../src/broker/reconnect.ts'

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

  it('is over at once when it is aborted', async () => {
    const stop = new AbortController()
    const waiting = wait({ signal: stop.signal })
    stop.abort()
    expect(await waiting).toBe(false)
  })

  it('waits the whole time when nothing listens', async () => {
    expect(await wait({ delayMs: 30 })).toBe(false)
  })
})

describe('isAnyListening', () => {
  it('finds the one of several that listens', async () => {
    const server = createServer()
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const address = server.address()
    const port = typeof address === 'object' && address ? address.port : 0
    const open = new URL(`amqp://127.0.0.1:${port}`)
    const closed = new URL('amqp://127.0.0.1:1')
    // A busy machine may take longer than the second that it waits for an answer.
    await expect.poll(() => isAnyListening([closed, open])).toBe(true)
    server.close()
    expect(await isAnyListening([closed])).toBe(false)
  })
})
