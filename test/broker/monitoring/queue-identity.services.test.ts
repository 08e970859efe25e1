import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import type { Connection } from '../../../src/broker/connection/connection.ts'
import { ScratchChannel } from '../../../src/broker/connection/temporary-channel.ts'
import { QueueIdentities } from '../../../src/broker/monitoring/queue-identity.ts'
import { createNames } from '../../../src/broker/names.ts'
import type { BrokerOptions } from '../../../src/broker/options.ts'
import { uuid7 } from '../../../src/uuid.ts'
import { type PrivateNode, startPrivateNode } from '../../support/broker/rabbit.ts'
import { eventually } from '../../support/gateway/in-process.ts'
import { vhostOfTest } from '../fixtures.ts'
import {
  type AllHooks,
  logger,
  startConnection,
  type TestBroker,
  topologyWith,
} from '../harness.ts'
import { HeldChannels } from '../held-channels.ts'

const { admin, vhost, start: startAt } = vhostOfTest()

const NAME = 'ojs.queue.email'

interface Definitions {
  exchanges: { name: string }[]
  bindings: { source: string }[]
}

/** What a ledger remembers of one queue. */
class Memory {
  identity: string | null = null
  hasMessages = true
  missed = 0
  /** How often the identity was asked for: once in each check of the queues, or more. */
  asked = 0
  readonly hooks: Partial<AllHooks> = {
    identityOf: async () => {
      this.asked += 1
      return this.identity
    },
    recordIdentity: async (_queue, identity) => {
      this.identity = identity
    },
    onQueueMissing: async () => {
      this.missed += 1
      this.identity = null
      return 'declare'
    },
    hasMessages: () => this.hasMessages,
  }

  untilMarked(): Promise<void> {
    return eventually(() => this.identity !== null)
  }

  /** Waits for some checks of the queues, to show what does not happen. */
  async someLooks(): Promise<void> {
    const before = this.asked
    await eventually(() => this.asked > before + 5)
  }
}

function start(memory: Memory, given: Partial<BrokerOptions> = {}): Promise<TestBroker> {
  return startAt({ watchMs: 50, ...given }, memory.hooks)
}

/**
 * Does what a native worker does that is quicker than the gateway: it declares the queue, and consumes at
 * once. With the gateway's own arguments, because on a busy machine the gateway may be the first.
 */
async function renew(): Promise<void> {
  const entities = topologyWith().ofQueue('email', '3.10.8')
  const options = { arguments: entities.find(({ name }) => name === NAME)?.arguments }
  await admin.channel.deleteQueue(NAME)
  await admin.channel.assertQueue(NAME, options)
  await admin.channel.consume(NAME, () => {})
}

async function identityExchanges(): Promise<string[]> {
  const names = await vhost.exchanges()
  return names.filter((name) => name.startsWith('ojs.system.marker.'))
}

/** A broker whose queue has an identity. `missed` counts from here. */
async function marked(): Promise<{ memory: Memory } & TestBroker> {
  const memory = new Memory()
  const started = await start(memory)
  await started.broker.ensureQueue('email')
  await memory.untilMarked()
  memory.missed = 0
  return { memory, ...started }
}

describe('a queue that somebody deleted and somebody else declared', () => {
  it('is reported missing once, although it looks as it did', async () => {
    const { memory } = await marked()
    await renew()
    await eventually(() => memory.missed === 1)
    await memory.untilMarked()
    await memory.someLooks()
    expect(memory.missed).toBe(1)
    expect(await identityExchanges()).toEqual([`ojs.system.marker.${memory.identity}`])
  })

  it.each(['lazy', 'never'] as const)(
    'is reported missing after a reconnect before it is ready (declare: %s)',
    async (declare) => {
      const { memory, stop } = await marked()
      await stop()
      await renew()
      const { broker } = await start(memory, { watchMs: 60_000, declare })
      expect(await broker.ensureQueue('email')).toBe('ready')
      expect(memory.missed).toBe(1)
    },
  )

  it('is reported missing before it has an identity, when nobody has declared it again', async () => {
    const memory = new Memory()
    const { broker } = await start(memory, { watchMs: 1_000 })
    await broker.ensureQueue('email')
    memory.missed = 0
    await admin.channel.deleteQueue(NAME)
    await eventually(() => memory.missed === 1)
    await memory.untilMarked()
    expect(memory.missed).toBe(1)
  })

  it('is left alone while no job can have a job message in it', async () => {
    const { memory } = await marked()
    memory.hasMessages = false
    await renew()
    await memory.someLooks()
    expect(memory.missed).toBe(0)
  })
})

describe('the identity of a queue', () => {
  it('is the same over reconnects', async () => {
    const { memory, stop } = await marked()
    const { identity } = memory
    await stop()
    const { broker } = await start(memory)
    expect(await broker.ensureQueue('email')).toBe('ready')
    await memory.someLooks()
    expect(memory).toMatchObject({ identity, missed: 0 })
    expect(await identityExchanges()).toEqual([`ojs.system.marker.${identity}`])
  })

  it('is deleted with the queue', async () => {
    const { stop } = await marked()
    await stop()
    expect(await identityExchanges()).toHaveLength(1)
    await admin.channel.deleteQueue(NAME)
    expect(await identityExchanges()).toEqual([])
  })

  describe('does not count in a virtual host that was imported from definitions', () => {
    let node: PrivateNode
    beforeAll(async () => {
      node = await startPrivateNode()
    })
    afterAll(() => node?.stop())

    it.each(['stopped', 'running'])('while the gateway was %s', async (how) => {
      const memory = new Memory()
      const given = { amqpUrls: [node.url()] }
      const { broker, recorder, stop } = await start(memory, given)
      await broker.ensureQueue('email')
      await memory.untilMarked()
      const { identity } = memory
      if (how === 'stopped') await stop()
      const file = join(node.dir, 'definitions.json')
      await node.ctl(['export_definitions', file])
      const { exchanges, bindings }: Definitions = JSON.parse(readFileSync(file, 'utf8'))
      const names = new Set(exchanges.map(({ name }) => name))
      // RabbitMQ 4 ends an import at a binding from an exchange that does not exist.
      expect(bindings.filter(({ source }) => !names.has(source))).toEqual([])
      await node.ctl(['delete_vhost', '/ojs'])
      if (how === 'running') await recorder.until('reconnecting', 1, 'declare')
      // RabbitMQ deletes the queue before it closes the connections; a check in between is not the subject.
      Object.assign(memory, { identity, missed: 0 })
      await node.ctl(['import_definitions', file])
      if (how === 'stopped') await (await start(memory, given)).broker.ensureQueue('email')
      await eventually(() => memory.missed === 1)
      await memory.untilMarked()
      await memory.someLooks()
      expect(memory.missed).toBe(1)
    })
  })

  it('of an earlier build, which no export contains, is believed and replaced', async () => {
    const { memory, stop } = await marked()
    await stop()
    memory.identity = uuid7()
    const old = `ojs.system.marker.${memory.identity}`
    const options = { durable: true, autoDelete: true, internal: true }
    await admin.channel.assertExchange(old, 'fanout', options)
    await admin.channel.bindQueue(NAME, old, '')
    const { broker } = await start(memory)
    expect(await broker.ensureQueue('email')).toBe('ready')
    await eventually(async () => !(await vhost.exchanges()).includes(old))
    expect(await identityExchanges()).toContain(`ojs.system.marker.${memory.identity}`)
    expect(memory.missed).toBe(0)
  })

  it('is not checked after the queue was found missing', async () => {
    const memory = new Memory()
    const { broker, recorder } = await start(memory, { watchMs: 1_000 })
    await broker.ensureQueue('email')
    await eventually(async () => (await identityExchanges()).length === 1)
    await admin.channel.deleteQueue(NAME)
    await broker.recheckQueue('email')
    const before = recorder.count('channelError')
    await memory.untilMarked()
    expect(recorder.count('channelError')).toBe(before)
  })

  it('is tried once for a queue that is gone, and set when it is back', async () => {
    const { memory, broker, recorder } = await marked()
    memory.hasMessages = false
    await admin.channel.deleteQueue(NAME)
    const before = recorder.count('channelError')
    memory.identity = null
    await memory.someLooks()
    // One check of the identity that was set, if there was time for it, and one bind.
    expect(recorder.count('channelError') - before).toBeLessThanOrEqual(2)
    // A try declares an identity exchange, and deletes it again.
    await expect.poll(identityExchanges).toEqual([])
    await broker.recheckQueue('email')
    await memory.untilMarked()
  })

  it('is not set with declare: never', async () => {
    const { stop } = await marked()
    await stop()
    const memory = new Memory()
    const { broker } = await start(memory, { declare: 'never' })
    expect(await broker.ensureQueue('email')).toBe('ready')
    await memory.someLooks()
    expect(memory.identity).toBe(null)
    expect(await identityExchanges()).toHaveLength(1)
  })
})

describe('the check of an identity', () => {
  const ORIGIN = 'ojs.system.origin'
  const IDENTITY = 'q-018f0000-0000-7000-8000-000000000000'
  const EXCHANGE = `ojs.system.marker.${IDENTITY}`
  let held: HeldChannels
  let connection: Connection
  let gone: string[]
  let identities: QueueIdentities
  beforeEach(async () => {
    held = new HeldChannels()
    connection = await startConnection(vhost.url, { name: 'declare', random: () => 0 })
    onTestFinished(() => connection.close())
    gone = []
    identities = new QueueIdentities({
      connection,
      names: createNames(''),
      logger,
      hooks: {
        queues: { identityOf: async () => IDENTITY, recordIdentity: async () => {} },
        jobs: { hasMessages: () => true },
      },
      readyQueues: () => ['email'],
      options: { declare: 'lazy' },
      onGone: (queue) => gone.push(queue),
    })
    await admin.channel.assertQueue(NAME)
    await admin.channel.assertExchange(EXCHANGE, 'fanout', { autoDelete: true })
    await admin.channel.bindQueue(NAME, EXCHANGE, '')
  })

  const declareOrigin = () => admin.channel.assertExchange(ORIGIN, 'fanout', { internal: true })

  async function isSame(): Promise<boolean> {
    const scratch = new ScratchChannel(connection)
    const answer = await identities.isSame(scratch, 'email')
    await scratch.close()
    return answer
  }

  it('that gets no answer does not make the queue another one, whose jobs would be published again', async () => {
    await declareOrigin()
    held.breakOff(`checkExchange ${EXCHANGE}`)
    const scratch = new ScratchChannel(connection)
    await identities.look(scratch)
    await scratch.close()
    expect([await isSame(), gone]).toEqual([true, []])
    expect(held.times(`checkExchange ${EXCHANGE}`)).toBe(2)
  })

  it('that gets no answer about the origin of the identities is repeated', async () => {
    held.breakOff(`checkExchange ${ORIGIN}`)
    expect(await isSame()).toBe(true)
    held.release()
    expect(await isSame()).toBe(false)
  })

  it('that was answered on a lost connection does not count on the next one', async () => {
    const answered = held.answered(`checkExchange ${ORIGIN}`)
    const same = isSame()
    const { goOn } = await answered
    const { generation } = connection
    connection.abandon('cut')
    await eventually(() => connection.generation > generation)
    goOn()
    expect(await same).toBe(true)
    await declareOrigin()
    expect(await isSame()).toBe(true)
  })
})
