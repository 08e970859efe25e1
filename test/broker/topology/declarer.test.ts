import { setImmediate as nextTurn } from 'node:timers/promises'
import { beforeEach, expect, it, onTestFinished, vi } from 'vitest'
import type { Connection } from '../../../src/broker/connection/connection.ts'
import type { ConnectionListener } from '../../../src/broker/connection/connection-options.ts'
import { createNames } from '../../../src/broker/names.ts'
import { Declarer } from '../../../src/broker/topology/declarer.ts'
import { EntityChecker } from '../../../src/broker/topology/entity-checker.ts'
import type { Topology } from '../../../src/broker/topology/topology.ts'
import { deferred } from '../../support/time/deferred.ts'
import { logger, Recorder } from '../harness.ts'

/** One per check of the base: the test resolves it with true when the base is to be ready. */
let baseChecks: ReturnType<typeof deferred<boolean>>[]
let told: string[]
let listener: ConnectionListener
let declarer: Declarer
let connection: { isUp: boolean }

beforeEach(() => {
  baseChecks = []
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
    hooks: { queues: { recordedQueues: () => [], onQueueMissing: async () => 'declare' } },
    checker: new EntityChecker({ options: { declare: 'lazy' }, observer, logger }),
    logger,
    prepareBase: () => {
      const look = deferred<boolean>()
      baseChecks.push(look)
      return look.promise
    },
    onDeclare() {},
    onBase: (outcome) => void told.push(outcome),
  })
})

it.each([
  { earlier: false, later: true, outcome: 'ready' },
  { earlier: true, later: false, outcome: 'unavailable' },
])('the latest check of the base counts, here: $outcome', async ({ earlier, later, outcome }) => {
  const first = declarer.ensureBase()
  listener.down?.('cut')
  const second = declarer.ensureBase()
  baseChecks[1]?.resolve(later)
  expect(await second).toBe(outcome)
  baseChecks[0]?.resolve(earlier)
  await first
  expect(told).toEqual([outcome])
  void declarer.ensureBase()
  // A base that was ready is not checked again.
  expect(baseChecks).toHaveLength(outcome === 'ready' ? 2 : 3)
})

it('a caller joins the later check of the base when an earlier one ends first', async () => {
  const first = declarer.ensureBase()
  listener.down?.('cut')
  const second = declarer.ensureBase()
  baseChecks[0]?.resolve(false)
  await first
  const joined = declarer.ensureBase()
  expect(baseChecks).toHaveLength(2)
  baseChecks[1]?.resolve(true)
  expect(await Promise.all([second, joined])).toEqual(['ready', 'ready'])
})

it('a check of the base that throws counts as unavailable, and the next call checks again', async () => {
  const failing = declarer.ensureBase()
  baseChecks[0]?.reject(new Error('a bug'))
  expect(await failing).toBe('unavailable')
  expect(told).toEqual(['unavailable'])
  const again = declarer.ensureBase()
  await nextTurn()
  baseChecks[1]?.resolve(true)
  expect(await again).toBe('ready')
})

it('a base that is not ready is checked again until it is', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  connection.isUp = true
  void declarer.ensureKnown()
  for (const [i, isReady] of [false, false, true].entries()) {
    baseChecks[i]?.resolve(isReady)
    while (told.length <= i) await nextTurn()
    await vi.advanceTimersToNextTimerAsync()
  }
  expect(told).toEqual(['unavailable', 'unavailable', 'ready'])
  expect(vi.getTimerCount()).toBe(0)
})
