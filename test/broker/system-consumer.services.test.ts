import { beforeEach, expect, it, onTestFinished } from 'vitest'
import type { Connection } from '../../src/broker/connection.ts'
import { SILENT_OBSERVER } from '../../src/broker/observer.ts'
import { SystemConsumer } from '../../src/broker/system-consumer.ts'
import { systemClock } from '../../src/clock.ts'
import { deferred } from '../support/deferred.ts'
import { vhostOfTest } from './fixtures.ts'
import { logger, startConnection } from './harness.ts'
import { HeldChannels } from './held-channels.ts'

const { vhost, admin } = vhostOfTest()

const SOURCE = 'ojs.system.due'

let held: HeldChannels
let connection: Connection
/** What becomes of each message, in their order. */
let handled: ReturnType<typeof deferred<'ack'>>[]
let consumer: SystemConsumer
beforeEach(async () => {
  held = new HeldChannels()
  await admin.channel.assertQueue(SOURCE)
  connection = await startConnection(vhost.url, { name: 'consume', random: () => 0 })
  handled = []
  consumer = new SystemConsumer({
    connection,
    clock: systemClock(),
    logger,
    observer: SILENT_OBSERVER,
    random: () => 0.5,
    instance: 'test',
    source: SOURCE,
    label: SOURCE,
    handle: () => {
      const message = deferred<'ack'>()
      handled.push(message)
      return message.promise
    },
    onQueueGone() {},
  })
  onTestFinished(async () => {
    await consumer.stop()
    await connection.close()
  })
})

async function consumerCount(): Promise<number> {
  return (await admin.channel.checkQueue(SOURCE)).consumerCount
}

it('who consumes a system queue ends also where that was not accepted yet', async () => {
  const answered = held.answered(`consume ${SOURCE}`)
  consumer.resume()
  const { goOn } = await answered
  consumer.suspend()
  goOn()
  await expect.poll(() => connection.channelsActive).toBe(0)
  expect(await consumerCount()).toBe(0)
})

it('who could not handle a message of one keeps nobody from consuming it again', async () => {
  consumer.resume()
  await admin.publish(SOURCE, ['a'])
  await expect.poll(() => handled.length).toBe(1)
  consumer.suspend()
  await expect.poll(consumerCount).toBe(0)
  consumer.resume()
  expect(held.times(`consume ${SOURCE}`)).toBe(1)
  handled[0]?.reject(new Error('disk full'))
  await expect.poll(() => handled.length).toBe(2)
  handled[1]?.resolve('ack')
  await expect.poll(consumerCount).toBe(1)
  expect([held.times(`consume ${SOURCE}`), connection.channelsActive]).toEqual([2, 1])
})
