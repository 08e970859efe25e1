import { connect } from 'amqplib'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { inspectLocalBroker } from '../../../scripts/broker/local-broker.mjs'
import { freePort } from '../../../scripts/process/ports.mjs'
import { startPrivateNode } from '../../support/broker/rabbit.ts'

let node
beforeAll(async () => {
  node = await startPrivateNode({ vhost: '/' })
})
afterAll(() => node.stop())

test('inspectLocalBroker accepts guest in / when there is no vhost /ojs', async () => {
  expect(await inspectLocalBroker(node.port)).toEqual({ url: node.url('/') })
})

test('inspectLocalBroker refuses a broker that another gateway with the same prefix owns', async () => {
  const connection = await connect(node.url('/'))
  const channel = await connection.createChannel()
  await channel.assertQueue('tenant.ojs.system.owner', { exclusive: true })
  const { problem } = await inspectLocalBroker(node.port, 'tenant')
  expect(problem).toContain('another gateway')
  expect(await inspectLocalBroker(node.port)).toHaveProperty('url')
  await connection.close()
})

test('inspectLocalBroker reports a broker that refuses guest as a problem', async () => {
  await node.ctl(['change_password', 'guest', 'other'])
  const { url, problem } = await inspectLocalBroker(node.port)
  expect(url).toBeUndefined()
  expect(problem).toMatch(/refuses guest \(.*ACCESS.REFUSED.*\)$/)
})

test('inspectLocalBroker reports a port without a broker as a problem', async () => {
  expect(await inspectLocalBroker(await freePort())).toHaveProperty('problem')
})
