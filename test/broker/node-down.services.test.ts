import { afterAll, beforeAll, expect, it } from 'vitest'
import { topologyDiff } from '../../src/broker/topology/topology-diff.ts'
import { isRabbitmqFrom, type PrivateNode, startPrivateNode } from '../support/broker/rabbit.ts'
import { eventually } from '../support/gateway/in-process.ts'
import { brokersOfTest } from './fixtures.ts'
import { row } from './harness.ts'

const start = brokersOfTest()

let node: PrivateNode
beforeAll(async () => {
  node = await startPrivateNode()
})
afterAll(() => node.stop())

const nameOf = (queue: string) => `rabbit_misc:r(<<"/ojs">>, queue, <<"${queue}">>)`

/**
 * Does what RabbitMQ does to a classic queue whose node of the cluster goes down: the queue stays in the
 * table of durable queues, and leaves the other one. (From 4.0 on it is kept elsewhere.)
 */
async function takeAway(queue: string): Promise<void> {
  const keep = `persistent_term:put(away, hd(mnesia:dirty_read(rabbit_queue, ${nameOf(queue)})))`
  await node.evaluate(`${keep}, mnesia:dirty_delete(rabbit_queue, ${nameOf(queue)})`)
}

async function bringBack(): Promise<void> {
  await node.evaluate('mnesia:dirty_write(rabbit_queue, persistent_term:get(away))')
}

it.skipIf(isRabbitmqFrom(4, 0)).each(['ojs.queue.control.default', 'ojs.queue.control.email'])(
  '%s on a node that is down only causes a warning, and other queues can be used',
  async (queue) => {
    const before = await start(node.url(), { queues: ['email'] })
    await before.stop()
    await takeAway(queue)
    const { broker } = await start(node.url(), { queues: ['email'] })
    await eventually(() => broker.status().state === 'up')
    expect(await broker.ensureQueue('email')).toBe('ready')
    expect(await broker.publish(row())).toBe('confirmed')
    const away = { code: 'queue_away', details: { entity: queue } }
    expect(broker.warnings()).toMatchObject([away])
    const options = {
      prefix: '',
      queueType: 'classic',
      delayMode: 'ttl',
      topologyPath: null,
    } as const
    const amqpUrls = [node.url()]
    expect(await topologyDiff({ ...options, amqpUrls, queues: ['email'] })).toMatchObject([away])
    await bringBack()
    await eventually(() => broker.warnings().length === 0)
  },
)

it.skipIf(isRabbitmqFrom(4, 0))(
  'a job queue on a node that is down is unavailable, with a warning, until the node is back',
  async () => {
    const before = await start(node.url(), { queues: ['email'] })
    await before.stop()
    await takeAway('ojs.queue.email')
    const { broker } = await start(node.url(), {}, { recordedQueues: () => ['email'] })
    expect(await broker.ensureQueue('other')).toBe('ready')
    expect(await broker.ensureQueue('email')).toBe('unavailable')
    expect(broker.warnings()).toMatchObject([{ details: { entity: 'ojs.queue.email' } }])
    await bringBack()
    await eventually(() => broker.isDeclared('email'))
    expect(broker.warnings()).toEqual([])
  },
)
