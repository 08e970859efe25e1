import { afterAll, beforeAll, expect, it } from 'vitest'
import { createVhost, type Vhost } from '../support/rabbit.ts'
import { TcpProxy } from '../support/tcp-proxy.ts'
import { brokersOfTest } from './fixtures.ts'
import { type Admin, connectAdmin, idsOf, newIds, request } from './harness.ts'

/** Class and method, as AMQP frames begin. */
const BASIC_CONSUME = Buffer.from([0, 60, 0, 20])
/** Longer than it takes to look for a queue and to declare it. */
const LATE_MS = 1_000

let vhost: Vhost
let admin: Admin
const startAt = brokersOfTest()

beforeAll(async () => {
  vhost = await createVhost()
  admin = await connectAdmin(vhost.url)
})
afterAll(async () => {
  await admin.close()
  await vhost.drop()
})

it.each(['quorum', 'classic'] as const)(
  'a consumer whose %s queue was declared anew before it heard that it was taken is another one then',
  async (queueType) => {
    const queue = `opening-${queueType}`
    const source = `ojs.queue.${queue}`
    const proxy = await TcpProxy.start(vhost.url, (connection, direction, chunk) => {
      const isConsume = chunk.includes(BASIC_CONSUME) && chunk.includes(source)
      if (direction === 'to-broker' && isConsume) proxy.lag(connection, LATE_MS)
    })
    try {
      const { broker } = await startAt(proxy.url, { queueType, idleMs: 600_000 })
      expect(await broker.ensureQueue(queue)).toBe('ready')
      const taken = broker.take(request([queue], { waitMs: 20_000 }))
      await expect.poll(async () => (await admin.channel.checkQueue(source)).consumerCount).toBe(1)
      await admin.channel.deleteQueue(source)
      expect(await broker.recheckQueue(queue)).toBe('ready')
      const ids = newIds(1)
      await admin.publish(source, ids)
      expect(idsOf(await taken)).toEqual(ids)
    } finally {
      await proxy.stop()
    }
  },
)
