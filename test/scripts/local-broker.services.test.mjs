import { connect } from 'amqplib'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { inspectLocalBroker } from '../../scripts/local-broker.mjs'
import { freePort } from '../../scripts/ports.mjs'
import { startPrivateNode } from '../support/rabbit.ts'

let node
beforeAll(async () => {
  node = await startPrivateNode({ vhost: '/' })
})
afterAll(() => node.stop())

test('guest is accepted into / when there is no vhost /ojs', async () => {
  expect(await inspectLocalBroker(node.port)).toEqual({ url: node.url('/') })
})

test('a broker that another gateway owns is refused, but not for another prefix', async () => {
  const connection = await connect(node.url('/'))
  const channel = await connection.createChannel()
  await channel.assertQueue('tenant.ojs.system.owner', { exclusive: true })
  const { problem } = await inspectLocalBroker(node.port, 'tenant')
  expect(problem).toContain('another gateway')
  expect(await inspectLocalBroker(node.port)).toHaveProperty('url')
  await connection.close()
})

test('a broker that refuses guest is a problem in one line', async () => {
  await node.ctl(['change_password', 'guest', 'other'])
  const { url, problem } = await inspectLocalBroker(node.port)
  expect(url).toBeUndefined()
  expect(problem).toMatch(/refuses guest \(.*ACCESS.REFUSED.*\)$/)
})

test('so is a port where no broker answers', async () => {
  expect(await inspectLocalBroker(await freePort())).toHaveProperty('problem')
})
