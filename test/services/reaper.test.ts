import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import type { Deps } from '../../src/operations/deps.ts'
import { reaper } from '../../src/services/reaper.ts'
import { eventOf, REPORT } from '../ledger/contract/reports.ts'
import { fetched, NOW, pushed, rowOf } from '../ledger/harness.ts'
import { ledgerOfTest } from '../ledger/sqlite/harness.ts'
import { onToldBroker, type ToldStage } from '../operations/job-messages/told-broker.ts'
import { SILENT } from '../support/time/silent.ts'
import { runningUntil } from './running.ts'

afterEach(() => vi.restoreAllMocks())

it('the reaper extends all leases before it ends any, after the process stood still for 6 s', async () => {
  const done: string[] = []
  let looks = 0
  let stoodMs = 0
  /** How long each pass takes. */
  let passMs = 0
  const record =
    <T>(what: string, value: T) =>
    () => {
      if (what === 'looked') looks += 1
      if (done.at(-1) !== what) done.push(what)
      return value
    }
  const ledger = {
    endOverdue: record('looked', []),
    extendLeases: record('extended', 0),
    known: {
      fault() {
        stoodMs += passMs
        return null
      },
    },
  }
  const broker = { controlBacklogConsumed: () => true }
  const deps = {
    ledger,
    broker,
    clock: systemClock(),
    logger: SILENT,
    random: Math.random,
  } as unknown as Deps
  // The clock is mocked, since a pause of the machine would count as standing still.
  vi.spyOn(performance, 'now').mockImplementation(() => 1_000 + stoodMs)
  const service = reaper(deps)
  await service.start()
  await vi.waitUntil(() => done.length === 1, { timeout: 15_000 })
  // A shorter stall: what came meanwhile has as long again before anything ends.
  stoodMs += 4_000
  const before = looks
  const stalledAt = stoodMs
  passMs = 400
  await vi.waitUntil(() => looks > before, { timeout: 15_000 })
  passMs = 0
  expect(stoodMs - stalledAt).toBeGreaterThanOrEqual(4_000)
  expect(done).toEqual(['looked'])
  stoodMs += 6_000
  await vi.waitUntil(() => done.length >= 3, { timeout: 15_000 })
  await service.stop(AbortSignal.timeout(1_000))
  expect(done).toEqual(['looked', 'extended', 'looked'])
})

it.each([
  ['does not extend leases when it failed to end one', null, false],
  ['extends all leases after the ledger could not be written', 'disk full', true],
])('the reaper %s', async (_, fault, isExtended) => {
  let stoodMs = 0
  // Goes on with each look at it.
  vi.spyOn(performance, 'now').mockImplementation(() => {
    stoodMs += 100
    return 1_000 + stoodMs
  })
  const done: string[] = []
  const ledger = {
    endOverdue: () => {
      done.push('looked')
      stoodMs += 3_000
      if (done.length > 1) throw new Error('it cannot be ended')
      return []
    },
    extendLeases: () => done.push('extended'),
    known: { fault: () => (done.length > 1 ? fault : null) },
  }
  const broker = { controlBacklogConsumed: () => true }
  const deps = {
    ledger,
    broker,
    clock: systemClock(),
    logger: SILENT,
    random: Math.random,
  } as unknown as Deps
  await runningUntil(reaper(deps), () => expect(done.length).toBeGreaterThan(5))
  expect(done.includes('extended')).toBe(isExtended)
})

describe('the reaper, on an expired lease', () => {
  const harness = ledgerOfTest()
  let stage: ToldStage
  /** Whether the backlog of the control queues has been consumed. */
  let isHeard: boolean
  beforeEach(() => {
    isHeard = true
    stage = onToldBroker(harness, {
      controlBacklogConsumed: () => isHeard,
      isRetryQueueReady: () => false,
      ensureRetryQueue: async () => 'unusable',
      publish: async () => 'confirmed',
    })
  })

  /** Runs the reaper with the clock at `now`. */
  function reaping(now: number, until: () => unknown): Promise<void> {
    const clock = { now: () => now, wall: () => now }
    return runningUntil(reaper({ ...stage.deps, clock } as Deps), until)
  }
  const codeOf = async (id: string): Promise<string> =>
    JSON.parse((await rowOf(harness.ledger, id)).error ?? '{}').code
  const stateOf = async (id: string) => (await rowOf(harness.ledger, id)).state

  it('makes the job available while an attempt is left, and discards it after the last', async () => {
    const given = { visibilityTimeoutMs: 1_000 }
    const early = await fetched(harness.ledger, { ...given, maxAttempts: 2 })
    const last = await fetched(harness.ledger, { ...given, maxAttempts: 1 })
    await reaping(NOW + 1_000, async () => expect(await stateOf(last.id)).toBe('discarded'))
    expect(await stateOf(early.id)).toBe('available')
    expect([await codeOf(early.id), await codeOf(last.id)]).toEqual(
      Array(2).fill('visibility_timeout'),
    )
  })

  it('fails the attempt with the error timeout once the execution timeout has passed', async () => {
    const { id } = await fetched(harness.ledger, { timeoutMs: 30_000 })
    await reaping(NOW + 30_000, async () => expect(await stateOf(id)).toBe('retryable'))
    expect(await codeOf(id)).toBe('timeout')
    const { details } = JSON.parse((await rowOf(harness.ledger, id)).error ?? '{}')
    expect(details).toMatchObject({ limit_seconds: 30, elapsed_seconds: 30 })
  })

  it('of a native worker waits for the control backlog, and leaves the job message with the worker', async () => {
    const given = { maxAttempts: 1, visibilityTimeoutMs: 1_000 }
    const { id } = await pushed(harness.ledger, given)
    await harness.ledger.applyReports([eventOf(id, { event: 'started' })], REPORT)
    const other = await fetched(harness.ledger, given)
    isHeard = false
    await reaping(NOW + 2_000, async () => expect(await stateOf(other.id)).toBe('discarded'))
    expect(await stateOf(id)).toBe('active')
    isHeard = true
    await reaping(NOW + 2_000, async () => expect(await stateOf(id)).toBe('available'))
    expect(await rowOf(harness.ledger, id)).toMatchObject({ attempt: 1, holder: 'native' })
  })
})
