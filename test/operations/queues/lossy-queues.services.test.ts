import type amqp from 'amqplib'
import { v7 } from 'uuid'
import { expect, it } from 'vitest'
import { queueMessages } from '../../support/broker/queue-messages.ts'
import { eventually, startTestGateway } from '../../support/gateway/in-process.ts'
import { fetchMany, fetchOne, gatewayForAll, withChannel } from '../harness.ts'
import { publishJobMessage } from '../job-messages/messages.ts'

const { vhost, gateway } = gatewayForAll()

const SEEN = { 'x-dead-letter-exchange': 'ojs.exchange.dlx' }

/** Declares a job queue as an operator might before the gateway does. */
async function declare(
  queue: string,
  given: Record<string, unknown>,
  options: amqp.Options.AssertQueue = {},
): Promise<void> {
  await withChannel(vhost.url, async (channel) => {
    await channel.assertQueue(`ojs.queue.${queue}`, { durable: true, arguments: given, ...options })
  })
}

const REFUSED = {
  status: 503,
  body: { error: { retryable: true, details: { reason: 'queue_drops_messages' } } },
}

it.each<[string, Record<string, unknown>, amqp.Options.AssertQueue?]>([
  ['length', { 'x-max-length': 1 }],
  ['bytes', { 'x-max-length-bytes': 1, 'x-overflow': 'drop-head', 'x-max-priority': 10 }],
  ['ttl', { 'x-message-ttl': 60_000 }],
  ['elsewhere', { 'x-message-ttl': 60_000, 'x-dead-letter-exchange': 'amq.direct' }],
  ['expires', { ...SEEN, 'x-expires': 600_000 }],
  ['auto', {}, { autoDelete: true }],
  ['stream', { 'x-queue-type': 'stream' }],
  ['returns', { 'x-queue-type': 'quorum', 'x-delivery-limit': 3 }],
])('PUSH to a queue that can drop messages unseen is 503: %s', async (queue, given, options) => {
  await declare(queue, given, options)
  expect(await gateway.push(queue)).toMatchObject(REFUSED)
  const batch = { jobs: [{ type: 't', args: [], options: { queue } }] }
  expect(await gateway.request('POST', '/ojs/v1/jobs/batch', batch)).toMatchObject(REFUSED)
  const { body } = await gateway.request('GET', '/ojs/v1/health')
  expect(body.status).toBe('ok')
  const isOfQueue = ({ details }: { details: { entity: string } }) =>
    details.entity === `ojs.queue.${queue}`
  expect(body.warnings.filter(isOfQueue)).toMatchObject([{ code: 'queue_drops_messages' }])
})

it.each<[string, Record<string, unknown>, amqp.Options.AssertQueue?]>([
  ['plain', {}],
  ['seen', { ...SEEN, 'x-max-length': 9, 'x-message-ttl': 60_000 }],
  ['rejects', { 'x-max-length': 9, 'x-overflow': 'reject-publish' }],
  ['transient', {}, { durable: false }],
  ['quorum', { 'x-queue-type': 'quorum' }],
  ['single', { 'x-single-active-consumer': true }],
])('PUSH to a queue that differs harmlessly goes on: %s', async (queue, given, options) => {
  await declare(queue, given, options)
  const { status, body } = await gateway.push(queue)
  expect(status).toBe(201)
  expect(await queueMessages(vhost.url, `ojs.queue.${queue}`)).toEqual([body.job.id])
})

it('a lossy queue is still emptied, and takes jobs again once it was declared anew', async () => {
  const queue = 'mended'
  await declare(queue, { 'x-max-length': 5 })
  expect(await gateway.push(queue)).toMatchObject(REFUSED)
  const id = v7()
  await publishJobMessage(vhost.url, queue, {
    specversion: '1.0',
    id,
    type: 'native.job',
    queue,
    args: [],
  })
  expect(await fetchOne(gateway, queue)).toMatchObject({ id, attempt: 1 })
  const failed = { job_id: id, error: { code: 'x', message: 'x', retryable: true } }
  expect((await gateway.request('POST', '/ojs/v1/workers/nack', failed)).status).toBe(200)
  await withChannel(vhost.url, (channel) => channel.deleteQueue(`ojs.queue.${queue}`))
  await eventually(async () => (await gateway.push(queue)).status === 201)
  // The retry of the old job waited in the ledger meanwhile.
  const both = await fetchMany(gateway, queue, 2)
  expect(both.map((job) => job.attempt).sort((a, b) => a - b)).toEqual([1, 2])
})

it('with OJS_DECLARE=never the arguments are compared too, and nothing is declared', async () => {
  await declare('given', { 'x-message-ttl': 60_000 })
  await declare('good', {})
  await withChannel(vhost.url, (channel) =>
    channel.bindQueue('ojs.queue.good', 'ojs.exchange.direct', 'good'),
  )
  await gateway.stop()
  const other = await startTestGateway(vhost.url, { OJS_DECLARE: 'never' })
  try {
    expect(await other.push('given')).toMatchObject(REFUSED)
    expect((await other.push('good')).status).toBe(201)
    expect((await other.push('absent')).status).toBe(404)
    expect(await vhost.queue('ojs.queue.absent')).toBeUndefined()
  } finally {
    await other.destroy()
    await gateway.restart()
  }
})
