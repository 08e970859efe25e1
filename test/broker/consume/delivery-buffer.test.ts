import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { LiveDelivery } from '../../../src/broker/consume/delivery.ts'
import { DeliveryBuffer } from '../../../src/broker/consume/delivery-buffer.ts'
import { goesBefore } from '../../../src/job/delivery-order.ts'

const ANY = fc.record({ priority: fc.integer({ min: -1, max: 2 }), size: fc.nat(9) })
const ACT = fc.oneof(
  { weight: 4, arbitrary: ANY.map((given) => ({ do: 'insert' as const, ...given })) },
  { weight: 3, arbitrary: fc.constant({ do: 'next' as const }) },
  { weight: 2, arbitrary: fc.nat(50).map((which) => ({ do: 'remove' as const, which })) },
  { weight: 1, arbitrary: fc.constant({ do: 'drain' as const }) },
)

it('the buffer hands out deliveries by priority, then in queue order, and counts them and their bytes', () => {
  const property = fc.property(fc.array(ACT, { maxLength: 100 }), (acts) => {
    const buffer = new DeliveryBuffer()
    const made: LiveDelivery[] = []
    let held: LiveDelivery[] = []
    for (const act of acts) {
      if (act.do === 'insert') {
        const delivery = { ...act, order: made.length } as unknown as LiveDelivery
        made.push(delivery)
        held.push(delivery)
        buffer.insert(delivery)
      } else if (act.do === 'next') {
        const next = held.find((one) => held.every((other) => !goesBefore(other, one)))
        expect(buffer.next()).toBe(next)
        held = held.filter((one) => one !== next)
      } else if (act.do === 'remove') {
        const delivery = made[act.which % Math.max(1, made.length)]
        // An earlier act may have taken the delivery out already.
        if (delivery !== undefined) buffer.remove(delivery)
        held = held.filter((one) => one !== delivery)
      } else {
        expect(buffer.drain()).toEqual(held)
        held = []
      }
      expect([buffer.size, buffer.bytes]).toEqual([
        held.length,
        held.reduce((sum, { size }) => sum + size, 0),
      ])
    }
  })
  fc.assert(property)
})
