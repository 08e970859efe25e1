import { describe, expect, it } from 'vitest'
import type { LiveDelivery } from '../../../src/broker/consume/delivery.ts'
import { SetAside } from '../../../src/broker/consume/set-aside.ts'

const NOW = 1_000_000
const delivery = (id: string) => ({ id }) as LiveDelivery
const full = (count: number, dueAt: number) => {
  const aside = new SetAside()
  for (let i = 0; i < count; i++) {
    aside.taken()
    aside.add(delivery(String(i)), NOW + i, () => dueAt)
  }
  return aside
}

describe('what was set aside', () => {
  it('comes back oldest first, once, and each is told of', () => {
    const told: string[] = []
    const aside = new SetAside()
    for (const id of ['a', 'b', 'c']) aside.add(delivery(id), NOW, () => told.push(id))
    const [first] = aside.recall(NOW).deliveries
    expect(first?.id).toBe('a')
    expect(told).toEqual(['a', 'b', 'c'])
    expect([aside.size, aside.since]).toEqual([0, null])
    expect(aside.recall(NOW)).toEqual({ deliveries: [], restMs: 0 })
  })

  it('is as old as the oldest that is left', () => {
    const aside = new SetAside()
    const oldest = delivery('a')
    aside.add(oldest, NOW, () => NOW)
    aside.add(delivery('b'), NOW + 5, () => NOW)
    expect(aside.since).toBe(NOW)
    aside.delete(oldest)
    expect(aside.since).toBe(NOW + 5)
  })

  it.each([
    ['until one may start', 1, NOW + 600, 600],
    ['for a quarter of a second at least', 1, NOW, 250],
    ['for a second at most', 1, NOW + 60_000, 1_000],
    ['for a millisecond of each', 1_500, NOW, 1_500],
  ])('leaves the queue to others %s', (_, count, dueAt, restMs) => {
    expect(full(count, dueAt).recall(NOW).restMs).toBe(restMs)
  })

  it('leaves the queue for no longer than its number asks if a fetch has got a job beside it', () => {
    const aside = full(3, NOW + 600)
    aside.taken()
    expect(aside.recall(NOW).restMs).toBe(3)
    aside.taken()
    aside.add(delivery('later'), NOW, () => NOW + 600)
    expect(aside.recall(NOW).restMs).toBe(600)
  })
})
