import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import type { Connection } from '../../../src/broker/connection/connection.ts'
import { ControlConsumer } from '../../../src/broker/control/consumer.ts'
import { createNames } from '../../../src/broker/names.ts'
import { SILENT_OBSERVER } from '../../../src/broker/observer.ts'
import { systemClock } from '../../../src/clock.ts'
import { eventually } from '../../support/gateway/in-process.ts'
import { holdTimers } from '../../support/time/held-timers.ts'
import { vhostOfTest } from '../fixtures.ts'
import { logger, newDenials, startConnection } from '../harness.ts'
import { HeldChannels } from '../held-channels.ts'

const { vhost, admin } = vhostOfTest()

const RETRY_MS = 1_000
const of = (queue: string) => `ojs.queue.control.${queue}`

let held: HeldChannels
let connection: Connection
let timers: ReturnType<typeof holdTimers>
let consumer: ControlConsumer
beforeEach(async () => {
  held = new HeldChannels()
  connection = await startConnection(vhost.url, { name: 'consume', random: () => 0 })
  timers = holdTimers()
  consumer = new ControlConsumer({
    connection,
    denials: newDenials(),
    names: createNames(''),
    clock: systemClock(),
    logger,
    observer: SILENT_OBSERVER,
    random: () => 0.5,
    instance: 'test',
    mayConsume: () => true,
    onControl: async () => 'handled',
    onQueueGone() {},
    onBacklogConsumed() {},
  })
  onTestFinished(async () => {
    await consumer.stop()
    await connection.close()
  })
})

async function resume(...queues: string[]): Promise<void> {
  for (const queue of queues) {
    await admin.channel.assertQueue(of(queue))
    consumer.queueReady(queue)
  }
  consumer.resume()
}

/** Resolves when the queue has one consumer, the `count`th that was started on it. */
function untilConsumed(queue: string, count: number): Promise<void> {
  return eventually(async () => {
    const { consumerCount } = await admin.channel.checkQueue(of(queue))
    return consumerCount === 1 && held.times(`consume ${of(queue)}`) === count
  })
}

/** Asks for a queue that does not exist, for which RabbitMQ closes the channel. */
async function closeChannelOf(queue: string): Promise<void> {
  const channel = held.channelOf(`consume ${of(queue)}`)
  const closed = new Promise((resolve) => channel.once('close', resolve))
  await expect(channel.checkQueue('none')).rejects.toThrow('NOT_FOUND')
  await closed
}

/** Resolves when everything that was to be asked on this connection by now has been asked. */
async function settled(): Promise<void> {
  await (await connection.openChannel()).close()
}

describe('a closed channel of control queues', () => {
  it('is not used again when its queues are consumed anew', async () => {
    await resume('a', 'b', 'c', 'd')
    // Four channels are used in turn, so the next consumer would be on the first one.
    await untilConsumed('d', 1)
    await closeChannelOf('a')
    await timers.elapse(RETRY_MS)
    await untilConsumed('a', 2)
    await untilConsumed('b', 1)
  })

  it('that belonged to a lost connection does not keep one of the next connection from being replaced', async () => {
    await resume('a')
    await untilConsumed('a', 1)
    await closeChannelOf('a')
    connection.abandon('cut')
    await eventually(() => connection.generation === 2)
    consumer.resume()
    await untilConsumed('a', 2)
    await closeChannelOf('a')
    await timers.elapse(RETRY_MS)
    await untilConsumed('a', 3)
  })
})

describe('control queues whose passive declare fails', () => {
  it('are asked for again by one timer, with growing delays', async () => {
    held.breakOff(`checkQueue ${of('a')}`, `checkQueue ${of('b')}`)
    await resume('a', 'b')
    const asked = () => ['a', 'b'].map((queue) => held.times(`checkQueue ${of(queue)}`))
    for (const [i, delayMs] of [RETRY_MS, 2 * RETRY_MS].entries()) {
      await eventually(() => asked().every((times) => times === i + 1))
      await eventually(() => connection.channelsActive === 0)
      await timers.elapse(delayMs - 1)
      await settled()
      expect(asked()).toEqual([i + 1, i + 1])
      if (i === 1) held.release()
      await timers.elapse(1)
    }
    await untilConsumed('a', 1)
    await untilConsumed('b', 1)
  })

  it('are not consumed when the consumer is suspended before the answer arrives', async () => {
    const answered = held.answered(`checkQueue ${of('a')}`)
    await resume('a', 'b')
    const { goOn } = await answered
    consumer.suspend()
    goOn()
    // The channel of the passive declare is closed, and no other was opened.
    await eventually(() => connection.channelsActive === 0)
    expect(held.asked).toEqual([`checkQueue ${of('a')}`])
  })
})
