import { expect, it } from 'vitest'
import { eventually } from '../support/gateway/in-process.ts'
import {
  amqpStage,
  deliveryOf,
  headersOf,
  jobPublishes,
  ofJob,
  publishesOf,
  settlementsOf,
} from './stage.ts'

const { wire, gateway, admin, clients } = amqpStage()

it('AMQP-014 enables publisher confirms, and answers a PUSH only after the confirm', async () => {
  await clients.push('confirmed')
  const publishes = wire.all('BasicPublish')
  for (const publish of publishes) {
    const before = wire.onChannelOf(publish).map(({ name }) => name)
    // The channel is put into confirm mode before anything else.
    expect(before.slice(0, 4)).toEqual([
      'ChannelOpen',
      'ChannelOpenOk',
      'ConfirmSelect',
      'ConfirmSelectOk',
    ])
  }
  const from = wire.methods.length
  let isAnswered = false
  wire.proxy.hold('to-gateway')
  const pushing = clients.push('confirmed').finally(() => {
    isAnswered = true
  })
  const publish = await wire.next('BasicPublish', { routingKey: 'confirmed' }, from)
  // RabbitMQ has the message, but the proxy holds its confirm back.
  await eventually(async () => {
    const { messageCount } = await admin.channel.checkQueue('ojs.queue.confirmed')
    return messageCount === 2
  })
  expect(isAnswered).toBe(false)
  wire.proxy.release('to-gateway')
  expect(await pushing).toBe(publish.properties?.['messageId'])
  const confirms = wire.onChannelOf(publish).filter(({ name }) => name === 'BasicAck')
  expect(confirms.at(-1)).toMatchObject({ from: 'broker' })
})

it('AMQP-015 sets mandatory=true on job publishes, also of retries and dead letters', async () => {
  const retry = { max_attempts: 2, initial_interval_ms: 500, jitter: false }
  const { id } = await clients.retried('mandatory', { options: { retry } })
  // A lease longer than RabbitMQ's consumer_timeout: the gateway acknowledges the delivery early, and
  // therefore has to publish the dead letter.
  await clients.fetch('mandatory', 1, { visibility_timeout_ms: 3_600_000 })
  await clients.fail(id)
  const exchanges = () => publishesOf(wire, id).map(({ fields }) => fields['exchange'])
  await eventually(() => exchanges().includes('ojs.exchange.dlx'))
  expect(exchanges().slice(0, 2)).toEqual(['ojs.exchange.direct', 'ojs.exchange.retry'])
  for (const { fields } of jobPublishes(wire)) {
    expect(fields).toMatchObject({ mandatory: true, immediate: false })
  }
})

it('AMQP-016 handles basic.return: declares the missing queue and publishes the job again', async () => {
  await clients.push('returned')
  await admin.channel.deleteQueue('ojs.queue.returned')
  const from = wire.methods.length
  const id = await clients.push('returned')
  const returned = await wire.next('BasicReturn', { routingKey: 'returned' }, from)
  expect(returned.fields).toMatchObject({ replyCode: 312, exchange: 'ojs.exchange.direct' })
  expect(returned.properties?.['messageId']).toBeOneOf(
    publishesOf(wire, id).map(({ properties }) => properties?.['messageId']),
  )
  expect(publishesOf(wire, id)).toHaveLength(2)
  expect(await admin.takeAll('ojs.queue.returned')).toContain(id)
})

it('AMQP-016 answers 503 unroutable if the queue cannot be declared again', async () => {
  await clients.push('unroutable')
  await gateway.restart({ OJS_DECLARE: 'never' })
  await admin.channel.deleteQueue('ojs.queue.unroutable')
  const from = wire.methods.length
  const answer = await gateway.push('unroutable')
  const returned = await wire.next('BasicReturn', { routingKey: 'unroutable' }, from)
  const kept = await gateway.get(String(returned.properties?.['messageId']))
  await gateway.restart()
  expect(answer.status).toBe(503)
  expect(answer.body.error.details).toMatchObject({ reason: 'unroutable' })
  expect(kept.status).toBe(404)
})

it('AMQP-017 implements retry via DLX + TTL: publishes it, waits for the confirm, then acknowledges', async () => {
  const retry = { max_attempts: 3, initial_interval_ms: 500, jitter: false }
  const { id, answer } = await clients.retried('retried', { options: { retry } })
  expect(answer).toMatchObject({ state: 'retryable', retry_delay_ms: 500 })
  const first = await wire.next('BasicDeliver', ofJob(id))
  expect(await clients.fetch('retried')).toMatchObject([{ id, attempt: 2 }])

  const retryQueue = 'ojs.queue.retry.retried.500'
  const declared = await wire.next('QueueDeclare', { queue: retryQueue, passive: false })
  expect(declared.fields).toMatchObject({ durable: true, exclusive: false, autoDelete: false })
  expect(declared.fields['arguments']).toMatchObject({
    'x-dead-letter-exchange': 'ojs.exchange.direct',
    'x-dead-letter-routing-key': 'retried',
    'x-message-ttl': 500,
  })
  const bind = await wire.next('QueueBind', { queue: retryQueue })
  expect(bind.fields).toMatchObject({ exchange: 'ojs.exchange.retry', routingKey: 'retried.500' })

  // The retry and the confirm of its publish come on different connections, so the ack may still follow.
  await eventually(() => settlementsOf(wire, first).length > 0)
  const [, publish] = publishesOf(wire, id)
  const confirm = publish && wire.confirmOf(publish)
  const [ack] = settlementsOf(wire, first)
  if (!confirm || !ack) throw new Error('not confirmed or not acknowledged')
  expect(publish.fields).toMatchObject({
    exchange: 'ojs.exchange.retry',
    routingKey: 'retried.500',
  })
  expect(ack).toMatchObject({ name: 'BasicAck', fields: { multiple: false } })
  expect(wire.inOrder(publish, confirm, ack)).toBe(true)

  const second = deliveryOf(wire, id)
  expect(second.fields).toMatchObject({ exchange: 'ojs.exchange.direct', routingKey: 'retried' })
  expect(headersOf(second)['x-death']).toMatchObject([{ reason: 'expired', queue: retryQueue }])
})

it('AMQP-018 tracks the attempt in x-ojs-attempt, and discards after the last one', async () => {
  const retry = { max_attempts: 2, initial_interval_ms: 500, jitter: false }
  const options = { retry, priority: 4, tags: ['a', 'b'] }
  const id = await clients.push('counted', { options, meta: { correlation_id: 'c-1' } })
  expect(await clients.fetch('counted')).toMatchObject([{ id, attempt: 1 }])
  await clients.fail(id, { message: 'connection refused' })
  expect(await clients.fetch('counted')).toMatchObject([{ id, attempt: 2 }])
  expect(await clients.fail(id)).toMatchObject({ state: 'discarded' })
  await eventually(() => settlementsOf(wire, deliveryOf(wire, id)).length > 0)

  const [first, second] = publishesOf(wire, id)
  if (first === undefined || second === undefined) throw new Error('two job messages are needed')
  expect(headersOf(first)).toMatchObject({ 'x-ojs-attempt': 1, 'x-ojs-max-attempts': 2 })
  const { 'x-ojs-enqueued-at': _, ...before } = headersOf(first)
  expect(headersOf(second)).toMatchObject({
    ...before,
    'x-ojs-attempt': 2,
    'x-ojs-error-code': 'smtp_error',
    'x-ojs-error-message': 'connection refused',
  })
  expect({ ...second.properties, headers: 0 }).toEqual({ ...first.properties, headers: 0 })
  expect(second.body).toEqual(first.body)
  expect(headersOf(deliveryOf(wire, id))).toMatchObject({ 'x-ojs-attempt': 2 })
  expect(settlementsOf(wire, deliveryOf(wire, id))).toMatchObject([
    { name: 'BasicNack', fields: { requeue: false } },
  ])
  expect(publishesOf(wire, id)).toHaveLength(2)
})
