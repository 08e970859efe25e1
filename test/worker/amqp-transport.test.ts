import { expect, test } from 'vitest'
import { AmqpTransport } from '../../src/worker/amqp-transport.ts'
import type { AmqpLink } from '../../src/worker/link.ts'

/** POST /jobs over a link that is as it is told. */
function push(given: object) {
  const link = {
    clock: { now: () => 0, wall: () => 0 },
    options: { publishTimeoutMs: 10, prefix: '', timeoutMs: 30_000, delayMode: 'ttl' },
    names: { exchange: { direct: 'd' }, jobQueue: (q: string) => q },
    untilPublishing: async () => true,
    publish: { blockedReason: null },
    declarer: { isReady: () => true, recheck: () => new Promise(() => {}) },
    publisher: { send: async () => 'returned' },
    ...given,
  }
  const body = { type: 't', args: [] }
  return new AmqpTransport(link as unknown as AmqpLink).request({
    method: 'POST',
    path: '/jobs',
    body,
  } as never)
}

test('under an alarm of RabbitMQ nothing is published', async () => {
  const sent: unknown[] = []
  const publisher = { send: async (one: unknown) => sent.push(one) && 'confirmed' }
  const answer = await push({ publish: { blockedReason: 'low on disk' }, publisher })
  expect(answer).toMatchObject({
    status: 503,
    body: { error: { details: { reason: 'broker_blocked' } } },
  })
  expect(sent).toEqual([])
})

test('a queue that is gone is not waited for for ever', async () => {
  expect(await push({})).toMatchObject({
    status: 503,
    body: { error: { details: { reason: 'unroutable' } } },
  })
}, 30_000)
