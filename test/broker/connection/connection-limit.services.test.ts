import { afterEach, beforeEach, expect, it, onTestFinished } from 'vitest'
import { createVhost, type Vhost } from '../../support/broker/rabbit.ts'
import { eventually } from '../../support/gateway/in-process.ts'
import { brokersOfTest } from '../fixtures.ts'
import { startConnection } from '../harness.ts'

let vhost: Vhost
const startAt = brokersOfTest()

beforeEach(async () => {
  vhost = await createVhost()
})

afterEach(() => vhost.drop())

it('the reply connection takes no place from the other three when RabbitMQ allows three connections', async () => {
  const { broker } = await startAt(vhost.url)
  const answer = { correlationId: 'c', type: 'ojs.control.info', body: '{}' }
  // RabbitMQ cannot read this address, and may close the connection for it; the gateway opens another one.
  await broker.reply({ ...answer, replyTo: 'amq.rabbitmq.reply-to.a.b' })
  const active = () => broker.gauges().connectionsActive
  await expect.poll(active, { timeout: 15_000 }).toBe(4)
  await vhost.limitConnections(3)
  for (let round = 0; round < 4; round++) {
    await vhost.closeConnections()
    await expect.poll(() => broker.status().state, { interval: 5 }).toBe('down')
    await expect.poll(() => broker.status(), { timeout: 30_000 }).toEqual({ state: 'up' })
  }
  expect(active()).toBe(3)
})

it('a connection gives its place at the connection limit to one that has precedence', async () => {
  const first = await startConnection(vhost.url, { name: 'publish' })
  const behind = await startConnection(vhost.url, { name: 'reply', behind: [first] })
  onTestFinished(async () => {
    await Promise.all([first.close(), behind.close()])
  })
  expect([first.isUp, behind.isUp]).toEqual([true, true])
  await vhost.limitConnections(1)
  first.abandon('cut')
  await eventually(() => first.generation === 2)
  expect(behind.isUp).toBe(false)
  await vhost.limitConnections(2)
  await eventually(() => behind.generation === 2)
  expect(first.generation).toBe(2)
})

it('a connection stays open when the one that has precedence is closed for good', async () => {
  const first = await startConnection(vhost.url, { name: 'declare' })
  const behind = await startConnection(vhost.url, { name: 'reply', behind: [first] })
  onTestFinished(() => behind.close())
  await first.close()
  await behind.openChannel()
  expect(behind.generation).toBe(1)
})
