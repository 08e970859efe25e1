import { expect, test } from 'vitest'
import { topologyDiff } from '../../../src/broker/topology/topology-diff.ts'
import { readConfig } from '../../../src/config/config.ts'
import { createVhost, vhostForAll } from '../../support/broker/rabbit.ts'
import { startTestGateway } from '../../support/gateway/in-process.ts'

const EXCHANGE = 'ojs.exchange.delayed'

const vhost = vhostForAll()

test('the gateway does not start in mode plugin when RabbitMQ has no such plugin, and says why', async () => {
  const start = startTestGateway(vhost.url, { OJS_DELAY_MODE: 'plugin' })
  await expect(start).rejects.toThrow(
    "OJS_DELAY_MODE=plugin, but 'ojs.exchange.delayed' cannot be used: RabbitMQ has no exchange type x-delayed-message. Enable rabbitmq_delayed_message_exchange, or set OJS_DELAY_MODE=ttl.",
  )
})

test('the gateway does not start in mode plugin when the exchange was declared in mode ttl', async () => {
  const gateway = await startTestGateway(vhost.url)
  await gateway.destroy()
  const start = startTestGateway(vhost.url, { OJS_DELAY_MODE: 'plugin' })
  await expect(start).rejects.toThrow(/cannot be used: /)
})

test('`topology diff` names a delayed exchange that mode plugin cannot use, and declares nothing', async () => {
  const own = await createVhost()
  try {
    const { config } = readConfig({ OJS_AMQP_URL: own.url, OJS_DELAY_MODE: 'plugin' })
    const delayed = async () => {
      const differences = await topologyDiff(config)
      const ours = differences.filter(({ details }) => details?.['entity'] === EXCHANGE)
      return ours.map(({ message }) => message)
    }
    const start = `exchange '${EXCHANGE}' cannot be used for OJS_DELAY_MODE=plugin: `
    for (let twice = 0; twice < 2; twice++) {
      expect(await delayed()).toEqual([`${start}it does not exist.`])
    }
    const gateway = await startTestGateway(own.url)
    await gateway.destroy()
    expect(await delayed()).toEqual([expect.stringMatching(/: (RabbitMQ has no|it exists and is)/)])
  } finally {
    await own.drop()
  }
})
