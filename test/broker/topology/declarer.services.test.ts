import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { BrokerWarning } from '../../../src/broker/broker.ts'
import type { ScratchChannel } from '../../../src/broker/connection/temporary-channel.ts'
import type { BrokerOptions } from '../../../src/broker/options.ts'
import { lossOf } from '../../../src/broker/topology/losses.ts'
import { loadTopology } from '../../../src/broker/topology/topology.ts'
import { topologyDiff } from '../../../src/broker/topology/topology-diff.ts'
import { createVhost, limitedUser, type Vhost } from '../../support/broker/rabbit.ts'
import { brokersOfTest } from '../fixtures.ts'
import {
  type Admin,
  type AllHooks,
  connectAdmin,
  options,
  request,
  row,
  scratch,
} from '../harness.ts'

const OWNER_ONLY = '^ojs\\.system\\.owner$'
const TO_DLX = {
  'x-dead-letter-exchange': 'ojs.exchange.dlx',
  'x-dead-letter-routing-key': 'old',
}

let vhost: Vhost
let admin: Admin
const startAt = brokersOfTest()

// Each test needs a virtual host of its own, because most of them start without declared queues.
const vhosts: Vhost[] = []

afterAll(async () => {
  await admin.close()
  for (const each of vhosts) await each.drop()
})

async function fresh(): Promise<void> {
  await admin?.close()
  vhost = await createVhost()
  vhosts.push(vhost)
  admin = await connectAdmin(vhost.url)
}

function start(given: Partial<BrokerOptions> = {}, hooks: Partial<AllHooks> = {}) {
  return startAt(vhost.url, given, hooks)
}

async function exists(queue: string): Promise<boolean> {
  const channel = await scratch(admin)
  return channel.checkQueue(queue).then(
    () => channel.close().then(() => true),
    () => false,
  )
}

function find(warnings: readonly BrokerWarning[], entity: string): BrokerWarning | undefined {
  return warnings.find((warning) => warning.details?.['entity'] === entity)
}

describe.each(['classic', 'quorum'] as const)('ensureQueue, profile %s', (queueType) => {
  beforeAll(fresh)

  it('declares a queue and everything that belongs to it, with working routes between them', async () => {
    const onControl = async () => 'malformed' as const
    const { broker, recorder } = await start({ queueType }, { onControl })
    expect(await broker.ensureQueue('email')).toBe('ready')
    expect(broker.warnings()).toEqual([])
    const { channel } = admin
    channel.publish('ojs.exchange.direct', 'email', Buffer.from('a'), { messageId: 'a' })
    const control = 'ojs.queue.control.email'
    channel.publish('ojs.exchange.direct', control, Buffer.from('c'), { messageId: 'c' })
    channel.publish('ojs.exchange.delayed', 'anything.at.all', Buffer.from('d'), { messageId: 'd' })
    await channel.waitForConfirms()
    const message = await channel.get('ojs.queue.email')
    if (message === false) throw new Error('the job queue is empty')
    channel.nack(message, false, false)
    await expect.poll(() => admin.takeAll('ojs.queue.dlx.email')).toEqual(['a'])
    await recorder.until('onDeadLetter', 1, 'a')
    await recorder.until('onDeadLetter', 1, 'c')
    await recorder.until('onScheduled', 1, 'd')
  })

  it('finds no difference in what it has declared, on a later connection', async () => {
    const { broker } = await start({ queueType, queues: ['email'], declare: 'eager' })
    expect(broker.isDeclared('email')).toBe(true)
    expect(broker.warnings()).toEqual([])
    expect(await topologyDiff({ ...options(vhost.url, { queueType }), queues: ['email'] })).toEqual(
      [],
    )
  })
})

describe('a queue that is missing', () => {
  beforeAll(fresh)

  it('is reported to the ledger before it is declared, once for all callers', async () => {
    const seen: boolean[] = []
    const onQueueMissing = async (queue: string) => {
      seen.push(await exists(`ojs.queue.${queue}`))
      return 'declare' as const
    }
    const { broker } = await start({}, { onQueueMissing })
    const outcomes = await Promise.all(Array.from({ length: 20 }, () => broker.ensureQueue('new')))
    expect(new Set(outcomes)).toEqual(new Set(['ready']))
    expect(seen).toEqual([false])
    expect(await exists('ojs.queue.new')).toBe(true)
  })

  it('is not declared when the ledger answers leave, or fails', async () => {
    const leave = await start({}, { onQueueMissing: async () => 'leave' })
    expect(await leave.broker.ensureQueue('left')).toBe('lost')
    expect(find(leave.broker.warnings(), 'ojs.queue.left')?.code).toBe('queue_missing')
    await leave.stop()
    const failing = await start(
      {},
      {
        onQueueMissing: () => Promise.reject(new Error('ledger is full')),
      },
    )
    expect(await failing.broker.ensureQueue('left')).toBe('unavailable')
    expect(await exists('ojs.queue.left')).toBe(false)
    // Not even the dead letter queue, which is declared first.
    expect(await exists('ojs.queue.dlx.left')).toBe(false)
  })

  it('is noticed and declared at the next connect when it was deleted before', async () => {
    const { broker, recorder } = await start({}, { recordedQueues: () => ['recorded'] })
    await recorder.until('onQueueMissing', 1, 'recorded')
    await expect.poll(() => broker.isDeclared('recorded')).toBe(true)
    await admin.channel.deleteQueue('ojs.queue.recorded')
    expect(broker.isDeclared('recorded')).toBe(true)
    await vhost.closeConnections()
    await recorder.until('reconnected', 1, 'declare')
    await recorder.until('onQueueMissing', 2, 'recorded')
    await expect.poll(() => broker.isDeclared('recorded')).toBe(true)
    admin = await connectAdmin(vhost.url)
    expect(await exists('ojs.queue.recorded')).toBe(true)
  })

  it('is not declared beyond maxQueues, but used when it exists', async () => {
    const { broker } = await start({ maxQueues: 2 })
    expect(await broker.ensureQueue('one')).toBe('ready')
    expect(await broker.ensureQueue('two')).toBe('ready')
    expect(await broker.ensureQueue('three')).toBe('too-many-queues')
    expect(await exists('ojs.queue.three')).toBe(false)
    await admin.channel.assertQueue('ojs.queue.four')
    expect(await broker.ensureQueue('four')).toBe('ready')
    await admin.channel.deleteQueue('ojs.queue.one')
    expect(await broker.publish(row({ queue: 'one' }))).toBe('returned')
    expect(await broker.ensureQueue('one')).toBe('ready')
  })

  it("is refused beyond the queue limit of the virtual host, with RabbitMQ's text in the warning", async () => {
    const { broker } = await start()
    expect(await broker.ensureQueue('before')).toBe('ready')
    await vhost.limitQueues(1)
    expect(await broker.ensureQueue('beyond')).toBe('access-refused')
    const warning = find(broker.warnings(), 'ojs.queue.beyond')
    expect(warning).toMatchObject({ code: 'access_refused' })
    expect(warning?.message).toContain('(1) is reached')
    await vhost.limitQueues(null)
    expect(await broker.ensureQueue('beyond')).toBe('ready')
    expect(find(broker.warnings(), 'ojs.queue.beyond')).toBeUndefined()
  })

  it('is not declared beyond maxQueues by many calls at the same time', async () => {
    const { broker } = await start({ maxQueues: 3 })
    const queues = Array.from({ length: 20 }, (_, i) => `at-once.${i}`)
    const outcomes = await Promise.all(queues.map((queue) => broker.ensureQueue(queue)))
    expect(outcomes.filter((outcome) => outcome === 'ready')).toHaveLength(3)
    expect(outcomes.filter((outcome) => outcome === 'too-many-queues')).toHaveLength(17)
  })
})

describe('an entity that exists with other arguments (406)', () => {
  beforeAll(fresh)

  it('is never created by the comparison that asks whether it can drop messages', async () => {
    const [wanted] = loadTopology(options(vhost.url)).ofQueue('vanished', '3.10.8')
    if (wanted === undefined) throw new Error('no entity')
    const channel = { run: async (call) => call(await scratch(admin)) } as Pick<
      ScratchChannel,
      'run'
    >
    expect(await lossOf(channel as ScratchChannel, wanted)).toBeNull()
    expect(await exists(wanted.name)).toBe(false)
  })

  it('is kept, used and bound, and a warning names the exact difference', async () => {
    const { channel } = admin
    await channel.assertQueue('ojs.queue.old', { arguments: { ...TO_DLX, 'x-max-priority': 5 } })
    await admin.publish('ojs.queue.old', ['before'])
    await channel.assertExchange('ojs.exchange.retry', 'topic')
    const { broker, recorder } = await start()
    expect(await broker.ensureQueue('old')).toBe('ready')
    expect(recorder.all('declareConflict').map(({ args }) => args[0])).toEqual([
      'ojs.exchange.retry',
      'ojs.queue.old',
    ])
    const warning = find(broker.warnings(), 'ojs.queue.old')
    expect(warning).toMatchObject({
      code: 'queue_differs',
      details: { argument: 'x-max-priority', expected: '10', actual: '5' },
    })
    expect(find(broker.warnings(), 'ojs.exchange.retry')).toMatchObject({
      code: 'exchange_differs',
      details: { argument: 'type', expected: 'direct', actual: 'topic' },
    })
    const job = row({ queue: 'old' })
    expect(await broker.publish(job)).toBe('confirmed')
    expect(await admin.takeAll('ojs.queue.old')).toEqual(['before', job.id])
    const diff = await topologyDiff({ ...options(vhost.url), queues: ['old'] })
    expect(find(diff, 'ojs.queue.old')).toEqual(warning)
  })

  it('is no longer a warning once it was declared anew', async () => {
    await admin.channel.assertQueue('ojs.queue.mended', { arguments: { 'x-max-priority': 3 } })
    const { broker } = await start()
    await broker.ensureQueue('mended')
    expect(find(broker.warnings(), 'ojs.queue.mended')).toBeDefined()
    await admin.channel.deleteQueue('ojs.queue.mended')
    expect(await broker.publish(row({ queue: 'mended' }))).toBe('returned')
    expect(await broker.ensureQueue('mended')).toBe('ready')
    expect(find(broker.warnings(), 'ojs.queue.mended')).toBeUndefined()
  })

  it('does not arise with the examples of seed 002 §15.1, declared before us or after us', async () => {
    const declareAsSeed = async (queue: string) => {
      const channel = await scratch(admin)
      await channel.assertExchange('ojs.exchange.direct', 'direct', { durable: true })
      await channel.assertExchange('ojs.exchange.dlx', 'direct', { durable: true })
      await channel.assertQueue(`ojs.queue.${queue}`, {
        durable: true,
        arguments: {
          'x-dead-letter-exchange': 'ojs.exchange.dlx',
          'x-dead-letter-routing-key': queue,
          'x-max-priority': 10,
        },
      })
      await channel.bindQueue(`ojs.queue.${queue}`, 'ojs.exchange.direct', queue)
    }
    const { broker } = await start()
    await declareAsSeed('seed-first')
    expect(await broker.ensureQueue('seed-first')).toBe('ready')
    expect(await broker.ensureQueue('we-first')).toBe('ready')
    await declareAsSeed('we-first')
    expect(find(broker.warnings(), 'ojs.queue.seed-first')).toBeUndefined()
  })
})

describe('declare', () => {
  beforeAll(fresh)

  it('never: declares nothing, uses what exists, and warns of what is missing', async () => {
    const given = { declare: 'never', queues: ['absent'] } as const
    const { broker, recorder } = await start(given)
    expect(await broker.ensureQueue('absent')).toBe('missing')
    expect(await broker.ensureQueue('other')).toBe('missing')
    expect(recorder.count('onQueueMissing')).toBe(0)
    const missing = broker.warnings().map((warning) => warning.details?.['entity'])
    const ofQueue = ['ojs.queue.absent', 'ojs.queue.dlx.absent', 'ojs.queue.control.absent']
    for (const name of ['ojs.exchange.direct', 'ojs.exchange.dlx', 'ojs.system.due', ...ofQueue]) {
      expect(missing).toContain(name)
      expect(await exists(name)).toBe(false)
    }
    await broker.stop(AbortSignal.timeout(5_000))

    const lazy = await start()
    await lazy.broker.ensureQueue('present')
    await lazy.stop()
    const again = await start({ ...given, queues: ['absent', 'present'] })
    expect(again.broker.isDeclared('present')).toBe(true)
    expect(new Set(again.broker.warnings().map(({ message }) => message))).toEqual(
      new Set(ofQueue.map((name) => `queue '${name}' does not exist.`)),
    )
    expect(await again.broker.publish(row({ queue: 'present' }))).toBe('confirmed')
    // There is no warning about a queue that a client names and that is not configured.
    expect(await again.broker.ensureQueue('typo')).toBe('missing')
    expect(again.broker.warnings()).toHaveLength(ofQueue.length)
  })

  it('eager: declares configured queues at start, and uses others only when somebody else declared them', async () => {
    const { broker } = await start({ declare: 'eager', queues: ['a', 'b'] })
    expect([broker.isDeclared('a'), broker.isDeclared('b')]).toEqual([true, true])
    expect(await broker.ensureQueue('c')).toBe('missing')
    await admin.channel.assertQueue('ojs.queue.c')
    expect(await broker.ensureQueue('c')).toBe('ready')
  })

  it('lazy: declares no queue before its first use', async () => {
    const { broker } = await start({ queues: ['unused'] })
    expect(broker.isDeclared('unused')).toBe(false)
    expect(await exists('ojs.queue.unused')).toBe(false)
  })
})

describe('a prefix', () => {
  beforeAll(fresh)

  it('is in front of every entity, and keeps two tenants apart', async () => {
    const one = await start({ prefix: 'tenant1' })
    const two = await start({ prefix: 'tenant2' })
    expect(one.broker.status()).toEqual({ state: 'up' })
    expect(two.broker.status()).toEqual({ state: 'up' })
    await one.broker.ensureQueue('email')
    await two.broker.ensureQueue('email')
    const job = row()
    await one.broker.publish(job)
    expect(await admin.takeAll('tenant2.ojs.queue.email')).toEqual([])
    expect(await admin.takeAll('tenant1.ojs.queue.email')).toEqual([job.id])
    expect(await exists('ojs.queue.email')).toBe(false)
  })
})

describe('a user with few rights', () => {
  beforeAll(fresh)

  it('gets a warning for a refused declare, and can use what an administrator has declared', async () => {
    const admins = await start()
    await admins.broker.ensureQueue('granted')
    await admins.stop()
    const url = await limitedUser(vhost, { configure: OWNER_ONLY, write: '.*', read: '.*' })
    const { broker } = await start({ amqpUrls: [url] })
    expect(await broker.ensureQueue('granted')).toBe('ready')
    expect(await broker.publish(row({ queue: 'granted' }))).toBe('confirmed')
    expect(await broker.ensureQueue('forbidden')).toBe('access-refused')
    expect(find(broker.warnings(), 'ojs.queue.forbidden')?.code).toBe('access_refused')
  })

  it('gets a passing warning for a queue that only a client has named, a lasting one for a queue with jobs', async () => {
    const admins = await start()
    await admins.stop()
    const url = await limitedUser(vhost, { configure: OWNER_ONLY, write: '.*', read: '.*' })
    const { broker } = await start(
      { amqpUrls: [url], watchMs: 20 },
      { recordedQueues: () => ['recorded'] },
    )
    expect(await broker.ensureQueue('recorded')).toBe('access-refused')
    expect(find(broker.warnings(), 'ojs.queue.recorded')).toBeDefined()
    expect(await broker.ensureQueue('a-typo')).toBe('access-refused')
    expect(find(broker.warnings(), 'ojs.queue.dlx.a-typo')).toBeDefined()
    const isTold = ({ message }: BrokerWarning) => message.includes('a-typo')
    await expect.poll(() => broker.warnings().some(isTold)).toBe(false)
    expect(find(broker.warnings(), 'ojs.queue.recorded')).toBeDefined()
  })

  it('gets a lasting warning for a queue that was declared by somebody else, and is used', async () => {
    const admins = await start()
    await admins.stop()
    const url = await limitedUser(vhost, { configure: OWNER_ONLY, write: '.*', read: '.*' })
    const { broker } = await start({ amqpUrls: [url], watchMs: 20 })
    expect(await broker.ensureQueue('late')).toBe('access-refused')
    for (const name of ['late', 'dlx.late', 'control.late']) {
      await admin.channel.assertQueue(`ojs.queue.${name}`)
    }
    expect(await broker.ensureQueue('late')).toBe('ready')
    expect(await broker.ensureQueue('a-typo')).toBe('access-refused')
    const isTold = ({ message }: BrokerWarning) => message.includes('a-typo')
    await expect.poll(() => broker.warnings().some(isTold)).toBe(false)
    expect(find(broker.warnings(), 'ojs.queue.late')).toBeDefined()
  })

  it('needs no more than topology/README.md says when everything is declared beforehand', async () => {
    const write = '^(ojs\\.|amq\\.default$)'
    const url = await limitedUser(vhost, { configure: OWNER_ONLY, write, read: '^ojs\\.' })
    const { broker } = await start({ amqpUrls: [url], declare: 'never' })
    expect(broker.status()).toEqual({ state: 'up' })
    expect(await broker.ensureQueue('granted')).toBe('ready')
    expect(await broker.publish(row({ queue: 'granted' }))).toBe('confirmed')
    expect(await broker.take(request(['granted'], { waitMs: 15_000 }))).toHaveLength(1)
    expect(broker.warnings()).toEqual([])
  })

  it('keeps the broker down when it may not declare the owner queue, and the reason says so', async () => {
    const url = await limitedUser(vhost, { configure: '^$', write: '.*', read: '.*' })
    const { broker } = await start({ amqpUrls: [url], declare: 'never' })
    const reason = 'ojs.system.owner: access refused'
    expect(broker.status()).toEqual({ state: 'down', reason })
  })
})

describe('topologyDiff', () => {
  beforeAll(fresh)

  it('names what is missing and declares nothing', async () => {
    const expected = [
      ...['ojs.queue.dlx.email', 'ojs.system.dead-letters', 'ojs.queue.email'],
      ...['ojs.queue.control.email', 'ojs.exchange.direct', 'ojs.exchange.dlx'],
      ...['ojs.exchange.retry', 'ojs.exchange.delayed', 'ojs.system.due.dlx', 'ojs.system.due'],
      'ojs.queue.control.default',
    ]
    const given = { ...options(vhost.url), queues: ['email'] }
    for (let twice = 0; twice < 2; twice++) {
      const diff = await topologyDiff(given)
      expect(diff.map((warning) => warning.details?.['entity'])).toEqual(expected)
    }
  })

  it('reports an entity that it may not compare as not_compared, not as different', async () => {
    const admins = await start()
    await admins.broker.ensureQueue('theirs')
    await admins.stop()
    const url = await limitedUser(vhost, { configure: OWNER_ONLY, write: '.*', read: '.*' })
    const diff = await topologyDiff({ ...options(url), queues: ['theirs', 'none'] })
    const codeOf = (entity: string) => find(diff, entity)?.code
    expect(codeOf('ojs.queue.theirs')).toBe('not_compared')
    expect(codeOf('ojs.exchange.direct')).toBe('not_compared')
    expect(codeOf('ojs.queue.none')).toBe('queue_missing')
    const { message } = find(diff, 'ojs.queue.theirs') ?? {}
    expect(message).toMatch(/^queue 'ojs.queue.theirs' exists, but cannot be compared: .*REFUSED/)
  })

  it('rejects when RabbitMQ cannot be reached, with an error that does not show the password', async () => {
    const diff = topologyDiff(options('amqp://guest:secret@127.0.0.1:1'))
    await expect(diff).rejects.toThrow(/^RabbitMQ cannot be reached: .*ECONNREFUSED/)
    await expect(diff).rejects.not.toThrow('secret')
  })
})
