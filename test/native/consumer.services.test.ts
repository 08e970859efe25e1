import { v7 } from 'uuid'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { pikaConsume } from '../support/broker/pika.ts'
import { vhostForAll } from '../support/broker/rabbit.ts'
import { jobOf } from '../support/gateway/client.ts'
import { Gateway } from '../support/gateway/gateway.ts'

const TRACE_ID = '4bf92f3577b34da6a3ce929d0e0e4736'
const TRACEPARENT = `00-${TRACE_ID}-00f067aa0ba902b7-01`

/** A member that the gateway does not know, with every kind of JSON value. */
const UNKNOWN = { deep: [1, -2.5e-3, null, true, { 'ключ ✓': '\u0000"\\' }], empty: {} }

const vhost = vhostForAll()

describe.each(['classic', 'quorum'])('a pika consumer on a %s queue', (queueType) => {
  const queue = `email-${queueType}`
  let gateway: Gateway

  beforeAll(async () => {
    gateway = await Gateway.start({ amqpUrl: vhost.url, env: { OJS_QUEUE_TYPE: queueType } })
  })
  afterAll(() => gateway.dispose())

  async function pushAndConsume(body: object, headers: Record<string, string> = {}) {
    const answer = await gateway.client.push(body, headers)
    expect(answer.status, answer.text).toBe(201)
    const [message] = await pikaConsume(vhost.url, `ojs.queue.${queue}`, 1)
    if (message === undefined) throw new Error('no message')
    return { job: jobOf(answer), message }
  }

  test('gets every property and header of seed 002 §6 that has a value', async () => {
    const id = v7()
    const { job, message } = await pushAndConsume(
      {
        id,
        type: 'email.send',
        args: ['user@example.com', 'welcome'],
        meta: { correlation_id: 'order-4711', tenant: 'a' },
        options: { queue, priority: 7, tags: ['urgent', 'mail'], retry: { max_attempts: 4 } },
        x_unknown: UNKNOWN,
      },
      {
        traceparent: TRACEPARENT,
        tracestate: 'vendor=value',
        'idempotency-key': 'key-1',
        // Other HTTP headers must not become AMQP headers.
        'x-ojs-error-code': 'forged',
        'x-custom': 'not for AMQP',
      },
    )
    expect(message.properties).toStrictEqual({
      message_id: id,
      type: 'email.send',
      content_type: 'application/openjobspec+json',
      content_encoding: 'utf-8',
      timestamp: Math.floor(Date.parse(String(job['created_at'])) / 1000),
      delivery_mode: 2,
      priority: 7,
      correlation_id: 'order-4711',
      app_id: 'ojs',
    })
    expect(message.headers).toStrictEqual({
      'x-ojs-queue': ['S', queue],
      'x-ojs-attempt': ['I', 1],
      'x-ojs-max-attempts': ['I', 4],
      'x-ojs-created-at': ['S', job['created_at']],
      'x-ojs-enqueued-at': ['S', job['enqueued_at']],
      'x-ojs-tags': ['S', 'urgent,mail'],
      'x-ojs-trace-id': ['S', TRACEPARENT],
      'x-ojs-trace-state': ['S', 'vendor=value'],
      'x-ojs-idempotency-key': ['S', 'key-1'],
    })
    expect(message).toMatchObject({ exchange: 'ojs.exchange.direct', routing_key: queue })
    expect(JSON.parse(message.body)).toMatchObject({
      specversion: '1.0',
      id,
      type: 'email.send',
      queue,
      args: ['user@example.com', 'welcome'],
      meta: { correlation_id: 'order-4711', tenant: 'a' },
      priority: 7,
      max_attempts: 4,
      tags: ['urgent', 'mail'],
      created_at: job['created_at'],
      x_unknown: UNKNOWN,
    })
  })

  test('gets no header or property for a value that the job does not have', async () => {
    const { job, message } = await pushAndConsume({ type: 'a.b', args: [], options: { queue } })
    expect(message.properties).toStrictEqual({
      message_id: job.id,
      type: 'a.b',
      content_type: 'application/openjobspec+json',
      content_encoding: 'utf-8',
      timestamp: Math.floor(Date.parse(String(job['created_at'])) / 1000),
      delivery_mode: 2,
      priority: 0,
      app_id: 'ojs',
    })
    const names = ['queue', 'attempt', 'max-attempts', 'created-at', 'enqueued-at']
    expect(new Set(Object.keys(message.headers))).toStrictEqual(
      new Set(names.map((name) => `x-ojs-${name}`)),
    )
  })

  test.each([
    [-100, 0],
    [-1, 0],
    [9, 9],
    [10, 9],
    [100, 9],
  ])('gets priority %i as %i', async (priority, expected) => {
    const { message } = await pushAndConsume({
      type: 'a.b',
      args: [],
      options: { queue, priority },
    })
    expect(message.properties['priority']).toBe(expected)
    expect(JSON.parse(message.body)).toHaveProperty('priority', priority)
  })

  test('gets the trace id as correlation id when the producer names none', async () => {
    const body = { type: 'a.b', args: [], options: { queue } }
    const { message } = await pushAndConsume(body, { traceparent: TRACEPARENT })
    expect(message.properties['correlation_id']).toBe(TRACE_ID)
  })

  test('that acknowledges without a report leaves the job available', async () => {
    const { job } = await pushAndConsume({ type: 'a.b', args: [], options: { queue } })
    expect(jobOf(await gateway.client.get(job.id))).toMatchObject({ state: 'available' })
  })
})
