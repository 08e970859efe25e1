import { describe, expect, test } from 'vitest'
import { type Clock, systemClock } from '../../../src/clock.ts'
import type { PrivateNode } from '../../support/broker/rabbit.ts'
import { eventually, type TestGateway } from '../../support/gateway/in-process.ts'
import { fetched, nack, openStage, pushed, restOf, stateOf, untilState } from './stage.ts'

const STEP_MS = 5 * 60_000
const MINUTE_MS = 60_000
/** Late enough for the step to come first on a busy machine. */
const DUE_MS = 6_000
const LASTING_MS = 5_000
const RETRIES = { jitter: false, backoff_strategy: 'none' }

/** A wall clock that steps, as an operator or NTP may make it. */
class SteppingClock implements Clock {
  readonly #system = systemClock()
  #steppedMs = 0

  now(): number {
    return this.#system.now()
  }

  wall(): number {
    return Date.now() + this.#steppedMs
  }

  step(ms: number): void {
    this.#steppedMs += ms
  }

  /** An instant by the wall clock as it stands. */
  in(ms: number): string {
    return new Date(this.wall() + ms).toISOString()
  }
}

/** Durations do not move with the wall clock; instants do (docs/architecture.md §2, "Time"). */
export function clockFaults(node: PrivateNode): void {
  // With a single retry queue, one retry waits in the broker and the other one in the ledger.
  const env = { OJS_MAX_RUNGS: '1' }

  describe('clock step', () => {
    test('of five minutes forward makes schedules and expiries due, but no lease and no retry', async () => {
      const clock = new SteppingClock()
      const { gateway } = await openStage(node, { env, overrides: { clock } })
      const [leased, inRetryQueue, held] = await working(gateway, 40_000)
      const [soon] = await delayed(gateway, { scheduled_at: clock.in(4 * MINUTE_MS) })
      const [later] = await delayed(gateway, { scheduled_at: clock.in(7 * MINUTE_MS) })
      const [expiring] = await delayed(gateway, { expires_at: clock.in(4 * MINUTE_MS) })
      const [lasting] = await delayed(gateway, { expires_at: clock.in(7 * MINUTE_MS) })
      const before = await Promise.all([inRetryQueue, held].map((id) => nextAttempt(gateway, id)))

      clock.step(STEP_MS)
      await untilState(gateway, soon, 'available')
      await untilState(gateway, expiring, 'discarded')
      await reaped(gateway)
      expect(await stateOf(gateway, later)).toBe('scheduled')
      expect(await stateOf(gateway, leased)).toBe('active')
      const after = await Promise.all([inRetryQueue, held].map((id) => nextAttempt(gateway, id)))
      expect(after).toEqual(before)

      expect((await gateway.ack(leased, { worker_id: 'w', attempt: 1 })).status).toBe(200)
      const jobs = await fetched(gateway, 'q', 2)
      expect(new Set(jobs.map((job) => job.id))).toEqual(new Set([soon, lasting]))
      expect(await restOf(gateway, 'q')).toEqual([])
    })

    test('of five minutes back delays schedules and expiries, but no lease, timeout or retry', async () => {
      const clock = new SteppingClock()
      const { gateway } = await openStage(node, { env, overrides: { clock } })
      const [leased, inRetryQueue, held] = await working(gateway, LASTING_MS)
      // The retry is due late, so that a slow machine still finds the job `retryable`.
      const retry = { ...RETRIES, initial_interval_ms: MINUTE_MS }
      const timeout = { options: { timeout_ms: LASTING_MS, retry } }
      const [timed] = (await pushed(gateway, 'timed', 1, timeout)) as [string]
      await fetched(gateway, 'timed', 1)
      const [scheduled] = await delayed(gateway, { scheduled_at: clock.in(DUE_MS) })
      const [expiring] = await delayed(gateway, { expires_at: clock.in(DUE_MS) })
      const dueAt = clock.wall() + DUE_MS
      clock.step(-STEP_MS)

      await untilState(gateway, leased, 'available')
      await untilState(gateway, inRetryQueue, 'available')
      await untilState(gateway, held, 'available')
      await untilState(gateway, timed, 'retryable')
      expect((await gateway.get(timed)).body.job.error.code).toBe('timeout')
      // Without the step, the schedule and the expiry would be due by now.
      await eventually(() => Date.now() > dueAt + 500)
      expect(await stateOf(gateway, scheduled)).toBe('scheduled')
      expect(await stateOf(gateway, expiring)).toBe('available')

      clock.step(STEP_MS)
      await untilState(gateway, scheduled, 'available')
      await untilState(gateway, expiring, 'discarded')
      const jobs = await fetched(gateway, 'q', 4)
      expect(new Map(jobs.map(({ id, attempt }) => [id, attempt]))).toEqual(
        new Map([
          [leased, 2],
          [inRetryQueue, 2],
          [held, 2],
          [scheduled, 1],
        ]),
      )
      expect(await restOf(gateway, 'q')).toEqual([])
    })
  })
}

/** A job that is leased for `durationMs`, and two that wait as long or longer for a retry. */
async function working(
  gateway: TestGateway,
  durationMs: number,
): Promise<[leased: string, inRetryQueue: string, held: string]> {
  const retry = (ms: number) => ({
    options: { retry: { ...RETRIES, initial_interval_ms: ms, max_interval_ms: 2 * ms } },
  })
  // The lease is of the job, not of the FETCH: the other two jobs need time until they are failed.
  const lease = { options: { visibility_timeout_ms: durationMs } }
  const [leased] = (await pushed(gateway, 'q', 1, lease)) as [string]
  const [inRetryQueue] = (await pushed(gateway, 'q', 1, retry(durationMs))) as [string]
  const [held] = (await pushed(gateway, 'q', 1, retry(durationMs + 100))) as [string]
  const jobs = await fetched(gateway, 'q', 3, { worker_id: 'w' })
  expect(jobs.map((job) => job.id)).toEqual([leased, inRetryQueue, held])
  for (const id of [inRetryQueue, held]) {
    expect((await nack(gateway, id, { worker_id: 'w' })).body.state).toBe('retryable')
  }
  return [leased, inRetryQueue, held]
}

async function delayed(gateway: TestGateway, options: object): Promise<[string]> {
  return (await pushed(gateway, 'q', 1, { options })) as [string]
}

async function nextAttempt(gateway: TestGateway, id: string): Promise<unknown> {
  const { job } = (await gateway.get(id)).body
  expect(job.state).toBe('retryable')
  return job.next_attempt_at
}

/** Resolves when the reaper has checked every lease since the call. */
async function reaped(gateway: TestGateway): Promise<void> {
  const [id] = (await pushed(gateway, 'short', 1)) as [string]
  await fetched(gateway, 'short', 1, { visibility_timeout_ms: 50 })
  await untilState(gateway, id, 'available')
}
