import { describe, expect, it } from 'vitest'
import type { LiveDelivery } from '../../../src/broker/consume/delivery.ts'
import { Waiters } from '../../../src/broker/consume/waiter.ts'

/** A signal that does not abort. */
const never = () => new AbortController().signal
const hasClaimable = () => false
const wanted = (...queues: string[]) => ({
  queues,
  count: 1,
  isLongPoll: true,
  since: 0,
  hasClaimable,
})

describe('Waiters', () => {
  it('are served in the order in which they came, in each of their queues', async () => {
    const waiters = new Waiters(() => [])
    const one = waiters.wait(wanted('a', 'b'), 60_000, never())
    const two = waiters.wait(wanted('b'), 60_000, never())
    expect([waiters.countFor('a'), waiters.countFor('b')]).toEqual([1, 2])
    const first = waiters.first('b')
    expect(first?.queues).toEqual(['a', 'b'])
    if (first) waiters.serve(first, [])
    expect(await one).toEqual([])
    expect(waiters.has('a')).toBe(false)
    expect(waiters.first('b')?.queues).toEqual(['b'])
    waiters.serveAllEmpty()
    expect(await two).toEqual([])
    expect(waiters.first('b')).toBeUndefined()
  })

  it('are removed when their signal aborts or their time is over; the latter then get what is there', async () => {
    const there = [{}] as LiveDelivery[]
    const waiters = new Waiters(() => there)
    const stop = new AbortController()
    const aborted = waiters.wait(wanted('a'), 60_000, stop.signal)
    const late = waiters.wait(wanted('a', 'a'), 5, never())
    stop.abort()
    expect(await aborted).toEqual([])
    expect(await late).toBe(there)
    expect(waiters.has('a')).toBe(false)
  })

  it('are limited to 4,096; one more gets nothing at once', async () => {
    const waiters = new Waiters(() => [])
    const all = Array.from({ length: 4_096 }, () => waiters.wait(wanted('a'), 60_000, never()))
    expect(await waiters.wait(wanted('a'), 60_000, never())).toEqual([])
    waiters.serveAllEmpty()
    await Promise.all(all)
    const again = waiters.wait(wanted('a'), 60_000, never())
    expect(waiters.countFor('a')).toBe(1)
    waiters.serveAllEmpty()
    await again
  })
})
