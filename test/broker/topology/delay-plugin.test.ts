import { afterEach, describe, expect, it } from 'vitest'
import { Connection } from '../../../src/broker/connection/connection.ts'
import { outgoingOf } from '../../../src/broker/messages/owed-message.ts'
import { createNames } from '../../../src/broker/names.ts'
import { Publisher } from '../../../src/broker/publish/publisher.ts'
import {
  declareDelayedExchange,
  lookForDelayedExchange,
} from '../../../src/broker/topology/delay-plugin.ts'
import { systemClock } from '../../../src/clock.ts'
import { FakePeer } from '../fake-peer.ts'
import { logger, newDenials, Recorder, row, topologyWith } from '../harness.ts'

/** The plugin is archived and not installed: a scripted peer plays the broker with it or without it. */

const EXCHANGE = 'ojs.exchange.delayed'
const peers: FakePeer[] = []
afterEach(async () => {
  for (const peer of peers.splice(0)) await peer.stop()
})

async function startPeer(): Promise<FakePeer> {
  const peer = await FakePeer.start()
  peers.push(peer)
  return peer
}

function declareOn(url: string) {
  const options = { amqpUrls: [url], connectionName: 'test', logger, mayDeclare: true }
  return declareDelayedExchange({ ...options, exchange: EXCHANGE })
}

function lookOn(url: string) {
  const options = { amqpUrls: [url], connectionName: 'test', logger }
  return lookForDelayedExchange({ ...options, exchange: EXCHANGE })
}

const ERROR = { classId: 40, methodId: 10 }

describe('the delayed message exchange', () => {
  it('is declared as seed 002 §8.4 says, on a connection of its own', async () => {
    const peer = await startPeer()
    expect(await declareOn(peer.url)).toEqual({ state: 'ready' })
    expect(peer.received.get('ExchangeDeclare')).toMatchObject({
      exchange: EXCHANGE,
      type: 'x-delayed-message',
      durable: true,
      passive: false,
      arguments: { 'x-delayed-type': 'direct' },
    })
    expect(peer.connections).toBe(1)
    expect(peer.received.has('ConnectionClose')).toBe(true)
  })

  it('is unusable when RabbitMQ closes the connection because it does not know the type', async () => {
    const peer = await startPeer()
    const replyText = "COMMAND_INVALID - unknown exchange type 'x-delayed-message'"
    const closed = { replyCode: 503, replyText, ...ERROR }
    peer.refusals.set('ExchangeDeclare', ['ConnectionClose', closed])
    const reason = 'RabbitMQ has no exchange type x-delayed-message'
    expect(await declareOn(peer.url)).toEqual({ state: 'unusable', reason })
  })

  it('is unusable when RabbitMQ 4 closes the channel because it does not know the type', async () => {
    const peer = await startPeer()
    const replyText = "PRECONDITION_FAILED - unknown exchange type 'x-delayed-message'"
    peer.refusals.set('ExchangeDeclare', ['ChannelClose', { replyCode: 406, replyText, ...ERROR }])
    const reason = 'RabbitMQ has no exchange type x-delayed-message'
    expect(await declareOn(peer.url)).toEqual({ state: 'unusable', reason })
  })

  it('is unusable when another exchange has its name', async () => {
    const peer = await startPeer()
    const replyText = `PRECONDITION_FAILED - inequivalent arg 'type' for exchange '${EXCHANGE}'`
    const closed = { replyCode: 406, replyText, ...ERROR }
    peer.refusals.set('ExchangeDeclare', ['ChannelClose', closed])
    const answer = await declareOn(peer.url)
    expect(answer).toMatchObject({ state: 'unusable' })
    expect(answer).toHaveProperty('reason', expect.stringContaining("inequivalent arg 'type'"))
  })

  it('is reported missing without being declared', async () => {
    const peer = await startPeer()
    const closed = { replyCode: 404, replyText: 'NOT_FOUND - no exchange', ...ERROR }
    peer.refusals.set('ExchangeDeclare', ['ChannelClose', closed])
    expect(await lookOn(peer.url)).toEqual({ state: 'unusable', reason: 'it does not exist' })
    expect(peer.received.get('ExchangeDeclare')).toMatchObject({ passive: true })
  })

  it('is compared with a declare when it exists', async () => {
    const peer = await startPeer()
    expect(await lookOn(peer.url)).toEqual({ state: 'ready' })
    const compared = { passive: false, type: 'x-delayed-message', durable: true }
    expect(peer.received.get('ExchangeDeclare')).toMatchObject(compared)
    expect(peer.connections).toBe(2)
  })

  it('is unavailable, not unusable, while no broker answers', async () => {
    expect(await declareOn('amqp://127.0.0.1:1')).toMatchObject({ state: 'unavailable' })
  })

  it('receives the job message of a scheduled job with the remaining time as x-delay', async () => {
    const peer = await startPeer()
    const recorder = new Recorder()
    const shared = { logger, random: () => 0.5, observer: recorder.observer }
    const name = { name: 'publish', connectionName: 'test' } as const
    const connection = new Connection({ ...shared, ...name, urls: [peer.url] })
    const publisher = new Publisher({
      ...shared,
      connection,
      denials: newDenials(),
      clock: systemClock(),
      names: createNames(''),
      timeoutMs: 10_000,
      onReturned: () => {},
      onUnanswered: () => {},
      onOpen: () => recorder.note('onOpen'),
      onChannelError: () => {},
    })
    try {
      await connection.start()
      await recorder.until('onOpen')
      const wall = 1_700_000_000_000
      const due = row({ id: 'due' }, { state: 'scheduled', dueAt: wall + 42_000, retryQueueMs: 0 })
      const past = row({ id: 'past' }, { state: 'scheduled', dueAt: wall - 5, retryQueueMs: 0 })
      const sent = [due, past].map((one) => publisher.send(outgoingOf(one, createNames(''), wall)))
      const published = await peer.until(2)
      for (const one of published) peer.ack(one)
      expect(await Promise.all(sent)).toEqual(['confirmed', 'confirmed'])
      const to = { exchange: EXCHANGE, routingKey: 'email', mandatory: false }
      expect(published).toMatchObject([
        { ...to, messageId: 'due', headers: { 'x-delay': 42_000, 'x-ojs-attempt': 1 } },
        { ...to, messageId: 'past', headers: { 'x-delay': 0 } },
      ])
    } finally {
      publisher.stop()
      await connection.close()
    }
  })

  it('is bound to every job queue, and is no part of the base topology', () => {
    const topology = topologyWith({ prefix: 't', delayMode: 'plugin' })
    const exchange = 't.ojs.exchange.delayed'
    expect(topology.base('3.10.8').map(({ name }) => name)).not.toContain(exchange)
    const bindings = [...topology.base('3.10.8'), ...topology.ofQueue('email', '3.10.8')].flatMap(
      (one) => (one.entity === 'queue' ? one.bindings.map((to) => ({ of: one.name, ...to })) : []),
    )
    expect(bindings.filter((to) => to.exchange === exchange)).toEqual([
      { of: 't.ojs.queue.email', exchange, key: 'email' },
    ])
  })
})
