import { beforeEach, expect, it, onTestFinished } from 'vitest'
import type { Connection } from '../../../src/broker/connection/connection.ts'
import { SystemConsumer } from '../../../src/broker/consume/system-consumer.ts'
import { SILENT_OBSERVER } from '../../../src/broker/observer.ts'
import { unavailable } from '../../../src/errors.ts'
import { eventually } from '../../support/gateway/in-process.ts'
import { deferred } from '../../support/time/deferred.ts'
import { holdTimers } from '../../support/time/held-timers.ts'
import { vhostOfTest } from '../fixtures.ts'
import { logger, newDenials, startConnection } from '../harness.ts'
import { HeldChannels } from '../held-channels.ts'

const { vhost, admin } = vhostOfTest()

const SOURCE = 'ojs.system.due'

let held: HeldChannels
let connection: Connection
/** One for each message, in order: the test decides how the message was handled. */
let handled: ReturnType<typeof deferred<'ack'>>[]
let consumer: SystemConsumer
let now: number
beforeEach(async () => {
  now = 0
  held = new HeldChannels()
  await admin.channel.assertQueue(SOURCE)
  connection = await startConnection(vhost.url, { name: 'consume', random: () => 0 })
  handled = []
  consumer = new SystemConsumer({
    connection,
    denials: newDenials(),
    clock: { now: () => now, wall: () => now },
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

it('a system consumer that is suspended before RabbitMQ has accepted it is closed', async () => {
  const answered = held.answered(`consume ${SOURCE}`)
  consumer.resume()
  const { goOn } = await answered
  consumer.suspend()
  goOn()
  await expect.poll(() => connection.channelsActive).toBe(0)
  expect(await consumerCount()).toBe(0)
})

it('a system queue is consumed again after resume() although a message failed during suspend()', async () => {
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

it('a message is redelivered once when its handler has a bug, but each time when the ledger is unavailable', async () => {
  consumer.resume()
  await admin.publish(SOURCE, ['a'])
  for (const times of [1, 2]) {
    await expect.poll(() => handled.length).toBe(times)
    handled[times - 1]?.reject(new TypeError('bug'))
  }
  await expect.poll(async () => (await admin.channel.checkQueue(SOURCE)).messageCount).toBe(0)
  await admin.publish(SOURCE, ['b'])
  await expect.poll(() => handled.length).toBe(3)
  handled[2]?.reject(unavailable('The disk is full.', 'ledger'))
  await expect.poll(() => handled.length).toBe(4)
  handled[3]?.reject(unavailable('The disk is full.', 'ledger'))
  await expect.poll(() => handled.length).toBe(5)
  handled[4]?.resolve('ack')
})

/** As RabbitMQ does some 15 s after a request to a quorum queue most of whose nodes are away. */
async function endConnection(refuseQuestion = () => {}): Promise<void> {
  const { generation } = connection
  connection.listen({ down: refuseQuestion })
  connection.abandon('541')
  await eventually(() => connection.generation > generation && connection.isUp)
}

it('a system queue that does not answer is consumed ever more rarely, as each try costs the connection', async () => {
  const timers = holdTimers()
  const pass = async (ms: number) => {
    now += ms
    await timers.elapse(ms)
  }
  const QUESTION = `consume ${SOURCE}` as const
  let unsent = held.unsent(QUESTION)
  consumer.resume()
  for (const [round, aloneMs] of [30_000, 60_000, 120_000].entries()) {
    const { goOn } = await unsent
    await pass(5_000)
    await endConnection(goOn)
    unsent = held.unsent(QUESTION)
    consumer.resume()
    await pass(aloneMs - 1)
    // Everything that was to be asked by now was asked: a consume takes a channel and a prefetch.
    for (let i = 0; i < 3; i++) await (await connection.openChannel()).close()
    expect(held.times(QUESTION)).toBe(round + 1)
    await pass(1)
  }
  const { goOn } = await unsent
  goOn()
  await eventually(async () => (await consumerCount()) === 1)
  await endConnection()
  consumer.resume()
  await eventually(() => held.times(QUESTION) === 5)
})
