import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, describe, expect, it } from 'vitest'
import { Connection } from '../../../src/broker/connection/connection.ts'
import { isInTime } from '../../../src/broker/connection/reconnect.ts'
import { ScratchChannel } from '../../../src/broker/connection/temporary-channel.ts'
import { FakePeer } from '../fake-peer.ts'
import { ofLogger, Recorder } from '../harness.ts'

const LOOK_MS = 20
const opened: (() => Promise<unknown>)[] = []

afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close()
})

/** All waits are a hundredth or less of what they are. */
async function connect() {
  const peer = await FakePeer.start()
  opened.push(() => peer.stop())
  const recorder = new Recorder()
  const connection = new Connection({
    name: 'consume',
    urls: [peer.url],
    connectionName: 'test consume',
    logger: ofLogger([]),
    random: () => -1.48,
    observer: recorder.observer,
    lookMs: LOOK_MS,
  })
  connection.listen({
    up: () => recorder.note('up'),
    down: (reason) => recorder.note('down', reason),
  })
  opened.push(() => connection.close())
  await connection.start()
  return { peer, connection, recorder }
}

/** Everything that waits for RabbitMQ's answer, while heartbeats go on. */
const REQUESTS = [
  ['channel.open', 'ChannelOpen', (it: Connection) => it.openChannel()],
  ['confirm.select', 'ConfirmSelect', (it: Connection) => it.openConfirmChannel()],
  [
    'exchange.declare',
    'ExchangeDeclare',
    async (it: Connection) => (await it.openChannel()).assertExchange('a', 'direct'),
  ],
] as const

describe('a request that RabbitMQ does not answer', () => {
  it.each(REQUESTS)(
    'is rejected with its connection, which is opened again: %s',
    async (_, method, ask) => {
      const { peer, connection, recorder } = await connect()
      peer.unanswered.add(method)
      const asked = ask(connection)
      await expect(asked).rejects.toThrow('no reply will be forthcoming')
      peer.unanswered.clear()
      await recorder.until('up', 2)
      await expect(ask(connection)).resolves.toBeDefined()
    },
  )

  it('ends the connection sooner if no other request is answered either', async () => {
    const { peer, connection, recorder } = await connect()
    const channel = await connection.openChannel()
    for (const method of ['ExchangeDeclare', 'ChannelOpen']) peer.unanswered.add(method)
    await expect(channel.checkExchange('a')).rejects.toThrow('no reply will be forthcoming')
    const [{ args } = { args: [] }] = recorder.all('down')
    expect(args).toEqual(['RabbitMQ does not answer on this connection any more'])
  })

  it('may wait for its queue while other channels get answers', async () => {
    const { peer, connection, recorder } = await connect()
    const channel = await connection.openChannel()
    peer.unanswered.add('ExchangeDeclare')
    void channel.checkExchange('a').catch(() => {})
    for (let times = 0; times < 5; times++) await once(peer, 'ChannelOpen')
    expect(recorder.count('down')).toBe(0)
  })

  it('may be answered behind deliveries that arrive all the time', async () => {
    const { peer, connection, recorder } = await connect()
    const consumerTag = 'a'.repeat(250)
    peer.refusals.set('BasicConsume', ['BasicConsumeOk', { consumerTag }])
    const channel = await connection.openChannel()
    let received = 0
    await channel.consume('a', () => void received++, { consumerTag })
    for (const method of ['ExchangeDeclare', 'ChannelOpen']) peer.unanswered.add(method)
    const asked = channel.checkExchange('a')
    // At least 2 KB before each look. They last for twelve looks, six of which would end a silent connection;
    // on a slow machine for fifty, fewer than a request may wait.
    for (let times = 0; times < 50; times++) {
      for (let i = 0; i < 8; i++) peer.deliver(1, consumerTag)
      await sleep(LOOK_MS / 4)
    }
    peer.send(1, 'ExchangeDeclareOk', {})
    await asked
    expect(recorder.count('down')).toBe(0)
    expect(received).toBe(400)
  })

  it('does not end a connection that RabbitMQ has blocked', async () => {
    const { peer, connection, recorder } = await connect()
    const channel = await connection.openChannel()
    for (const method of ['ExchangeDeclare', 'ChannelOpen']) peer.unanswered.add(method)
    peer.send(0, 'ConnectionBlocked', { reason: 'low on memory' })
    const asked = channel.checkExchange('a')
    expect(await isInTime(asked, 500)).toBe(false)
    peer.send(0, 'ConnectionUnblocked', {})
    await expect(asked).rejects.toThrow('no reply will be forthcoming')
    expect(recorder.count('down')).toBe(1)
  })
})

it('notices on an idle connection that RabbitMQ no longer answers', async () => {
  const { peer, connection, recorder } = await connect()
  await connection.openChannel()
  await once(peer, 'BasicCancel')
  await once(peer, 'BasicCancel')
  expect(recorder.count('down')).toBe(0)
  for (const method of ['BasicCancel', 'ChannelOpen']) peer.unanswered.add(method)
  await recorder.until('down')
  peer.unanswered.clear()
  await recorder.until('up', 2)
})

it('opens a connection again if RabbitMQ does not answer the connection.close of amqplib', async () => {
  const { peer, connection, recorder } = await connect()
  peer.unanswered.add('ConnectionClose')
  // Of a channel that there is not.
  peer.closeChannel(7, 406)
  await recorder.until('up', 2)
  expect(recorder.count('down')).toBe(1)
  expect(connection.isUp).toBe(true)
})

it('does not wait for ever for the answer to the close of a scratch channel', async () => {
  const { peer, connection } = await connect()
  peer.unanswered.add('ChannelClose')
  const scratch = new ScratchChannel(connection)
  await scratch.run((channel) => channel.assertExchange('a', 'direct'))
  await scratch.close(20)
})

it('ends a connection whose only lost answer is that to its own request', async () => {
  const { peer, connection, recorder } = await connect()
  await connection.openChannel()
  peer.unanswered.add('BasicCancel')
  await recorder.until('down')
  const [{ args } = { args: [] }] = recorder.all('down')
  expect(args).toEqual(['RabbitMQ has left a request unanswered'])
})
