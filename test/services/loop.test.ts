import { once } from 'node:events'
import { afterEach, expect, it, vi } from 'vitest'
import { Loop, type LoopOptions } from '../../src/services/loop.ts'
import { SILENT } from '../support/time/silent.ts'

/** An interval that no test waits for. */
const NEVER_MS = 3_600_000

let loop: Loop | undefined
afterEach(() => loop?.stop(AbortSignal.abort()))

function started(options: Pick<LoopOptions, 'runOnce'> & Partial<LoopOptions>): Loop {
  loop = new Loop({ name: 'test', everyMs: NEVER_MS, logger: SILENT, ...options })
  void loop.start()
  return loop
}

/** Counted steps that end when the test calls `end`. */
function steps() {
  const running: (() => void)[] = []
  const begun = new EventTarget()
  let count = 0
  return {
    runOnce: async (isMore = false) => {
      count += 1
      await new Promise<void>((resolve) => {
        running.push(resolve)
        begun.dispatchEvent(new Event('step'))
      })
      return isMore
    },
    async next() {
      if (running.length === 0) await once(begun, 'step')
    },
    end() {
      for (const resolve of running.splice(0)) resolve()
    },
    count: () => count,
    atOnce: () => running.length,
  }
}

/** Resolves after all pending promise reactions. */
const settled = () => new Promise((resolve) => setImmediate(resolve))

it('a Loop runs at start only with isDueAtStart', async () => {
  const { runOnce, count } = steps()
  started({ runOnce: () => runOnce() })
  expect(count()).toBe(0)
  await loop?.stop(AbortSignal.abort())
  const twice = started({ runOnce: () => runOnce(), isDueAtStart: true })
  expect(count()).toBe(1)
  const wake = vi.spyOn(twice, 'wake')
  await twice.start()
  expect(wake).not.toHaveBeenCalled()
})

it('a Loop runs again after its interval', async () => {
  const { runOnce, next, end, count } = steps()
  started({ runOnce: () => runOnce(), everyMs: 1 })
  await next()
  end()
  await next()
  expect(count()).toBe(2)
})

it('a Loop runs at once when it is woken, and again after its interval', async () => {
  const { runOnce, next, end, count } = steps()
  started({ runOnce: () => runOnce(), everyMs: 1 }).wake()
  expect(count()).toBe(1)
  end()
  await next()
  expect(count()).toBe(2)
})

it('a Loop runs once more after a step during which it was woken five times, and never two steps at once', async () => {
  const { runOnce, next, end, count, atOnce } = steps()
  const woken = started({ runOnce: () => runOnce(), isDueAtStart: true })
  for (let i = 0; i < 5; i++) woken.wake()
  expect([count(), atOnce()]).toEqual([1, 1])
  end()
  await next()
  expect([count(), atOnce()]).toEqual([2, 1])
  end()
  await settled()
  expect(count()).toBe(2)
})

it('a Loop repeats a step at once while it returns true', async () => {
  let left = 3
  const woken = started({ runOnce: async () => --left > 0 })
  woken.wake()
  await settled()
  expect(left).toBe(0)
})

it('Loop.stop waits for the running step, and begins no other', async () => {
  const { runOnce, end, count } = steps()
  const woken = started({ runOnce: () => runOnce(true), isDueAtStart: true })
  woken.wake()
  let isStopped = false
  const stopping = woken.stop(new AbortController().signal).then(() => {
    isStopped = true
  })
  await settled()
  expect(isStopped).toBe(false)
  end()
  await stopping
  await settled()
  expect(count()).toBe(1)
})

it('Loop.stop tells a long step that it is stopped, and waits for it until the deadline at most', async () => {
  let isStopped = () => false
  const woken = started({
    runOnce: (asked) => {
      isStopped = asked
      return new Promise<boolean>(() => {})
    },
    isDueAtStart: true,
  })
  expect(isStopped()).toBe(false)
  const deadline = new AbortController()
  const stopping = woken.stop(deadline.signal)
  expect(isStopped()).toBe(true)
  deadline.abort()
  await stopping
})

it('a Loop does not run when it is woken before start or after stop', async () => {
  const { runOnce, count } = steps()
  loop = new Loop({ name: 'test', everyMs: 1, logger: SILENT, runOnce: () => runOnce() })
  loop.wake()
  await loop.start()
  await loop.stop(AbortSignal.abort())
  loop.wake()
  expect(count()).toBe(0)
})

it('a Loop runs again after a failed step, and logs one error per outage', async () => {
  const lines: string[] = []
  const logger = { ...SILENT, error: (_: object, message: string) => lines.push(message) }
  const outcomes = ['fails', 'fails', 'works', 'fails']
  const woken = started({
    logger,
    runOnce: async () => {
      if (outcomes.shift() === 'fails') throw new Error('out of order')
      return false
    },
  })
  for (const said of [1, 1, 1, 2]) {
    woken.wake()
    await settled()
    expect(lines).toHaveLength(said)
  }
})
