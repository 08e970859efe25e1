import { expect, it, vi } from 'vitest'
import type { Deps } from '../../src/operations/deps.ts'
import { retention } from '../../src/services/retention.ts'
import { NOW } from '../ledger/harness.ts'
import { SILENT } from '../support/time/silent.ts'

const KEPT = {
  completedMs: 1,
  cancelledMs: 20,
  discardedMs: 300,
  deadLettersMs: 4_000,
  maxDeadLetters: 9,
}
const WEEK_MS = 7 * 86_400_000

/** A fake ledger that prunes these numbers of rows and keys, one per call, and then none. */
function ledgerWith(
  rows: number[],
  keys: number[],
  ahead: number[] = [],
  isHeld = false,
  results: number[] = [],
) {
  const prune = vi.fn(async (_cutoffs: object, _now: number, _limit: number) => rows.shift() ?? 0)
  const pruneResults = vi.fn(async (_now: number, _limit: number) => results.shift() ?? 0)
  const pruneKeys = vi.fn(async (_now: number, _limit: number) => keys.shift() ?? 0)
  const boundEnds = vi.fn(async (_now: number, _limit: number) => ahead.shift() ?? 0)
  const noteSeen = vi.fn(async (_now: number) => {})
  // Of these two queues one has three dead letters too many.
  let count = 12
  const pruneDeadLetters = vi.fn(async (_queue: string, _max: number) => {
    if (count === 9) return 0
    count -= 1
    return 1
  })
  const known = {
    queues: () => [{ name: 'few' }, { name: 'many' }],
    deadLetterCount: (queue: string) => (queue === 'few' ? 9 : count),
  }
  const ledger = {
    known,
    pruneDeadLetters,
    prune,
    pruneResults,
    boundEnds,
    idempotency: { prune: pruneKeys },
    epochs: { noteSeen },
  }
  const time = { now: NOW }
  const clock = { now: () => time.now, wall: () => 0 }
  const pruneHold = { isHeld }
  const deps = { ledger, clock, logger: SILENT, pruneHold } as unknown as Deps
  const service = retention(deps, KEPT)
  return {
    service,
    pruneDeadLetters,
    prune,
    pruneResults,
    pruneKeys,
    boundEnds,
    noteSeen,
    pruneHold,
    time,
  }
}

/** Runs one pass of the service. */
async function pass(service: ReturnType<typeof retention>): Promise<void> {
  await service.start()
  service.wake()
  await new Promise((resolve) => setImmediate(resolve))
  await service.stop(AbortSignal.abort())
}

it('retention keeps each kind of ended job for its own time, and withdrawn rows for a week', async () => {
  const { service, prune } = ledgerWith([], [])
  await pass(service)
  const cutoffs = {
    completed: NOW - 1,
    cancelled: NOW - 20,
    discarded: NOW - 300,
    deadLetters: NOW - 4_000,
    withdrawn: NOW - WEEK_MS,
  }
  expect(prune.mock.calls).toEqual([[cutoffs, NOW, 500]])
})

it('DLQ-004, DLQ-005: at each pass prunes the dead letters above the most that a queue may have', async () => {
  const { service, pruneDeadLetters } = ledgerWith([], [])
  await pass(service)
  expect(pruneDeadLetters.mock.calls.length).toBe(4)
  expect(pruneDeadLetters.mock.lastCall).toEqual(['many', 9, NOW, 500])
})

it('retention prunes until a call finds nothing, since a short page may only mean that the turn was over', async () => {
  const { service, prune, pruneKeys } = ledgerWith([500, 3, 500], [500, 3, 500])
  await pass(service)
  expect([prune.mock.calls.length, pruneKeys.mock.calls.length]).toEqual([4, 4])
  expect(pruneKeys.mock.lastCall).toEqual([NOW, 500])
})

it('retention prunes results until a call finds none, and none while it is held', async () => {
  const { service, pruneResults, pruneHold } = ledgerWith([], [], [], false, [500, 3])
  await pass(service)
  expect(pruneResults.mock.calls).toEqual(Array(3).fill([NOW, 500]))
  pruneHold.isHeld = true
  await pass(service)
  expect(pruneResults).toHaveBeenCalledTimes(3)
})

it('retention prunes at most 100 pages of rows per pass, and then the keys', async () => {
  const { service, prune, pruneKeys } = ledgerWith(Array(150).fill(500), [])
  await pass(service)
  expect([prune.mock.calls.length, pruneKeys.mock.calls.length]).toEqual([100, 1])
  await pass(service)
  expect(prune.mock.calls.length).toBe(151)
})

it('retention prunes no further page once it is stopped', async () => {
  const { service, prune, pruneKeys } = ledgerWith([500, 500], [500])
  prune.mockImplementationOnce(async () => {
    void service.stop(AbortSignal.abort())
    return 500
  })
  await pass(service)
  expect([prune.mock.calls.length, pruneKeys.mock.calls.length]).toEqual([1, 0])
})

it('retention begins a pass with jobs whose end is in the future because the clock was ahead', async () => {
  const { service, prune, boundEnds } = ledgerWith([], [], [500, 2])
  prune.mockImplementationOnce(async () => {
    expect(boundEnds.mock.calls).toEqual(Array(3).fill([NOW, 500]))
    return 0
  })
  await pass(service)
  expect(prune).toHaveBeenCalledTimes(1)
})

it('retention prunes nothing while it is held, and does not note that the ledger is in use', async () => {
  const { service, prune, pruneKeys, boundEnds, noteSeen, pruneHold } = ledgerWith([], [], [], true)
  await pass(service)
  for (const held of [prune, pruneKeys, noteSeen]) expect(held).not.toHaveBeenCalled()
  expect(boundEnds).toHaveBeenCalled()
  pruneHold.isHeld = false
  await pass(service)
  for (const held of [prune, pruneKeys, noteSeen]) expect(held).toHaveBeenCalledTimes(1)
})

it('retention notes at most every ten minutes that the ledger is in use', async () => {
  const { service, noteSeen, time } = ledgerWith([], [])
  for (const ms of [0, 599_999, 1]) {
    time.now += ms
    await pass(service)
  }
  expect(noteSeen.mock.calls).toEqual([[NOW], [NOW + 600_000]])
})
