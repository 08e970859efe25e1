import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, it, onTestFinished } from 'vitest'
import { Connection } from '../../../src/broker/connection/connection.ts'
import { ControlPublisher } from '../../../src/broker/control/publisher.ts'
import { createNames } from '../../../src/broker/names.ts'
import { systemClock } from '../../../src/clock.ts'
import { FakePeer } from '../fake-peer.ts'
import { logger, newDenials, Recorder } from '../harness.ts'

const NOWHERE = 'amqp://127.0.0.1:1'
const EXCLUSIVE = 'amq.gen-1'
const DIRECT = 'amq.rabbitmq.reply-to.a.b'

/** Not connected yet. `answerMs`: how long an answer may wait, given where the test needs more. */
function publisherTo(url: string, answerMs?: number) {
  const recorder = new Recorder()
  const shared = { logger, random: () => 0.5, observer: recorder.observer }
  const connecting = { ...shared, urls: [url], connectionName: 'test' }
  const connection = new Connection({ ...connecting, name: 'publish' })
  const replyConnection = new Connection({ ...connecting, name: 'reply' })
  const publisher = new ControlPublisher({
    ...shared,
    connection,
    reply: replyConnection,
    declare: connection,
    denials: newDenials(),
    names: createNames(''),
    clock: systemClock(),
    timeoutMs: 10_000,
    ...(answerMs !== undefined && { answerMs }),
    onOpen: () => recorder.note('onOpen'),
    onChannelError: () => {},
  })
  onTestFinished(async () => {
    publisher.stop()
    await connection.close()
    await replyConnection.close()
  })
  const reply = (replyTo: string, body = '{}') =>
    publisher.reply({ correlationId: 'c', type: 'ojs.control.info', body, replyTo })
  return { publisher, connection, recorder, reply }
}

async function startPeer(): Promise<FakePeer> {
  const peer = await FakePeer.start()
  onTestFinished(() => peer.stop())
  return peer
}

it.each([EXCLUSIVE, DIRECT])(
  'replies to %s are refused and forgotten when no connection comes up',
  async (to) => {
    const { publisher, reply } = publisherTo(NOWHERE)
    const outcomes = Promise.all([reply(to), reply(to), reply(to)])
    expect(publisher.waiting).toBe(3)
    expect(await outcomes).toEqual(['refused', 'refused', 'refused'])
    expect(publisher.waiting).toBe(0)
  },
)

// The consume connection is often back first, and questions arrive before answers can be published.
it('a reply waits for the connection that it is published on', async () => {
  const peer = await startPeer()
  const { publisher, connection, recorder, reply } = publisherTo(peer.url, 60_000)
  const outcome = reply(EXCLUSIVE)
  await nextTurn()
  expect(publisher.waiting).toBe(1)
  await connection.start()
  const [answer] = await peer.until(1)
  if (!answer) throw new Error('nothing was published')
  expect(answer).toMatchObject({ routingKey: EXCLUSIVE, mandatory: true })
  peer.ack(answer)
  expect([await outcome, publisher.waiting]).toEqual(['confirmed', 0])
  expect(recorder.all('onOpen')).toHaveLength(1)
})

it('a reply that was not sent when its channel closed waits for the next channel', async () => {
  const peer = await startPeer()
  const { connection, recorder, reply } = publisherTo(peer.url, 60_000)
  await connection.start()
  await recorder.until('onOpen')
  // As many unconfirmed publishes as a channel takes; the last reply waits for their confirms.
  const sent = Array.from({ length: 384 }, () => reply(EXCLUSIVE))
  const last = reply(EXCLUSIVE)
  const [first] = await peer.until(sent.length)
  peer.closeChannel(first?.channel ?? 0, 541)
  expect(new Set(await Promise.all(sent))).toEqual(new Set(['unknown']))
  const answer = (await peer.until(sent.length + 1)).at(-1)
  if (!answer) throw new Error('nothing was published')
  peer.ack(answer)
  expect(await last).toBe('confirmed')
})

it('waiting replies of both kinds together are limited in bytes and in number', async () => {
  const { publisher, reply } = publisherTo(NOWHERE)
  const large = 'x'.repeat(8 * 1024 * 1024)
  const outcomes = [EXCLUSIVE, DIRECT, EXCLUSIVE, DIRECT, EXCLUSIVE].map((to) => reply(to, large))
  await nextTurn()
  expect(publisher.waiting).toBeLessThanOrEqual(4)
  const waiting = publisher.waiting
  const small = Array.from({ length: 1_100 }, () => reply(EXCLUSIVE, ''))
  expect(publisher.waiting).toBeGreaterThan(waiting)
  expect(publisher.waiting).toBe(1_024)
  expect(new Set(await Promise.all([...outcomes, ...small]))).toEqual(new Set(['refused']))
  expect(publisher.waiting).toBe(0)
})
