import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { ScratchChannel } from '../../src/broker/connection/temporary-channel.ts'
import { DepthSampler } from '../../src/broker/monitoring/depth-sampler.ts'
import { createNames } from '../../src/broker/names.ts'
import type { ConnectionName } from '../../src/broker/observer.ts'
import { BACK_LIMIT_MS } from '../crash/service-back.ts'
import { type PrivateNode, startPrivateNode } from '../support/broker/rabbit.ts'
import { TcpProxy } from '../support/broker/tcp-proxy.ts'
import { leastOfThree, Stopwatch } from '../support/time/stopwatch.ts'
import { vhostOfTest } from './fixtures.ts'
import { idsOf, newIds, ofLogger, request, row, startConnection } from './harness.ts'

const { vhost, admin, start } = vhostOfTest()

/** A node takes 4 s to start, and half a minute when many others use the machine. */
const RESTART_MS = 150_000

describe.each(['classic', 'quorum'] as const)('RabbitBroker, profile %s', (queueType) => {
  it('carries a job from publish to ack', async () => {
    const { broker, recorder } = await start({ queueType })
    expect(broker.status()).toEqual({ state: 'up' })
    const ups = recorder.seen.map(({ event }) => event).filter((event) => event.endsWith('Up'))
    expect(ups.slice(0, 2)).toEqual(['onConsumeUp', 'onUp'])
    expect(broker.isDeclared('email')).toBe(false)
    expect(await broker.ensureQueue('email')).toBe('ready')
    expect(broker.isDeclared('email')).toBe(true)
    const job = row({ priority: 4 }, { attempt: 2, generation: 3 })
    expect(await broker.publish(job)).toBe('confirmed')
    const [delivery, ...others] = await broker.take(request(['email']))
    expect(others).toEqual([])
    expect(delivery).toMatchObject({
      id: job.id,
      queue: 'email',
      attempt: 3,
      generation: 3,
      maxAttempts: 3,
      redelivered: false,
    })
    expect(delivery?.message.properties).toMatchObject({ messageId: job.id, priority: 4 })
    expect(delivery?.carry()).toEqual({})
    expect(delivery?.ack()).toBe('settled')
    expect(delivery?.ack()).toBe('lost')
    expect(delivery?.isLive()).toBe(false)
  })

  it('delivers a native message with its attempt, headers and correlation id', async () => {
    const { broker } = await start({ queueType })
    await broker.ensureQueue('email')
    const [id] = newIds(1)
    await admin.publish('ojs.queue.email', [String(id)], {
      headers: { 'x-ojs-attempt': 2, 'x-ojs-max-attempts': 7, tenant: 'blue', blob: Buffer.of(1) },
      correlationId: 'c',
    })
    const [delivery] = await broker.take(request(['email']))
    expect(delivery).toMatchObject({ id, attempt: 2, maxAttempts: 7, generation: 0 })
    expect(delivery?.carry()).toEqual({
      correlationId: 'c',
      headers: { tenant: 'blue', blob: { '!': 'bytes', value: 'AQ==' } },
    })
  })
})

describe('RabbitBroker.start()', () => {
  it('does not fail without RabbitMQ; the status says why it is down, without the password', async () => {
    const { broker } = await start({ amqpUrls: ['amqp://guest:secret@127.0.0.1:1'] })
    const status = broker.status()
    expect(status).toMatchObject({ state: 'down' })
    expect(JSON.stringify(status)).toContain('ECONNREFUSED')
    expect(JSON.stringify(status)).not.toContain('secret')
    expect(await broker.publish(row())).toBe('refused')
    expect(await broker.ensureQueue('email')).toBe('unavailable')
    expect(await broker.probeQueue('email')).toBe('unavailable')
    expect(await broker.take(request(['email'], { waitMs: 0 }))).toEqual([])
    expect(broker.isDeclared('email')).toBe(false)
  })

  it('takes ten seconds at most, however many hosts do not answer', async () => {
    const silent = createServer()
    silent.listen(0, '127.0.0.1')
    await once(silent, 'listening')
    onTestFinished(() => void silent.close())
    const { port } = silent.address() as AddressInfo
    const watch = new Stopwatch()
    const { broker } = await start({ amqpUrls: Array(3).fill(`amqp://127.0.0.1:${port}`) })
    expect(watch.elapsedMs).toBeLessThan(15_000)
    expect(broker.status()).toMatchObject({ state: 'down' })
  })

  it('waits for the queues that the configuration names, but not for every queue of an earlier run', async () => {
    const startMs = async () => {
      const watch = new Stopwatch()
      const { broker, stop } = await start(
        { queues: ['configured'] },
        {
          recordedQueues: () => ['configured', 'earlier'],
          onQueueMissing: async (queue) => {
            if (queue === 'earlier') await new Promise(() => {})
            // Longer than start() waits for other queues.
            await sleep(1_500)
            return 'declare'
          },
        },
      )
      const { elapsedMs } = watch
      watch.end()
      expect(broker.status()).toEqual({ state: 'up' })
      expect(['configured', 'earlier'].map((queue) => broker.isDeclared(queue))).toEqual([
        true,
        false,
      ])
      await stop()
      await admin.channel.deleteQueue('ojs.queue.configured')
      return elapsedMs
    }
    expect(await leastOfThree(startMs, 6_000)).toBeLessThan(6_000)
  })

  it('throws for a topology file that cannot be read', async () => {
    await expect(start({ topologyPath: '/nowhere.json' })).rejects.toThrow('nowhere.json')
  })

  it('can be followed by several calls of stop(), which close all connections and channels', async () => {
    const { broker } = await start()
    const deadline = AbortSignal.timeout(5_000)
    await Promise.all([broker.stop(deadline), broker.stop(deadline)])
    await broker.stop(deadline)
    expect(broker.status()).toEqual({ state: 'down', reason: 'stopped' })
    expect(await broker.publish(row())).toBe('refused')
    expect(broker.gauges()).toMatchObject({ connectionsActive: 0, channelsActive: 0 })
  })
})

describe('RabbitBroker without its declare connection', () => {
  /** Cuts `first`, if given, and the declare connection; what was cut cannot come back until `release`. */
  async function startAndCut(given: Parameters<typeof start>[1] = {}, first?: ConnectionName) {
    const numbers = new Map<string, number>()
    const proxy = await TcpProxy.start(vhost.url, (connection, direction, chunk) => {
      const name = direction === 'to-broker' && /ojs-rabbitmq (\w+)/.exec(chunk.toString())?.[1]
      if (name) numbers.set(name, connection)
    })
    onTestFinished(() => proxy.stop())
    const started = await start({ amqpUrls: [proxy.url] }, given)
    for (const queue of ['email', 'other']) await started.broker.ensureQueue(queue)
    proxy.refuse(true)
    const cut = async (name: ConnectionName) => {
      proxy.cutOne(numbers.get(name) ?? 0)
      await started.recorder.until('reconnecting', 1, name)
    }
    if (first) await cut(first)
    await cut('declare')
    return { ...started, cut, release: () => proxy.refuse(false) }
  }

  it('publishes and takes jobs of queues that were ready, and declares no others', async () => {
    const { broker, recorder, release } = await startAndCut()
    expect(broker.status()).toEqual({ state: 'up' })
    expect(broker.warnings()).toMatchObject([{ code: 'declare_connection_down' }])
    expect(['email', 'new'].map((queue) => broker.isDeclared(queue))).toEqual([true, false])
    const job = row()
    expect(await broker.publish(job)).toBe('confirmed')
    expect(idsOf(await broker.take(request(['email'])))).toEqual([job.id])
    expect(await broker.ensureQueue('new')).toBe('unavailable')
    release()
    await recorder.until('reconnected', 1, 'declare')
    await expect.poll(() => broker.warnings()).toEqual([])
    expect(await broker.ensureQueue('new')).toBe('ready')
    expect([broker.status().state, recorder.count('onUp')]).toEqual(['up', 1])
  })

  it('no longer counts a queue as declared when a publish to it is returned', async () => {
    const { broker, recorder, release } = await startAndCut()
    await admin.channel.deleteQueue('ojs.queue.email')
    expect(await broker.publish(row())).toBe('returned')
    expect(['email', 'other'].map((queue) => broker.isDeclared(queue))).toEqual([false, true])
    release()
    await recorder.until('onQueueMissing', 3)
    await expect.poll(() => broker.isDeclared('email')).toBe(true)
    expect(await broker.publish(row())).toBe('confirmed')
  })

  // A native worker that is about to consume a queue asks for it like this (`sync`).
  it('goes on using a queue that was only asked for', async () => {
    const { broker } = await startAndCut()
    expect(await broker.recheckQueue('email')).toBe('unavailable')
    expect(broker.isDeclared('email')).toBe(true)
    expect(await broker.publish(row())).toBe('confirmed')
  })

  it('does not use a queue that was deleted meanwhile before onQueueMissing was called for it', async () => {
    const usable: boolean[] = []
    const hook = { onQueueMissing: async (_queue: string) => 'declare' as const }
    const { broker, release } = await startAndCut({
      onQueueMissing: (queue) => hook.onQueueMissing(queue),
    })
    hook.onQueueMissing = async (queue) => {
      usable.push(broker.isDeclared(queue))
      return 'declare'
    }
    await admin.channel.deleteQueue('ojs.queue.email')
    expect(broker.isDeclared('email')).toBe(true)
    release()
    await expect.poll(() => usable).toEqual([false])
    await expect.poll(() => broker.isDeclared('email')).toBe(true)
  })

  it('counts no queue as declared when the publish connection is lost too', async () => {
    const { broker, cut } = await startAndCut()
    await cut('publish')
    expect(['email', 'other'].map((queue) => broker.isDeclared(queue))).toEqual([false, false])
    expect(broker.status().state).toBe('down')
  })

  it.each(['publish', 'consume'] as const)(
    'counts no queue as declared when the %s connection was lost before',
    async (first) => {
      const { broker } = await startAndCut({}, first)
      expect(broker.isDeclared('email')).toBe(false)
      expect(broker.warnings().map(({ code }) => code)).toEqual(
        first === 'publish' ? [] : ['declare_connection_down'],
      )
    },
  )
})

describe('a gateway that owns the broker', () => {
  it('is the only one; the next one serves as soon as the first ends', async () => {
    const first = await start()
    await first.broker.ensureQueue('email')
    const lines: string[] = []
    const second = await start({}, {}, { logger: ofLogger(lines) })
    expect(second.broker.status()).toMatchObject({ state: 'foreign' })
    const isOfOwner = (message: string) => /another ledger|other gateway/.test(message)
    const told = () => lines.map((line) => JSON.parse(line).message).filter(isOfOwner)
    expect(told()).toEqual(['another gateway with another ledger serves this RabbitMQ and prefix'])
    expect(second.recorder.count('onUp')).toBe(0)
    expect(await second.broker.publish(row())).toBe('refused')
    const waiting = second.broker.take(request(['email'], { waitMs: 60_000 }))
    const job = row()
    expect(await first.broker.publish(job)).toBe('confirmed')
    await first.stop()
    await second.recorder.until('onUp')
    expect(second.broker.status()).toEqual({ state: 'up' })
    expect(told().slice(1)).toEqual(['the other gateway is gone: this one serves from now on'])
    expect(idsOf(await waiting)).toEqual([job.id])
    const order = second.recorder.seen.map(({ event }) => event)
    expect(order.indexOf('onConsumeUp')).toBeLessThan(order.indexOf('consumed'))
  })

  it('is up quickly when it starts just after another one has ended', async () => {
    await (await start()).stop()
    const nextUpMs = async () => {
      const watch = new Stopwatch()
      const next = await start()
      await next.recorder.until('onUp')
      const { elapsedMs } = watch
      watch.end()
      expect(next.broker.status()).toEqual({ state: 'up' })
      await next.stop()
      return elapsedMs
    }
    expect(await leastOfThree(nextUpMs, 1_500)).toBeLessThan(1_500)
  })

  it('starts no consumer before onConsumeUp has extended the leases', async () => {
    const seen: string[] = []
    let release = () => {}
    const blocked = new Promise<void>((resolve) => {
      release = resolve
    })
    const { broker, recorder } = await start(
      {},
      {
        onConsumeUp: async () => {
          seen.push('extending')
          await blocked
          seen.push('extended')
        },
      },
    )
    await broker.ensureQueue('email')
    await admin.publish('ojs.queue.email', ['a'])
    const waiting = broker.take(request(['email']))
    await broker.take(request(['email'], { waitMs: 100 }))
    expect(recorder.count('consumed')).toBe(0)
    release()
    expect(idsOf(await waiting)).toEqual(['a'])
    expect(seen).toEqual(['extending', 'extended'])
  })
})

describe('silent acknowledgements', () => {
  it('are suspected when RabbitMQ has far fewer job messages than there are available jobs', async () => {
    await admin.channel.assertQueue('ojs.queue.email')
    await admin.publish('ojs.queue.email', newIds(50))
    const connection = await startConnection(vhost.url, { name: 'declare' })
    const looking = new ScratchChannel(connection)
    let available = 0
    let held = 0
    let isSame = true
    let now = 1_000
    const sampler = new DepthSampler({
      names: createNames(''),
      now: () => now,
      queues: () => ['email', 'gone'],
      available: () => available,
      held: () => held,
      isSame: async () => isSame,
      drift: { begin: () => {}, isOfInterest: () => false, note: async () => {} },
      logger: { warn() {} },
    })
    const missing = async () => {
      await sampler.look(looking)
      return sampler.missing('email')
    }
    available = 100
    expect(await missing()).toBe(0)
    available = 151
    expect(await missing()).toBe(101)
    expect(sampler.suspects()).toEqual([{ queue: 'email', missing: 101 }])
    held = 2
    expect(await missing()).toBe(0)
    held = 0
    isSame = false
    expect(await missing()).toBe(0)
    isSame = true
    available = 2_000
    held = 1_760
    expect(await missing()).toBe(0)
    held = 1_740
    expect(await missing()).toBe(210)
    await admin.channel.deleteQueue('ojs.queue.email')
    expect(await missing()).toBe(210)
    now += 15_001
    expect(sampler.missing('email')).toBe(0)
    expect(sampler.missing('gone')).toBe(0)
    await connection.close()
  })
})

describe('RabbitBroker on a private node', () => {
  let node: PrivateNode

  beforeAll(async () => {
    node = await startPrivateNode()
  })
  afterAll(async () => {
    await node?.stop()
  })

  it('claims the ownership again when an operator deletes the owner queue', async () => {
    const { broker, recorder } = await start({ amqpUrls: [node.url()] })
    await node.ctl(['-p', '/ojs', 'delete_queue', 'ojs.system.owner'])
    await recorder.until('onConsumeUp', 2)
    await expect.poll(() => broker.status()).toEqual({ state: 'up' })
    await recorder.until('onUp', 2)
    const second = await start({ amqpUrls: [node.url()] })
    expect(second.broker.status()).toMatchObject({ state: 'foreign' })
  })

  it('serves again soon after the port of a killed node listens; confirmed jobs are still there', async () => {
    const { broker, recorder } = await start({ queueType: 'quorum', amqpUrls: [node.url()] })
    await broker.ensureQueue('email')
    const jobs = Array.from({ length: 20 }, () => row())
    await Promise.all(jobs.map((job) => broker.publish(job)))
    const [leased] = await broker.take(request(['email']))
    await node.kill9()
    await recorder.until('lost')
    expect(broker.status()).toMatchObject({ state: 'down' })
    expect(await broker.publish(row())).toBe('refused')
    expect(leased?.ack()).toBe('lost')
    await recorder.until('reconnecting', 6)
    const waiting = broker.take(request(['not-yet'], { waitMs: RESTART_MS }))
    await node.restart()
    const listening = new Stopwatch()
    await recorder.until('onUp', 2)
    expect(listening.elapsedMs).toBeLessThan(BACK_LIMIT_MS)
    listening.end()
    await broker.ensureQueue('not-yet')
    await broker.publish(row({ queue: 'not-yet' }))
    expect(await waiting).toHaveLength(1)
    const seen = new Set<string>()
    while (seen.size < 20) {
      for (const delivery of await broker.take(request(['email'], { count: 20 }))) {
        seen.add(delivery.id)
        delivery.ack()
      }
    }
    expect(seen).toEqual(new Set(jobs.map(({ id }) => id)))
  })
})
