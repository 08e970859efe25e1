import { expect, it, onTestFinished } from 'vitest'
import { Connection } from '../../src/broker/connection.ts'
import { ControlPublisher } from '../../src/broker/control-publisher.ts'
import { createNames } from '../../src/broker/names.ts'
import { systemClock } from '../../src/clock.ts'
import { logger, Recorder } from './harness.ts'

it('keeps nothing of answers that no connection was there for', async () => {
  const url = 'amqp://127.0.0.1:1'
  const shared = { logger, random: () => 0.5, observer: new Recorder().observer }
  const connecting = { ...shared, urls: [url], connectionName: 'test' }
  const connection = new Connection({ ...connecting, name: 'publish' })
  const replyConnection = new Connection({ ...connecting, name: 'reply' })
  const publisher = new ControlPublisher({
    ...shared,
    connection,
    replyConnection,
    names: createNames(''),
    clock: systemClock(),
    timeoutMs: 10_000,
    onOpen: () => {},
    onChannelError: () => {},
  })
  onTestFinished(async () => {
    publisher.stop()
    await replyConnection.close()
  })
  const answer = { correlationId: 'c', type: 'ojs.control.info', body: '{}' }
  const reply = () => publisher.reply({ ...answer, replyTo: 'amq.rabbitmq.reply-to.a.b' })
  const outcomes = Promise.all([reply(), reply(), reply()])
  expect(publisher.waiting).toBe(3)
  expect(await outcomes).toEqual(['refused', 'refused', 'refused'])
  expect(publisher.waiting).toBe(0)
})
