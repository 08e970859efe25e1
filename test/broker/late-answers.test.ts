import { EventEmitter } from 'node:events'
import { expect, it, onTestFinished } from 'vitest'
import { Connection } from '../../src/broker/connection/connection.ts'
import type { ConnectionListener } from '../../src/broker/connection/connection-options.ts'
import { createNames } from '../../src/broker/names.ts'
import { Declarer } from '../../src/broker/topology/declarer.ts'
import { EntityChecker } from '../../src/broker/topology/entity-checker.ts'
import type { Topology } from '../../src/broker/topology/topology.ts'
import { FakePeer } from './fake-peer.ts'
import { logger, ofLogger, Recorder } from './harness.ts'

/** Answers that arrive, and connections that could open, when it does not matter any more. */

it('a queue whose last answer came in the read that ended the connection is checked again on the next one', async () => {
  let listener: ConnectionListener = {}
  let asked = 0
  class EndingChannel extends EventEmitter {
    async checkQueue() {
      asked += 1
      return { messageCount: 0, consumerCount: 0 }
    }

    async assertQueue() {}

    bindQueue(): Promise<object> {
      return new Promise((resolve) => {
        setImmediate(() => {
          resolve({})
          if (connection.generation > 1) return
          // amqplib handles all frames of one read in one turn.
          connection.isUp = false
          listener.down?.('CONNECTION_FORCED')
        })
      })
    }

    async close() {
      this.emit('close')
    }
  }
  const connection = {
    isUp: true,
    generation: 1,
    serverVersion: '3.10.8',
    listen: (one: ConnectionListener) => {
      listener = one
    },
    openChannel: async () => new EndingChannel(),
  }
  const entity = {
    ...{ entity: 'queue', kind: 'job', name: 'ojs.queue.q', arguments: {} },
    bindings: [{ exchange: 'x', key: 'q' }],
  }
  const ready: number[] = []
  const declarer = new Declarer({
    connection: connection as unknown as Connection,
    topology: { base: () => [], ofQueue: () => [entity] } as unknown as Topology,
    names: createNames(''),
    options: { declare: 'lazy', queues: [], maxQueues: 10 },
    hooks: { queues: { recordedQueues: () => ['q'], onQueueMissing: async () => 'declare' } },
    checker: new EntityChecker({
      options: { declare: 'lazy' },
      observer: new Recorder().observer,
      logger,
    }),
    logger,
    onDeclare() {},
    onReady: () => void ready.push(connection.generation),
  })
  await declarer.ensureKnown()
  const before = asked
  Object.assign(connection, { isUp: true, generation: 2 })
  await declarer.ensureKnown()
  expect(asked).toBeGreaterThan(before)
  expect(ready).toEqual([2])
})

async function setUp() {
  const peer = await FakePeer.start()
  onTestFinished(() => peer.stop())
  const recorder = new Recorder()
  const { observer } = recorder
  const note = () => recorder.note('up')
  const all = () => recorder.all('up')
  const connect = (name: 'publish' | 'reply', behind: Connection[] = []) => {
    const options = {
      urls: [peer.url],
      connectionName: 't',
      logger: ofLogger([]),
      random: () => 0.5,
    }
    return new Connection({ name, ...options, observer, behind })
  }
  /** A connection that had gone on opening would be up by then. */
  const untilAnotherIsUp = async () => {
    const another = connect('publish')
    await another.start()
    expect(another.isUp).toBe(true)
    await another.close()
  }
  return { connect, note, all, untilAnotherIsUp }
}

it('a connection that is closed in the turn of its start never comes up', async () => {
  const { connect, note, all, untilAnotherIsUp } = await setUp()
  const connection = connect('publish')
  connection.listen({ up: note })
  const started = connection.start()
  await connection.close()
  await started
  await connection.start()
  await untilAnotherIsUp()
  expect(all()).toEqual([])
})

it('a connection that is closed while it waits for others never comes up, even when they do', async () => {
  const { connect, note, all, untilAnotherIsUp } = await setUp()
  const first = connect('publish')
  const last = connect('reply', [first])
  last.listen({ up: note })
  void last.start()
  await first.start()
  await last.close()
  await first.close()
  await untilAnotherIsUp()
  expect(all()).toEqual([])
})
