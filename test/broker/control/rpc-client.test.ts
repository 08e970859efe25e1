import { EventEmitter } from 'node:events'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { beforeEach, expect, it } from 'vitest'
import type { Connection } from '../../../src/broker/connection/connection.ts'
import type { ConnectionListener } from '../../../src/broker/connection/connection-options.ts'
import { DirectRpc, type RpcReply } from '../../../src/broker/control/rpc-client.ts'
import type { Outgoing } from '../../../src/broker/messages/outgoing-message.ts'
import { deferred } from '../../support/time/deferred.ts'
import { logger } from '../harness.ts'

/** Longer than anything in this file waits. */
const NEVER_MS = 3_600_000
const SILENT: RpcReply = { outcome: 'silent' }

/** A channel that records the questions, and answers when the test says so. */
class FakeChannel extends EventEmitter {
  readonly asked: string[] = []
  isClosed = false
  #reply: (message: object | null) => void = () => {}

  async consume(_queue: string, onReply: (message: object | null) => void): Promise<void> {
    this.#reply = onReply
  }
  publish(_exchange: string, _key: string, _content: Buffer, options: object): void {
    this.asked.push('correlationId' in options ? String(options.correlationId) : '')
  }
  answer(correlationId: string): void {
    const properties = { correlationId, type: 'ojs.control.info' }
    this.#reply({ properties, content: Buffer.from('{"is":1}') })
  }
  async close(): Promise<void> {
    this.isClosed = true
    this.emit('close')
  }
}

const ANSWERED = { outcome: 'answered', type: 'ojs.control.info', body: { is: 1 } }

let rpc: DirectRpc
let channels: FakeChannel[]
let listener: ConnectionListener
/** Makes openChannel() reject. */
let refusal: Error | null
/** Delays openChannel() until it resolves. */
let gate: Promise<void>

beforeEach(() => {
  channels = []
  refusal = null
  gate = Promise.resolve()
  const connection = {
    listen: (given: ConnectionListener) => {
      listener = given
    },
    async openChannel() {
      if (refusal) throw refusal
      await gate
      const channel = new FakeChannel()
      channels.push(channel)
      return channel
    },
  }
  rpc = new DirectRpc(connection as unknown as Connection, logger)
})

const ask = (id: string, timeoutMs = NEVER_MS) =>
  rpc.ask(
    { id, exchange: 'e', routingKey: 'q', content: Buffer.alloc(0), options: {} } as Outgoing,
    timeoutMs,
  )

function channel(index = 0): FakeChannel {
  const found = channels[index]
  if (!found) throw new Error('no channel was opened')
  return found
}

it('direct RPC gives each question its own answer, on one channel', async () => {
  const answers = [ask('a'), ask('b')]
  await nextTurn()
  expect(channel().asked).toEqual(['a', 'b'])
  channel().answer('b')
  channel().emit('return', { properties: { correlationId: 'a' } })
  expect(await Promise.all(answers)).toEqual([{ outcome: 'returned' }, ANSWERED])
  expect(channels).toHaveLength(1)
})

it('direct RPC reports silence after its timeout, and ignores an answer that comes later', async () => {
  expect(await ask('a', 1)).toEqual(SILENT)
  channel().answer('a')
  const again = ask('a')
  await nextTurn()
  channel().answer('a')
  expect(await again).toEqual(ANSWERED)
})

it.each(['connection', 'channel'])(
  'direct RPC does not wait for answers when their %s is lost',
  async (what) => {
    const lost = ask('a')
    await nextTurn()
    if (what === 'channel') channel().emit('close')
    else listener.down?.('cut')
    expect(await lost).toEqual(SILENT)
    const next = ask('b')
    await nextTurn()
    channel(1).answer('b')
    expect(await next).toEqual(ANSWERED)
  },
)

it('direct RPC reports silence at once when no channel opens, and tries again with the next question', async () => {
  refusal = new Error('no connection')
  expect(await ask('a')).toEqual(SILENT)
  refusal = null
  const next = ask('b')
  await nextTurn()
  channel().answer('b')
  expect(await next).toEqual(ANSWERED)
})

it('direct RPC keeps its questions on a newer channel when an old one closes', async () => {
  const lost = ask('a')
  await nextTurn()
  listener.down?.('cut')
  expect(await lost).toEqual(SILENT)
  const next = ask('b')
  await nextTurn()
  channel(0).emit('close')
  const other = ask('c')
  await nextTurn()
  for (const id of ['b', 'c']) channel(1).answer(id)
  expect(await Promise.all([next, other])).toEqual([ANSWERED, ANSWERED])
  expect(channels).toHaveLength(2)
})

it('direct RPC keeps its questions on a newer channel when an old one cannot be opened', async () => {
  const opening = deferred()
  gate = opening.promise
  const lost = ask('a')
  listener.down?.('cut')
  expect(await lost).toEqual(SILENT)
  gate = Promise.resolve()
  const next = ask('b')
  await nextTurn()
  opening.reject(new Error('no connection'))
  await nextTurn()
  const other = ask('c')
  await nextTurn()
  for (const id of ['b', 'c']) channel().answer(id)
  expect(await Promise.all([next, other])).toEqual([ANSWERED, ANSWERED])
  expect(channels).toHaveLength(1)
})

it('direct RPC does not publish a question that nobody waits for any more', async () => {
  const asked = ask('a')
  listener.down?.('cut')
  expect(await asked).toEqual(SILENT)
  await nextTurn()
  expect(channels.map((one) => one.asked)).toEqual([[]])
})

it('direct RPC closes its channel and reports silence for open questions when it is closed', async () => {
  const asked = ask('a')
  await nextTurn()
  await rpc.close()
  expect([channel().isClosed, await asked]).toEqual([true, SILENT])
})
