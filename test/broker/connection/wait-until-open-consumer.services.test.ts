import { expect, it } from 'vitest'
import { TcpProxy } from '../../support/broker/tcp-proxy.ts'
import { vhostOfTest } from '../fixtures.ts'
import { idsOf, newIds, request } from '../harness.ts'

/** Class and method, as AMQP frames begin. */
const BASIC_CONSUME = Buffer.from([0, 60, 0, 20])

const { vhost, admin, start } = vhostOfTest()

it.each(['quorum', 'classic'] as const)(
  'a consumer of a %s queue that was declared anew before consume-ok arrived is started again',
  async (queueType) => {
    const queue = `opening-${queueType}`
    const source = `ojs.queue.${queue}`
    let isHeld = false
    const proxy = await TcpProxy.start(vhost.url, (connection, direction, chunk) => {
      const isConsume = chunk.includes(BASIC_CONSUME) && chunk.includes(source)
      if (isHeld || direction !== 'to-broker' || !isConsume) return
      isHeld = true
      proxy.holdOne(connection, 'to-gateway')
    })
    try {
      const { broker } = await start({ amqpUrls: [proxy.url], queueType, idleMs: 600_000 })
      expect(await broker.ensureQueue(queue)).toBe('ready')
      const taken = broker.take(request([queue], { waitMs: 20_000 }))
      await expect.poll(async () => (await admin.channel.checkQueue(source)).consumerCount).toBe(1)
      await admin.channel.deleteQueue(source)
      expect(await broker.recheckQueue(queue)).toBe('ready')
      proxy.release('to-gateway')
      const ids = newIds(1)
      await admin.publish(source, ids)
      expect(idsOf(await taken)).toEqual(ids)
    } finally {
      await proxy.stop()
    }
  },
)
