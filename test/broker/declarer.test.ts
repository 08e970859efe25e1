import { setImmediate as nextTurn } from 'node:timers/promises'
import { beforeEach, expect, it, onTestFinished, vi } from 'vitest'
import type { Connection } from '../../src/broker/connection.ts'
import type { ConnectionListener } from '../../src/broker/connection-options.ts'
import { Declarer } from '../../src/broker/declarer.ts'
import { EntityChecker } from '../../src/broker/entity-checker.ts'
import { createNames } from '../../src/broker/names.ts'
import type { Topology } from '../../src/broker/topology.ts'
import { deferred } from '../support/deferred.ts'
import { logger, Recorder } from './harness.ts'

/** What each look at the base waits for; it is ready when that is true. */
let looks: ReturnType<typeof deferred<boolean>>[]
let told: string[]
let listener: ConnectionListener
let declarer: Declarer
let connection: { isUp: boolean }

beforeEach(() => {
  looks = []
  told = []
  const itsConnection = {
    isUp: false,
    serverVersion: '4.1.0',
    listen: (given: ConnectionListener) => {
      listener = given
    },
  }
  connection = itsConnection
  const { observer } = new Recorder()
  declarer = new Declarer({
    connection: itsConnection as unknown as Connection,
    topology: { base: () => [] } as unknown as Topology,
    names: createNames(''),
    options: { declare: 'lazy', queues: [], maxQueues: 1 },
    hooks: { recordedQueues: () => [], onQueueMissing: async () => 'declare' },
    checker: new EntityChecker({ options: { declare: 'lazy' }, observer, logger }),
    logger,
    prepareBase: () => {
      const look = deferred<boolean>()
      looks.push(look)
      return look.promise
    },
    onDeclare() {},
    onBase: (outcome) => void told.push(outcome),
  })
})

it.each([
  { earlier: false, later: true, outcome: 'ready' },
  { earlier: true, later: false, outcome: 'unavailable' },
])('the latest look at the base counts, here: $outcome', async ({ earlier, later, outcome }) => {
  const first = declarer.ensureBase()
  listener.down?.('cut')
  const second = declarer.ensureBase()
  looks[1]?.resolve(later)
  expect(await second).toBe(outcome)
  looks[0]?.resolve(earlier)
  await first
  expect(told).toEqual([outcome])
  void declarer.ensureBase()
  // One that was ready is kept.
  expect(looks).toHaveLength(outcome === 'ready' ? 2 : 3)
})

it('an earlier look that ends first lets the later one be joined', async () => {
  const first = declarer.ensureBase()
  listener.down?.('cut')
  const second = declarer.ensureBase()
  looks[0]?.resolve(false)
  await first
  const joined = declarer.ensureBase()
  expect(looks).toHaveLength(2)
  looks[1]?.resolve(true)
  expect(await Promise.all([second, joined])).toEqual(['ready', 'ready'])
})

it('a look that fails in an unforeseen way is one that found nothing, and is not kept', async () => {
  const failing = declarer.ensureBase()
  looks[0]?.reject(new Error('a bug'))
  expect(await failing).toBe('unavailable')
  expect(told).toEqual(['unavailable'])
  const again = declarer.ensureBase()
  await nextTurn()
  looks[1]?.resolve(true)
  expect(await again).toBe('ready')
})

it('a base that is not ready is looked at again, until it is', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  connection.isUp = true
  void declarer.ensureKnown()
  for (const [i, isReady] of [false, false, true].entries()) {
    looks[i]?.resolve(isReady)
    while (told.length <= i) await nextTurn()
    await vi.advanceTimersToNextTimerAsync()
  }
  expect(told).toEqual(['unavailable', 'unavailable', 'ready'])
  expect(vi.getTimerCount()).toBe(0)
})
