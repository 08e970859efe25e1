import { afterAll, beforeAll, expect, test } from 'vitest'
import { startTestGateway } from '../support/in-process.ts'
import { createVhost, type Vhost } from '../support/rabbit.ts'

let vhost: Vhost
beforeAll(async () => {
  vhost = await createVhost()
})
afterAll(() => vhost.drop())

test('a RabbitMQ without the plugin: the gateway says so and does not start', async () => {
  const start = startTestGateway(vhost.url, { OJS_DELAY_MODE: 'plugin' })
  await expect(start).rejects.toThrow(
    "OJS_DELAY_MODE=plugin, but 'ojs.exchange.delayed' cannot be used: RabbitMQ has no exchange type x-delayed-message. Enable rabbitmq_delayed_message_exchange, or set OJS_DELAY_MODE=ttl.",
  )
})

test('nor where the exchange is the one of mode ttl', async () => {
  const gateway = await startTestGateway(vhost.url)
  await gateway.destroy()
  const start = startTestGateway(vhost.url, { OJS_DELAY_MODE: 'plugin' })
  await expect(start).rejects.toThrow(/cannot be used: /)
})
