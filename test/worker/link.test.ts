import { expect, test } from 'vitest'
import { AmqpLink } from '../../src/worker/link.ts'
import { withDefaults } from '../../src/worker/options.ts'

test('a link that never opens keeps nothing of those that have waited for it', async () => {
  const options = withDefaults({ url: 'amqp://127.0.0.1:1', logger: false }, 'test')
  const link = new AmqpLink(options, { askForQueue: async () => {}, gauges: () => NO_CONSUMERS })
  const waits = [1, 2, 3].map((ms) => link.untilPublishing(ms))
  expect(link.waiting).toBe(3)
  expect(await Promise.all(waits)).toEqual([false, false, false])
  expect(link.waiting).toBe(0)
})

const NO_CONSUMERS = { consumers: [], queues: [] }
