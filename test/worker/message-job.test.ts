import type { ConsumeMessage } from 'amqplib'
import { expect, test } from 'vitest'
import type { ConsumerChannel } from '../../src/broker/consume/consumer-channel.ts'
import { LiveDelivery } from '../../src/broker/consume/delivery.ts'
import { messageJob, retrySource } from '../../src/worker/message-job.ts'

const ID = '019539a4-b68c-7def-8000-1a2b3c4d5e6f'
const NOW = Date.parse('2026-02-12T10:30:00.000Z')
const CONTEXT = { newId: () => ID, now: NOW, wall: NOW, timeoutMs: 30_000, prefix: '' }
const ENQUEUED = { 'x-ojs-enqueued-at': '2026-02-12T10:00:00.000Z' }
const NATIVE = { 'x-ojs-native': true }

/** The body as both the gateway and the native producer write it. */
const BODY = {
  ...{ specversion: '1.0', id: ID, type: 'a', queue: 'q', args: [1] },
  ...{ timeout_ms: 1_000, max_attempts: 3, created_at: '2026-02-12T09:00:00.000Z' },
}

const REVERSED = Object.fromEntries(Object.entries(BODY).reverse())

function jobMessage(body: object, headers: object = ENQUEUED, properties: object = {}) {
  const raw = {
    content: Buffer.from(JSON.stringify(body)),
    fields: { redelivered: false },
    properties: { messageId: ID, headers, ...properties },
  }
  const consumerChannel = { queue: 'q' } as ConsumerChannel
  const delivery = new LiveDelivery(consumerChannel, raw as unknown as ConsumeMessage, 1)
  return { delivery, read: () => messageJob(delivery, CONTEXT) }
}

test('messageJob makes the job that FETCH would answer', () => {
  const body = { ...BODY, x_ojs_generation: 2, vendor: { kept: true }, meta: { a: 1 } }
  const headers = { ...ENQUEUED, 'x-ojs-attempt': 2, 'x-ojs-max-attempts': 5 }
  const failed = { 'x-ojs-error-code': 'boom', 'x-ojs-error-message': 'm' }
  const { x_ojs_generation: _, ...shown } = body
  const { job, maxAttempts, expiresAt, envelope } = jobMessage(body, {
    ...headers,
    ...failed,
  }).read()
  expect(job).toEqual({
    ...shown,
    ...{ state: 'active', attempt: 2, max_attempts: 5, enqueued_at: ENQUEUED['x-ojs-enqueued-at'] },
    error: { code: 'boom', message: 'm' },
  })
  expect([maxAttempts, expiresAt, envelope()]).toEqual([5, null, JSON.stringify(body)])
})

test.each([
  ['a gateway', BODY, ENQUEUED, true],
  ['a native producer', BODY, { ...ENQUEUED, ...NATIVE }, false],
  ['a foreign producer, without an enqueued-at header', BODY, {}, false],
  ['a foreign producer, with another order of members', REVERSED, ENQUEUED, false],
  [
    'a foreign producer, without max_attempts',
    { ...BODY, max_attempts: undefined },
    ENQUEUED,
    false,
  ],
  ['a foreign producer, without timeout_ms', { ...BODY, timeout_ms: undefined }, ENQUEUED, false],
  ['a gateway, with an unknown option', { ...BODY, options: { own: 1 } }, ENQUEUED, true],
  [
    'a foreign producer, with options of a PUSH',
    { ...BODY, options: { priority: 1 } },
    ENQUEUED,
    false,
  ],
  ['a foreign producer, with retry_policy', { ...BODY, retry_policy: {} }, ENQUEUED, false],
])('messageJob tells whether a gateway knows the job of %s', (_, body, headers, isKnown) => {
  const { job, ...read } = jobMessage(body, headers).read()
  expect(read.isKnown).toBe(isKnown)
  expect(job).toMatchObject({ id: ID, type: 'a', args: [1], queue: 'q', attempt: 1 })
  expect(read.maxAttempts).toBe(3)
})

test.each([
  ['a gateway', ENQUEUED],
  ['a foreign producer', {}],
])('messageJob reads the expiry of a job of %s', (_, headers) => {
  const expires_at = '2026-02-12T11:00:00.000Z'
  const { job, expiresAt } = jobMessage({ ...BODY, expires_at }, headers).read()
  expect([job['expires_at'], expiresAt]).toEqual([expires_at, NOW + 1_800_000])
  expect(jobMessage(BODY, headers).read().expiresAt).toBeNull()
})

test.each([
  [{ ...BODY, id: ID.replace('5e6f', 'ffff') }, 'differ'],
  [{ ...BODY, type: 7 }, "'type'"],
  [{ ...BODY, args: {} }, "'args'"],
])('messageJob throws for a body that is no valid job: %j', (body, why) => {
  expect(jobMessage(body).read).toThrow(why)
})

test('messageJob accepts parent results of 32 levels within lists of lists from a gateway only', () => {
  // `{"result": …}` may nest 32 levels over HTTP, and one more in a report.
  const deep: unknown = JSON.parse(`${'['.repeat(32)}${']'.repeat(32)}`)
  const body = { ...BODY, parent_results: [[[deep]]] }
  expect(jobMessage(body).read().job['parent_results']).toEqual([[[deep]]])
  expect(jobMessage({ ...BODY, parent_results: [[[[deep]]]] }).read).toThrow('deeper')
  expect(jobMessage(body, {}).read).toThrow('deeper')
})

test('retrySource keeps priority, times and trace of the job message and adds the failure', () => {
  const failure = { code: 'boom', type: 'Boom', message: 'm', retryable: true }
  const failed = { attempt: 1, failure, now: NOW }
  const carried = { 'x-ojs-trace-id': `00-${'4b'.repeat(16)}-${'a1'.repeat(8)}-01` }
  const source = (body: object, headers: object, properties = {}) => {
    const { delivery, read } = jobMessage(body, headers, properties)
    return retrySource(delivery, read(), failed)
  }
  expect(source(BODY, { ...ENQUEUED, ...carried }, { priority: 7 })).toEqual({
    ...{ id: ID, type: 'a', queue: 'q', state: 'retryable', attempt: 1, maxAttempts: 3 },
    ...{ priority: 7, createdAt: NOW - 5_400_000, enqueuedAt: NOW - 1_800_000 },
    carry: expect.objectContaining({ traceparent: carried['x-ojs-trace-id'] }),
    error: JSON.stringify(failure),
  })
  const { created_at: _, ...undated } = BODY
  const at = { timestamp: NOW / 1_000 - 60 }
  expect(source(undated, ENQUEUED, at).createdAt).toBe(NOW - 60_000)
  expect(source(undated, ENQUEUED).createdAt).toBe(NOW)
  expect(source(undated, NATIVE).enqueuedAt).toBe(NOW)
})
