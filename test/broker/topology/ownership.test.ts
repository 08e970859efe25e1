import { EventEmitter } from 'node:events'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { Connection } from '../../../src/broker/connection/connection.ts'
import type { ConnectionListener } from '../../../src/broker/connection/connection-options.ts'
import { SILENT_OBSERVER } from '../../../src/broker/observer.ts'
import { Owner, type OwnerState } from '../../../src/broker/topology/ownership.ts'
import { FakePeer } from '../fake-peer.ts'
import { logger, topologyWith } from '../harness.ts'

afterEach(() => vi.restoreAllMocks())

it('a gateway claims a foreign broker again after 100 ms, then ever more rarely, up to every 2 s', async () => {
  const peer = await FakePeer.start()
  const locked = { replyCode: 405, replyText: 'RESOURCE_LOCKED', classId: 50, methodId: 10 }
  peer.refusals.set('QueueDeclare', ['ChannelClose', locked])
  const options = { name: 'consume', connectionName: 'test', logger, random: () => 0.5 } as const
  const connection = new Connection({ ...options, urls: [peer.url], observer: SILENT_OBSERVER })
  const topology = topologyWith()
  const clock = { now: () => 0 }
  const owner = new Owner({ connection, topology, clock, logger, onChange() {} })
  const waits: number[] = []
  let onSeventh = () => {}
  const asked = new Promise<void>((resolve) => {
    onSeventh = resolve
  })
  const wait = globalThis.setTimeout
  vi.spyOn(globalThis, 'setTimeout').mockImplementation(((then: () => void, ms: number) => {
    // Other code in this process sets timers too.
    if (!new Error().stack?.includes('/topology/ownership.ts')) return wait(then, ms)
    if (waits.push(ms) === 7) onSeventh()
    return wait(then, 1)
  }) as typeof setTimeout)
  await connection.start()
  await asked
  expect(waits.slice(0, 7)).toEqual([100, 200, 400, 800, 1_600, 2_000, 2_000])
  await owner.stop()
  await connection.close()
  await peer.stop()
})

describe('the ownership of the broker', () => {
  /** The channel of one claim; the test decides how RabbitMQ answers the declare. */
  class ClaimChannel extends EventEmitter {
    isClosed = false
    wanted: unknown
    deleted: string[] = []
    declared = { answer: () => {}, refuse: (_: Error) => {} }
    #onMessage: (message: unknown) => void = () => {}

    assertQueue(_queue: string, options: object): Promise<void> {
      this.wanted = options
      return new Promise((answer, refuse) => {
        this.declared = { answer, refuse }
      })
    }
    async consume(_queue: string, onMessage: (message: unknown) => void): Promise<void> {
      this.#onMessage = onMessage
    }
    async deleteQueue(name: string): Promise<void> {
      this.deleted.push(name)
      this.#onMessage(null)
    }
    /** An operator deletes the queue. */
    lose(): void {
      this.#onMessage(null)
    }
    async close(): Promise<void> {
      this.isClosed = true
      this.emit('close')
    }
  }

  let channels: ClaimChannel[]
  let states: OwnerState[]
  let owner: Owner
  let connection: { isUp: boolean; generation: number; connect(): void; cut(): void }

  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    channels = []
    states = []
    let listener: ConnectionListener = {}
    connection = {
      isUp: false,
      generation: 0,
      connect() {
        this.isUp = true
        this.generation += 1
        listener.up?.()
      },
      cut() {
        this.isUp = false
        listener.down?.('cut')
      },
    }
    const stub = Object.assign(connection, {
      serverVersion: '3.10.8',
      listen: (given: ConnectionListener) => {
        listener = given
      },
      async openChannel() {
        const channel = new ClaimChannel()
        channels.push(channel)
        return channel
      },
    })
    const topology = topologyWith()
    const note = (state: OwnerState) => states.push(state)
    const clock = { now: () => 0 }
    const deps = { topology, clock, logger, onChange: note }
    owner = new Owner({ ...deps, connection: stub as unknown as Connection })
  })
  afterEach(() => void vi.useRealTimers())

  const locked = () =>
    Object.assign(new Error('RESOURCE_LOCKED'), { code: 405, classId: 50, methodId: 10 })

  /** Resolves when the newest claim has sent its declare. */
  async function asked(): Promise<ClaimChannel> {
    await nextTurn()
    const channel = channels.at(-1)
    if (!channel) throw new Error('nothing was asked')
    return channel
  }
  async function owned(): Promise<ClaimChannel> {
    const channel = await asked()
    channel.declared.answer()
    await nextTurn()
    return channel
  }

  it('is a queue that belongs to the connection and vanishes with it', async () => {
    connection.connect()
    const { wanted } = await owned()
    expect(wanted).toMatchObject({ durable: false, exclusive: true })
  })

  it('is unknown from the loss of a connection until RabbitMQ has answered on the next one', async () => {
    connection.connect()
    await owned()
    connection.cut()
    expect(owner.state).toBe('asking')
    connection.connect()
    await owned()
    expect(states).toEqual(['owner', 'asking', 'owner'])
  })

  it('is not decided by an answer to a claim on a lost connection', async () => {
    connection.connect()
    const first = await asked()
    connection.cut()
    first.declared.answer()
    await nextTurn()
    expect(owner.state).toBe('asking')
    connection.connect()
    const second = await asked()
    connection.cut()
    connection.connect()
    second.declared.refuse(locked())
    await nextTurn()
    expect(owner.state).toBe('asking')
    await owned()
    expect(owner.state).toBe('owner')
    vi.advanceTimersByTime(60_000)
    await nextTurn()
    expect(channels).toHaveLength(3)
  })

  it('is claimed again when an operator deletes the owner queue', async () => {
    connection.connect()
    const first = await owned()
    first.lose()
    expect([owner.state, first.isClosed]).toEqual(['asking', true])
    await owned()
    expect(states).toEqual(['owner', 'asking', 'owner'])
  })

  it('is given up by stop(), for good', async () => {
    connection.connect()
    const channel = await owned()
    await owner.stop()
    await nextTurn()
    expect(channel.deleted).toEqual(['ojs.system.owner'])
    expect([channels.length, vi.getTimerCount()]).toEqual([1, 0])
  })

  it('is not claimed again after stop()', async () => {
    connection.connect()
    const channel = await asked()
    await owner.stop()
    channel.declared.refuse(locked())
    await nextTurn()
    expect(vi.getTimerCount()).toBe(0)
  })

  it('is claimed again soon on a new connection, however long it was foreign on the last one', async () => {
    connection.connect()
    for (let i = 0; i < 8; i++) {
      ;(await asked()).declared.refuse(locked())
      await nextTurn()
      vi.advanceTimersByTime(2_000)
    }
    expect(owner.state).toBe('foreign')
    connection.cut()
    connection.connect()
    ;(await asked()).declared.refuse(locked())
    await nextTurn()
    const before = channels.length
    vi.advanceTimersByTime(100)
    await nextTurn()
    expect(channels).toHaveLength(before + 1)
  })
})
