import { setMaxListeners } from 'node:events'
import { expect, it } from 'vitest'
import { Deliveries, type DeliveriesDeps } from '../../src/broker/consume/deliveries.ts'
import { systemClock } from '../../src/clock.ts'

const MAX_FEEDS = 10_000
const PER_FETCH = 100

function deliveries(ready: ReadonlySet<string>): Deliveries {
  const deps: Partial<DeliveriesDeps> = {
    connection: { listen: () => {} } as unknown as DeliveriesDeps['connection'],
    clock: systemClock(),
    random: Math.random,
    isReady: (queue) => ready.has(queue),
    isPaused: () => false,
    lookUp: () => Promise.resolve('missing'),
  }
  return new Deliveries(deps as DeliveriesDeps)
}

it('fetches keep at most 10,000 unknown queues, and every queue that exists', async () => {
  const ready = new Set(['there'])
  const tested = deliveries(ready)
  const leaving = new AbortController()
  setMaxListeners(0, leaving.signal)
  const fetch = (queues: string[]) =>
    tested.take({
      queues,
      count: 1,
      waitMs: 10_000,
      hasClaimable: () => false,
      signal: leaving.signal,
    })
  const named = () => tested.gauges().queues.map(({ queue }) => queue)
  const open = Array.from({ length: MAX_FEEDS / PER_FETCH + 5 }, (_, i) =>
    fetch(Array.from({ length: PER_FETCH }, (_, k) => `unknown.${i}.${k}`)),
  )
  open.push(fetch(['there']), fetch(['later']))
  expect(named()).toHaveLength(MAX_FEEDS + 1)
  expect(named().at(-1)).toBe('there')
  tested.queueReady('later')
  expect(named().at(-1)).toBe('later')
  leaving.abort()
  expect(await Promise.all(open)).toEqual(open.map(() => []))
})
