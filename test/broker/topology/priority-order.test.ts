import { expect, test } from 'vitest'
import { priorityOrder } from '../../../src/broker/topology/priority-order.ts'

test.each([
  ['classic', '3.10.8', 10, true],
  ['classic', '4.3.1', 10, true],
  ['classic', '', 10, true],
  ['quorum', '3.10.8', 1, true],
  ['quorum', '3.13.7', 1, true],
  ['quorum', '4.0.9', 2, false],
  ['quorum', '4.2.0', 2, false],
  ['quorum', '4.3.1', 10, true],
  ['quorum', '5.0.0', 10, true],
] as const)(
  'priorityOrder() of %s queues in RabbitMQ "%s": %i levels, strictly: %s',
  (profile, version, levels, isStrict) => {
    expect(priorityOrder(profile, version)).toEqual({ levels, isStrict })
  },
)

test('priorityOrder() returns null for quorum queues of an unknown RabbitMQ version', () => {
  expect(priorityOrder('quorum', '')).toBeNull()
})
