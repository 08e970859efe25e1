import { Connection } from '../../src/broker/connection/connection.ts'
import type { Outgoing } from '../../src/broker/messages/outgoing-message.ts'
import { createNames } from '../../src/broker/names.ts'
import { Publisher } from '../../src/broker/publish/publisher.ts'
import { systemClock } from '../../src/clock.ts'
import { FakePeer } from './fake-peer.ts'
import { logger, newDenials, Recorder } from './harness.ts'

const opened: { connection: Connection; publisher: Publisher; peer: FakePeer }[] = []

export async function closeAll(): Promise<void> {
  for (const { connection, publisher, peer } of opened.splice(0)) {
    publisher.stop()
    await connection.close()
    await peer.stop()
  }
}

/** A publisher and the scripted peer that it is connected to. */
export async function open(timeoutMs = 10_000) {
  const peer = await FakePeer.start()
  const recorder = new Recorder()
  const shared = { logger, random: () => 0.5, observer: recorder.observer }
  const connection = new Connection({
    ...shared,
    name: 'publish',
    urls: [peer.url],
    connectionName: 'test',
    isPrompt: true,
  })
  const publisher = new Publisher({
    ...shared,
    connection,
    denials: newDenials(),
    clock: systemClock(),
    names: createNames(''),
    timeoutMs,
    onReturned: (queue, retryQueueMs) => recorder.note('onReturned', queue, retryQueueMs),
    onUnanswered: (queue, retryQueueMs) => recorder.note('onUnanswered', queue, retryQueueMs),
    onOpen: () => recorder.note('onOpen'),
    onChannelError: (code) => recorder.note('onChannelError', code),
  })
  opened.push({ connection, publisher, peer })
  await connection.start()
  await recorder.until('onOpen')
  return { peer, recorder, connection, publisher }
}

export function outgoing(id: string, given: Partial<Outgoing> = {}): Outgoing {
  return {
    id,
    queue: 'email',
    exchange: 'ojs.exchange.direct',
    routingKey: given.queue ?? 'email',
    retryQueueMs: null,
    group: 'jobs',
    content: Buffer.from('{}'),
    options: { messageId: id, mandatory: true },
    ...given,
  }
}

export function count(outcomes: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const outcome of outcomes) counts[outcome] = (counts[outcome] ?? 0) + 1
  return counts
}
