import type { ChannelModel } from 'amqplib'
import { beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { streamOf } from '../../../src/broker/amqplib/connect.ts'
import { Connection } from '../../../src/broker/connection/connection.ts'
import { ScratchChannel } from '../../../src/broker/connection/temporary-channel.ts'
import { createNames } from '../../../src/broker/names.ts'
import { SILENT_OBSERVER } from '../../../src/broker/observer.ts'
import { UNWRITTEN_MS } from '../../../src/broker/topology/entity.ts'
import { EntityChecker } from '../../../src/broker/topology/entity-checker.ts'
import {
  LeaderlessQueues,
  type LeaderlessQueuesDeps,
} from '../../../src/broker/topology/leaderless-queues.ts'
import { isAtLeast } from '../../../src/broker/topology/queue-arguments.ts'
import { answerTo } from '../../amqp/stage.ts'
import { vhostOfTest } from '../fixtures.ts'
import { logger, row, startConnection, topologyWith } from '../harness.ts'

/** How RabbitMQ loses such queues when it is killed: test/crash/faults/new-queues.test.ts. */
const { vhost, admin, start, reconnectAdmin } = vhostOfTest()

const QUEUES = ['ojs.queue.dlx.email', 'ojs.queue.email', 'ojs.queue.control.email']

let connection: Connection
let unwritten: Set<string>
let ready: Set<string>
let mended: string[]
let queues: LeaderlessQueues
beforeEach(async () => {
  pretendVersion42()
  connection = await startConnection(vhost.url, { name: 'declare', random: () => 0 })
  onTestFinished(() => connection.close())
  unwritten = new Set(['email'])
  ready = new Set()
  mended = []
  for (const name of [...QUEUES, 'ojs.system.due.dlx']) {
    await admin.channel.assertQueue(name, { arguments: { 'x-queue-type': 'quorum' } })
  }
  queues = newQueues()
})

/** RabbitMQ forgets no queue from 4.3 on, so its queues are not probed: pretend to be 4.2. */
function pretendVersion42(): void {
  const { get } = Object.getOwnPropertyDescriptor(Connection.prototype, 'serverVersion') ?? {}
  const version = vi.spyOn(Connection.prototype, 'serverVersion', 'get')
  version.mockImplementation(function (this: Connection) {
    const own: string = get?.call(this)
    return isAtLeast(own, 4, 3) ? '4.2.0' : own
  })
  onTestFinished(() => version.mockRestore())
}

function newQueues(over: Partial<LeaderlessQueuesDeps> = {}): LeaderlessQueues {
  const options = { declare: 'lazy' as const }
  return new LeaderlessQueues({
    connection,
    names: createNames(''),
    topology: topologyWith({ queueType: 'quorum' }),
    checker: new EntityChecker({ options, observer: SILENT_OBSERVER, logger }),
    options,
    hooks: {
      queues: {
        isUnwritten: (queue) => unwritten.has(queue),
        onWritten: async (queue) => void unwritten.delete(queue),
      },
    },
    logger,
    isReady: (queue) => ready.has(queue),
    onMended: (queue) => void mended.push(queue),
    ...over,
  })
}

async function mend(isReplaceable = async () => true) {
  const scratch = new ScratchChannel(connection)
  const verdict = await queues.mend(scratch, 'email', isReplaceable)
  await scratch.close()
  return verdict
}

/**
 * The queues have a single binding each, which a queue loses when it is deleted. A probe of a queue holds
 * a message of it for a moment.
 */
async function haveTheirBindings(): Promise<boolean> {
  for (const name of QUEUES) admin.channel.publish('mark', name, Buffer.from('x'))
  await admin.channel.waitForConfirms()
  const counts = QUEUES.map(async (name) => (await admin.channel.checkQueue(name)).messageCount)
  return (await Promise.all(counts)).every((count) => count > 0)
}

it('queues that answer the probe are left as they are, whether or not they are empty', async () => {
  await admin.channel.assertExchange('mark', 'direct')
  for (const name of QUEUES) await admin.channel.bindQueue(name, 'mark', name)
  expect(await mend()).toBe('sound')
  await expect.poll(haveTheirBindings).toBe(true)
  queues = newQueues()
  expect(await mend()).toBe('sound')
  await expect.poll(haveTheirBindings).toBe(true)
})

describe('a queue that does not answer a probe for 5 s', () => {
  /**
   * Leaves a `get` from these queues unanswered; everything else is RabbitMQ's own. The 5 s end as soon as
   * all other queues that are probed with them have answered.
   */
  function silence(isSilent: (name: string) => boolean): void {
    const { openBeside } = connection
    const waits = waitsOf(5_000)
    connection.openBeside = async (name) => {
      const beside = await openBeside.call(connection, name)
      const { model } = beside
      const createChannel = model.createChannel.bind(model)
      const own: (() => void)[] = []
      let unheard = 0
      const heard = () => {
        unheard -= 1
        // Only when the answers have been taken.
        if (unheard === 0) setImmediate(() => own.forEach((end) => void end()))
      }
      model.createChannel = async () => {
        unheard += 1
        // Waits that begin from now on are for this channel.
        waits.next = own
        const channel = await createChannel()
        const get = channel.get.bind(channel)
        channel.get = (queue) => {
          if (!isSilent(queue)) return get(queue).finally(heard)
          heard()
          return new Promise(() => {})
        }
        return channel
      }
      return beside
    }
  }

  /** Collects, in `next`, the functions that end the waits of this length. */
  function waitsOf(length: number): { next: (() => void)[] } {
    const waits: { next: (() => void)[] } = { next: [] }
    const real = globalThis.setTimeout
    const begin = (act: (...given: unknown[]) => void, ms?: number, ...given: unknown[]) => {
      const timer = real(act, ms, ...given)
      if (ms === length) waits.next.push(act)
      return timer
    }
    const spy = vi.spyOn(globalThis, 'setTimeout')
    spy.mockImplementation(begin as typeof real)
    onTestFinished(() => void spy.mockRestore())
    return waits
  }

  async function areThere(): Promise<boolean[]> {
    const looks = QUEUES.map((name) => answerTo(admin, (channel) => channel.checkQueue(name)))
    return (await Promise.all(looks)).map((answer) => answer === 'ok')
  }

  it('is doubtful and then deleted when it is the job queue', async () => {
    silence((name) => name === 'ojs.queue.email')
    const isReplaceable = vi.fn(async () => {
      expect(queues.isDoubtful('email')).toBe(true)
      expect(await areThere()).toEqual([true, true, true])
      return true
    })
    expect(await mend(isReplaceable)).toBe('replaced')
    expect(isReplaceable).toHaveBeenCalledOnce()
    expect(await areThere()).toEqual([true, false, true])
  })

  it('is replaced together with the dead letter and control queue when none of the three answers', async () => {
    silence((name) => QUEUES.includes(name))
    expect(await mend()).toBe('replaced')
    queues.noteDeclared('email')
    await expectReplacedBeside()
    expect(await answerOf('ojs.queue.email')).toBe(404)
  })

  it('is replaced alone when it is the dead letter or control queue, and not used meanwhile', async () => {
    silence((name) => name !== 'ojs.queue.email' && name !== 'ojs.system.due.dlx')
    const isReplaceable = vi.fn(async () => true)
    expect(await mend(isReplaceable)).toBe('sound')
    expect(isReplaceable).not.toHaveBeenCalled()
    expect([queues.isDoubtful('email'), queues.isBesideDoubtful('email')]).toEqual([false, true])
    // Another caller checks the queue meanwhile.
    expect(await mend()).toBe('sound')
    await expectReplacedBeside()
    expect(await answerOf('ojs.queue.email')).toBe('ok')
  })

  /** Were declared anew with the gateway's arguments, so that a declare with the test's is refused. */
  async function expectReplacedBeside(): Promise<void> {
    expect(mended).toEqual([])
    await expect.poll(() => mended, { timeout: 20_000 }).toEqual(['email'])
    expect(queues.isBesideDoubtful('email')).toBe(false)
    expect(await answerOf('ojs.queue.dlx.email')).toBe(406)
    expect(await answerOf('ojs.queue.control.email')).toBe(406)
  }

  /** RabbitMQ's answer to a declare with the test's arguments. */
  function answerOf(name: string): Promise<'ok' | number> {
    return answerTo(admin, async (channel) => {
      await channel.checkQueue(name)
      await channel.assertQueue(name, { arguments: { 'x-queue-type': 'quorum' } })
    })
  }

  it('is left alone when no other queue answers either', async () => {
    silence(() => true)
    expect(await mend()).toBe('unknown')
    expect(await areThere()).toEqual([true, true, true])
  })

  it('is left alone while its jobs may not be published again', async () => {
    silence((name) => QUEUES.includes(name))
    expect(await mend(async () => false)).toBe('left')
    expect(await areThere()).toEqual([true, true, true])
    // Every PUSH checks the queue, and would wait for 5 s.
    const asked = vi.spyOn(connection, 'openBeside')
    expect(await mend(async () => false)).toBe('left')
    expect(asked).not.toHaveBeenCalled()
    expect(await mend()).toBe('replaced')
  })
})

describe('a connection that is lost during a probe', () => {
  /** Calls `asked` when a probe is on its way, and `after` before its answer is taken. */
  function around(over: { asked?(model: ChannelModel): void; after?(): Promise<void> }): void {
    const { openBeside } = connection
    connection.openBeside = async (name) => {
      const beside = await openBeside.call(connection, name)
      const createChannel = beside.model.createChannel.bind(beside.model)
      beside.model.createChannel = async () => {
        const channel = await createChannel()
        const get = channel.get.bind(channel)
        channel.get = async (queue) => {
          const asked = get(queue)
          over.asked?.(beside.model)
          const answer = await asked
          await over.after?.()
          return answer
        }
        return channel
      }
      return beside
    }
  }

  it('leaves the verdict unknown', async () => {
    around({ asked: (model) => streamOf(model)?.destroy(new Error('lost')) })
    expect(await mend()).toBe('unknown')
  })

  it('invalidates an answer that it gave before', async () => {
    const lost = new Promise<void>((down) => connection.listen({ down: () => down() }))
    around({
      after: () => {
        connection.abandon('test')
        return lost
      },
    })
    const scratch = new ScratchChannel(connection)
    expect(await queues.mend(scratch, 'email', async () => true)).toBe('unknown')
    await expect.poll(() => connection.isUp).toBe(true)
    expect(queues.isDoubtful('email')).toBe(true)
  })
})

it('a dead letter or control queue is probed until a probe succeeds, and not used before', async () => {
  const { openBeside } = connection
  let asked = 0
  connection.openBeside = (name) => {
    asked += 1
    if (asked === 2) return Promise.reject(new Error('no more connections'))
    return openBeside.call(connection, name)
  }
  expect(await mend()).toBe('sound')
  await expect.poll(() => asked).toBe(2)
  expect([queues.isDoubtful('email'), queues.isBesideDoubtful('email')]).toEqual([false, true])
  queues.noteReady('email')
  await expect.poll(() => mended, { timeout: 20_000 }).toEqual(['email'])
  expect([asked, queues.isBesideDoubtful('email')]).toEqual([3, false])
})

it('openBeside() rejects when the connection is closed', async () => {
  await connection.close()
  await expect(connection.openBeside('test')).rejects.toThrow()
})

it('queues that cannot be checked or probed are unknown, not sound', async () => {
  const openChannel = vi.spyOn(connection, 'openChannel')
  openChannel.mockRejectedValueOnce(new Error('No channels left to allocate'))
  expect(await mend()).toBe('unknown')
  openChannel.mockRestore()
  connection.openBeside = () => Promise.reject(new Error('no more connections'))
  expect(await mend()).toBe('unknown')
  expect(queues.isDoubtful('email')).toBe(true)
  // A queue that was declared on this connection is not probed.
  queues.noteDeclared('email')
  expect(await mend()).toBe('sound')
  queues = newQueues({ options: { declare: 'never' } })
  expect(await mend()).toBe('sound')
})

it('an unwritten queue is doubtful until it is ready, was declared or has answered', async () => {
  const isDoubtful = () => queues.isDoubtful('email')
  expect(queues.isDoubtful('other')).toBe(false)
  expect(isDoubtful()).toBe(true)
  ready.add('email')
  expect(isDoubtful()).toBe(false)
  ready.clear()
  // A new queue that goes away is declared again; nothing has to wait for a probe of it.
  queues.noteDeclared('email')
  expect(isDoubtful()).toBe(false)
  queues = newQueues()
  expect(isDoubtful()).toBe(true)
  await mend()
  expect(isDoubtful()).toBe(false)
  queues = newQueues()
  queues.notDeclared('email')
  expect(isDoubtful()).toBe(false)
})

describe('an unwritten queue counts as written when it was sound for long enough on one connection', () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
    onTestFinished(() => void vi.useRealTimers())
  })

  /** Advances the fake time; in between, RabbitMQ answers in real time. */
  async function pass(ms: number): Promise<void> {
    for (let left = ms; left > 0; left -= 500) {
      await vi.advanceTimersByTimeAsync(Math.min(left, 500))
      await connection.openChannel().then((channel) => channel.close())
    }
  }

  it('counted from its declaration, or from when it was ready', async () => {
    for (const queue of ['away', 'late', 'unsaid']) unwritten.add(queue)
    ready = new Set(['email', 'late', 'unsaid'])
    for (const queue of ['email', 'away']) queues.noteDeclared(queue)
    await pass(UNWRITTEN_MS - 1)
    queues.noteReady('late')
    expect(unwritten).toEqual(new Set(['email', 'away', 'late', 'unsaid']))
    await pass(UNWRITTEN_MS)
    expect(unwritten).toEqual(new Set(['away', 'late', 'unsaid']))
    // `away` becomes ready after all.
    ready.add('away')
    queues.noteReady('away')
    await pass(UNWRITTEN_MS)
    expect(unwritten).toEqual(new Set(['away', 'unsaid']))
    await pass(UNWRITTEN_MS)
    expect(unwritten).toEqual(new Set(['unsaid']))
    unwritten.add('email')
    queues.noteDeclared('email')
    queues.stop()
    await pass(3 * UNWRITTEN_MS)
    expect(unwritten).toEqual(new Set(['email', 'unsaid']))
  })

  it('and only if the connection still answers: its peer may be lost in a power cut', async () => {
    ready.add('email')
    const openChannel = vi.spyOn(connection, 'openChannel')
    let die = () => {}
    const dead = new Promise<never>((_, reject) => {
      die = () => reject(new Error('heartbeat timeout'))
    })
    openChannel.mockReturnValueOnce(dead)
    queues.noteDeclared('email')
    await vi.advanceTimersByTimeAsync(3 * UNWRITTEN_MS)
    expect(openChannel).toHaveBeenCalledOnce()
    die()
    await vi.advanceTimersByTimeAsync(1)
    expect(unwritten).toEqual(new Set(['email']))
    await pass(UNWRITTEN_MS)
    expect(unwritten).toEqual(new Set())
  })
})

it('an unwritten queue takes no publish before it was probed', async () => {
  const { broker } = await start({ queueType: 'quorum' }, { isUnwritten: () => true })
  const unusable = { id: 'a', queue: 'email', content: Buffer.from('{}') }
  expect(await broker.publish(row())).toBe('returned')
  // Refused, so that the report is delivered again later: only the worker that sent it has the job.
  expect(await broker.publishUnusable(unusable)).toBe('refused')
  expect(await broker.sweepDeadLetters('email', 1, async () => false)).toBeNull()
  expect(await broker.ensureQueue('email')).toBe('ready')
  expect(await broker.publish(row())).toBe('confirmed')
  await expect.poll(() => broker.publishUnusable(unusable)).toBe('confirmed')
})

it('an unwritten queue is not probed after RabbitMQ itself closed the connection', async () => {
  const asked = vi.spyOn(connection, 'openBeside')
  const before = connection.generation
  await vhost.closeConnections()
  await reconnectAdmin()
  await expect.poll(() => connection.generation).toBe(before + 1)
  expect(await mend()).toBe('sound')
  expect(asked).not.toHaveBeenCalled()
})

it('an unwritten queue is probed after the connection was lost for an unknown reason', async () => {
  const asked = vi.spyOn(connection, 'openBeside')
  const before = connection.generation
  connection.abandon('test')
  await expect.poll(() => connection.generation).toBe(before + 1)
  expect(await mend()).toBe('sound')
  expect(asked).toHaveBeenCalled()
})

it('an unwritten queue is doubtful while there is no connection, whatever it answered on the last one', async () => {
  await mend()
  await expect.poll(() => mended).toEqual(['email'])
  connection.abandon('test')
  const state = () => [connection.isUp, queues.isDoubtful('email')]
  await expect.poll(state).toEqual([false, true])
})

it('an unwritten queue is probed once per connection', async () => {
  expect(await mend()).toBe('sound')
  await expect.poll(() => mended).toEqual(['email'])
  const asked = vi.spyOn(connection, 'openBeside')
  expect(await mend()).toBe('sound')
  expect(asked).not.toHaveBeenCalled()
  const before = connection.generation
  connection.abandon('test')
  await expect.poll(() => connection.generation).toBe(before + 1)
  expect(await mend()).toBe('sound')
  expect(asked).toHaveBeenCalled()
})

it.each([
  ['4.2.9', 1],
  ['4.3.0', 0],
])('with RabbitMQ %s an unwritten queue is probed %d times', async (version, times) => {
  vi.spyOn(connection, 'serverVersion', 'get').mockReturnValue(version)
  const asked = vi
    .spyOn(connection, 'openBeside')
    .mockRejectedValue(new Error('no more connections'))
  expect(await mend()).toBe(times === 0 ? 'sound' : 'unknown')
  expect(asked).toHaveBeenCalledTimes(times)
})
