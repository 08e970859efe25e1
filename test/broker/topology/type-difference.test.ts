import { expect, it } from 'vitest'
import { typeDifference } from '../../../src/broker/topology/entity.ts'

// The differences that RabbitMQ 3.10.8 names for each pair of queues, and those that a later one may name.
it.each([
  ['quorum', 'x-max-priority', '10', 'it is a classic queue, expected quorum'],
  ['quorum', 'x-queue-type', 'none', 'it is a classic queue, expected quorum'],
  ['quorum', 'x-queue-type', 'classic', 'it is a classic queue, expected quorum'],
  ['quorum', 'x-overflow', 'none', 'it may be a classic queue, expected quorum'],
  ['classic', 'x-queue-type', 'quorum', 'it is a quorum queue, expected classic'],
  ['classic', 'x-dead-letter-strategy', 'at-least-once', 'it is a quorum queue, expected classic'],
  ['classic', 'x-delivery-limit', '20', 'it is a quorum queue, expected classic'],
  ['classic', 'x-max-priority', '5', null],
  ['classic', 'x-max-priority', 'none', null],
  ['classic', 'x-queue-type', 'none', null],
  ['classic', 'x-overflow', 'none', null],
  ['quorum', 'x-queue-type', 'stream', null],
  ['quorum', 'x-overflow', 'drop-head', null],
  ['quorum', 'x-dead-letter-strategy', 'none', null],
  ['quorum', 'x-dead-letter-exchange', 'none', null],
  [undefined, 'type', 'topic', null],
])(
  'when %s is wanted and %s is %s, typeDifference() returns: %s',
  (wanted, argument, actual, says) => {
    expect(typeDifference(wanted, { argument, actual, expected: 'x' })).toBe(says)
  },
)
