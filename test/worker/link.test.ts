import { expect, test } from 'vitest'
import { AmqpLink } from '../../src/worker/link.ts'
import { withDefaults } from '../../src/worker/options.ts'

function linkToNowhere(): AmqpLink {
  const options = withDefaults({ url: 'amqp://127.0.0.1:1', logger: false }, 'test')
  return new AmqpLink(options, { askForQueue: async () => {}, gauges: () => NO_CONSUMERS })
}

test('a link that never opens keeps nothing of those that have waited for it', async () => {
  const link = linkToNowhere()
  const waits = [1, 2, 3].map((ms) => link.untilPublishing(ms))
  expect(link.waiting).toBe(3)
  expect(await Promise.all(waits)).toEqual([false, false, false])
  expect(link.waiting).toBe(0)
})

test('nobody waits for a link that was stopped', async () => {
  const link = linkToNowhere()
  const wait = link.untilPublishing(60_000)
  await link.stop(AbortSignal.timeout(1_000))
  expect(await wait).toBe(false)
})

const NO_CONSUMERS = { consumers: [], queues: [] }
