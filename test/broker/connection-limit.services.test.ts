import { afterAll, beforeAll, expect, it } from 'vitest'
import { createVhost, type Vhost } from '../support/rabbit.ts'
import { brokersOfTest } from './fixtures.ts'

let vhost: Vhost
const startAt = brokersOfTest()

beforeAll(async () => {
  vhost = await createVhost()
})

afterAll(() => vhost.drop())

it('where RabbitMQ takes three connections, that for direct answers takes the place of none', async () => {
  const { broker } = await startAt(vhost.url)
  const answer = { correlationId: 'c', type: 'ojs.control.info', body: '{}' }
  // RabbitMQ cannot read the address, and may end the connection for it; another one follows.
  await broker.reply({ ...answer, replyTo: 'amq.rabbitmq.reply-to.a.b' })
  const active = () => broker.gauges().connectionsActive
  await expect.poll(active, { timeout: 15_000 }).toBe(4)
  await vhost.limitConnections(3)
  for (let round = 0; round < 4; round++) {
    await vhost.closeConnections()
    await expect.poll(() => broker.status().state, { interval: 5 }).toBe('down')
    await expect.poll(() => broker.status(), { timeout: 15_000 }).toEqual({ state: 'up' })
  }
  expect(active()).toBe(3)
})
