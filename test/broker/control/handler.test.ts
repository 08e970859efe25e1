import type { ConsumeMessage } from 'amqplib'
import { expect, it, vi } from 'vitest'
import type { ControlVerdict } from '../../../src/broker/broker.ts'
import type { ControlChannel } from '../../../src/broker/control/channel.ts'
import { ControlHandler } from '../../../src/broker/control/handler.ts'
import { SILENT_OBSERVER } from '../../../src/broker/observer.ts'
import { systemClock } from '../../../src/clock.ts'

const MESSAGE = {
  content: Buffer.from('{}'),
  fields: { redelivered: false },
  properties: { type: 'ojs.control.report' },
} as ConsumeMessage

const aBug = () => {
  throw new Error('a bug')
}

/** How a message is settled after `onControl`; the callbacks in `after` throw. */
async function settled(
  onControl: () => Promise<ControlVerdict>,
  after: { observe?: () => void; onSettled?: () => void } = {},
): Promise<string[]> {
  const settle = vi.fn((_message: ConsumeMessage, _how: string) => true)
  const errors: unknown[] = []
  const log = { debug() {}, info() {}, warn() {}, error: (fields: object) => errors.push(fields) }
  const observe = after.observe ?? (() => {})
  const handler = new ControlHandler({
    clock: systemClock(),
    logger: log,
    observer: { ...SILENT_OBSERVER, acked: observe, deadLettered: observe, givenBack: observe },
    onControl,
    onSettled: after.onSettled ?? (() => {}),
    // Aborted already, so that a message is given back without the usual delay.
    stopping: AbortSignal.abort(),
  })
  handler.take({ settle } as unknown as ControlChannel, 'email', MESSAGE)
  await handler.finished()
  expect(errors).toHaveLength(Object.keys(after).length)
  return settle.mock.calls.map(([, how]) => how)
}

it('a control message is acknowledged, dead-lettered or requeued as its handler decides', async () => {
  expect(await settled(async () => 'handled')).toEqual(['ack'])
  expect(await settled(async () => 'malformed')).toEqual(['dead-letter'])
  expect(await settled(async () => aBug())).toEqual(['requeue'])
  expect(await settled(aBug)).toEqual(['requeue'])
})

it('a control message is settled once, whatever the observer or onSettled throws', async () => {
  expect(await settled(async () => 'handled', { observe: aBug })).toEqual(['ack'])
  expect(await settled(async () => 'malformed', { observe: aBug })).toEqual(['dead-letter'])
  expect(await settled(async () => 'handled', { onSettled: aBug })).toEqual(['ack'])
  expect(await settled(aBug, { observe: aBug })).toEqual(['requeue'])
})

/** A handler whose messages end when the test says so, and a channel. */
function open() {
  const begun: string[] = []
  const settle = vi.fn((_message: ConsumeMessage, _how: string) => true)
  const channel = { settle, isClosed: false }
  let release = () => {}
  const stopping = new AbortController()
  const handler = new ControlHandler({
    clock: systemClock(),
    logger: { debug() {}, info() {}, warn() {}, error() {} },
    observer: SILENT_OBSERVER,
    onControl: ({ queue, content }) => {
      begun.push(`${queue} ${content.length}`)
      return new Promise((resolve) => {
        release = () => resolve('handled')
      })
    },
    onSettled: () => {},
    stopping: stopping.signal,
  })
  const take = (queue: string, bytes: number) => {
    const message = { ...MESSAGE, content: Buffer.alloc(bytes) }
    handler.take(channel as unknown as ControlChannel, queue, message)
  }
  return { begun, settle, channel, handler, stopping, take, release: () => release() }
}

// RabbitMQ delivers them again: handled late, they would come after newer messages of their queue.
it('control messages whose channel is gone before their turn are not handled', async () => {
  const { begun, channel, handler, take, release } = open()
  for (const bytes of [200_000, 200_001]) take('flood', bytes)
  channel.isClosed = true
  release()
  await handler.finished()
  expect(begun).toEqual(['flood 200000'])
})

it('control messages that wait for their turn when the gateway stops are left to RabbitMQ', async () => {
  const { begun, settle, handler, stopping, take, release } = open()
  for (const bytes of [200_000, 200_001, 200_002]) take('flood', bytes)
  const finished = handler.finished()
  stopping.abort()
  release()
  await finished
  expect(begun).toEqual(['flood 200000'])
  expect(settle).toHaveBeenCalledTimes(1)
})

it('a sync that waits for the reports of a queue does not keep them from their turn', async () => {
  const { begun, handler, take, release } = open()
  take('flood', 200_000)
  take('flood', 200_001)
  const reported = handler.reportsOf('flood')
  release()
  await expect.poll(() => begun.length).toBe(2)
  release()
  await reported
})
