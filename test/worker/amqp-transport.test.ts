import { v7 } from 'uuid'
import { expect, test, vi } from 'vitest'
import type { PublishOutcome } from '../../src/broker/broker.ts'
import { AmqpTransport } from '../../src/worker/amqp-transport.ts'
import type { AmqpLink } from '../../src/worker/connection.ts'

/** Sends POST /jobs over a link that is changed by `given`. */
function push(given: object, path = '/jobs', body: object = { type: 't', args: [] }) {
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
  return new AmqpTransport(link as unknown as AmqpLink).request({
    method: 'POST',
    path,
    body,
  } as never)
}

test('AmqpTransport answers 503 and publishes nothing while RabbitMQ blocks the connection', async () => {
  const sent: unknown[] = []
  const publisher = { send: async (one: unknown) => sent.push(one) && 'confirmed' }
  const answer = await push({ publish: { blockedReason: 'low on disk' }, publisher })
  expect(answer).toMatchObject({
    status: 503,
    body: { error: { details: { reason: 'broker_blocked' } } },
  })
  expect(sent).toEqual([])
})

test('AmqpTransport publishes no job whose rate limit limits nothing', async () => {
  const sent: unknown[] = []
  const publisher = { send: async (one: unknown) => sent.push(one) && 'confirmed' }
  const job = { type: 't', args: [], options: { rate_limit: { per_second: 1 } } }
  const field = 'options.rate_limit.max_per_second'
  expect(await push({ publisher }, '/jobs', job)).toMatchObject({
    status: 400,
    body: { error: { details: { field } } },
  })
  expect(sent).toEqual([])
})

test('AmqpTransport answers 503 unroutable if a missing queue is not declared in time', async () => {
  expect(await push({})).toMatchObject({
    status: 503,
    body: { error: { details: { reason: 'unroutable' } } },
  })
}, 30_000)

test('AmqpTransport publishes a batch of 10,000 jobs in order, with at most 4096 unconfirmed', async () => {
  const ids = Array.from({ length: 10_000 }, () => v7())
  const sent: { id: string; confirm(outcome: PublishOutcome): void }[] = []
  const publisher = {
    send: ({ id }: { id: string }) =>
      new Promise<PublishOutcome>((confirm) => {
        sent.push({ id, confirm })
      }),
  }
  const jobs = ids.map((id) => ({ id, type: 't', args: [] }))
  const answer = push({ publisher }, '/jobs/batch', { jobs })
  await expect.poll(() => sent).toHaveLength(4_096)
  sent[0]?.confirm('confirmed')
  await expect.poll(() => sent).toHaveLength(4_097)
  for (const { confirm } of sent) confirm('confirmed')
  await vi.waitFor(() => {
    for (const { confirm } of sent) confirm('confirmed')
    expect(sent).toHaveLength(10_000)
  }, 60_000)
  for (const { confirm } of sent) confirm('confirmed')
  expect(await answer).toMatchObject({ status: 201 })
  expect(sent.map(({ id }) => id)).toEqual(ids)
})
