import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import type { Direction, TcpProxy } from '../support/broker/tcp-proxy.ts'
import type { InFlight } from '../support/checker/checker.ts'
import {
  holdUntil,
  momentToStrike,
  readLedger,
  untilRetrying,
  untilRetryQueuesReady,
} from './harness.ts'
import {
  killAtRandom,
  type Players,
  RETRIED_JOBS,
  type Stage,
  throughProxy,
  withGateway,
} from './stage.ts'

/** Exact delays, rounded to 130 and 250 ms, so that the retries of a run are over within a second. */
const QUICK = { max_attempts: 5, initial_interval_ms: 125, jitter: false }
/** Always 1 s: hundreds of jobs wait in one retry queue at any moment. */
const SLOW = { max_attempts: 5, initial_interval_ms: 1_000, backoff_coefficient: 1, jitter: false }
export const SLOWLY_RETRIED = { jobs: RETRIED_JOBS, retry: SLOW }
export const FAILING = { connections: 24, count: 5, failShare: 0.5 }
/** How many jobs in retry queues are many, also on a machine that is busy with other things. */
export const MANY_RETRIES = 25

const isRetrying = ({ retries }: InFlight) => retries > 0

/**
 * A gateway dies between the publish of a retry and the ack of the delivery that it replaces: once by chance,
 * and twice for certain, because the publish does not reach the broker, or its confirm does not come back.
 */
export async function gatewayKilledInRetry(stage: Stage): Promise<void> {
  const setting = { load: { jobs: Number.POSITIVE_INFINITY, retry: QUICK } }
  await throughProxy(stage, setting, async (players) => {
    const before = await useRetryQueues(players, [130, 250])
    await killAtRandom(stage, players, [before + 100], isRetrying)
    await killInRetry(players, 'to-broker', before + stage.random.integer(500, 700))
    await killInRetry(players, 'to-gateway', before + stage.random.integer(900, 1_100))
  })
}

/** Starts the whole load once these retry queues take jobs; resolves with the jobs accepted by then. */
async function useRetryQueues(
  { gateway, load }: Players,
  delaysMs: readonly number[],
): Promise<number> {
  const areReady = untilRetryQueuesReady(gateway, delaysMs)
  load.startPushing(1)
  load.startWorking(FAILING)
  await areReady
  const before = load.journal.accepted
  load.want(RETRIED_JOBS)
  load.startPushing(39)
  return before
}

async function killInRetry(
  { gateway, load, strikes, proxy }: Players & { proxy: TcpProxy },
  direction: Direction,
  accepted: number,
): Promise<void> {
  await momentToStrike(gateway, load, accepted, isRetrying)
  await load.pushDuring(() => holdUntil(gateway, proxy, direction, ({ retries }) => retries >= 10))
  load.suspend()
  await gateway.kill9()
  strikes.note()
  proxy.cut()
  const { rows } = await readLedger(gateway)
  const owed = rows.filter((row) => row.outbox !== null && row.attempt > 0)
  expect(owed.length).toBeGreaterThanOrEqual(10)
  await gateway.restart()
  load.resume()
}

/** Retries leave their queues while there is no gateway. */
export async function gatewayKilledWhileRetryQueuesExpire(stage: Stage): Promise<void> {
  const setting = { load: { ...SLOWLY_RETRIED, jobs: Number.POSITIVE_INFINITY } }
  await withGateway(stage, setting, async (players) => {
    const { gateway, load, strikes } = players
    const before = await useRetryQueues(players, [1_000])
    for (const accepted of [200, 700]) {
      await momentToStrike(gateway, load, before + accepted + stage.random.integer(0, 400))
      await untilRetrying(gateway, load, MANY_RETRIES)
      load.suspend()
      await gateway.kill9()
      strikes.note()
      await sleep(stage.random.integer(300, 1_500))
      await gateway.restart()
      load.resume()
    }
  })
}

/** Long enough to end only after the gateway has died; the scenario waits for their end. */
const VANISHED_LEASE_MS = 10_000

/** A gateway and the workers of some of its leases die: those jobs run again, attempt + 1. */
export async function leasesRunOutAfterRestart(stage: Stage): Promise<void> {
  await withGateway(stage, { load: { jobs: RETRIED_JOBS } }, async ({ gateway, load, strikes }) => {
    const { journal } = load
    load.startPushing(48)
    const moment = stage.random.integer(500, RETRIED_JOBS - 200)
    await load.until(({ accepted }) => accepted >= moment)
    await load.vanish({ connections: 8, count: 5 }, VANISHED_LEASE_MS)
    expect(journal.abandoned.size).toBeGreaterThanOrEqual(8)
    load.startWorking({ connections: 16, count: 5 })
    // There are more leases as soon as a worker works beside them: the vanished ones have begun by then.
    await momentToStrike(gateway, load, 0, ({ leases }) => leases > journal.abandoned.size)
    load.suspend()
    await gateway.kill9()
    strikes.note()
    expect(strikes.inFlight.leases).toBeGreaterThanOrEqual(journal.abandoned.size)
    await gateway.restart()
    load.resume()
    const isBack = (id: string) => (journal.executions.get(id) ?? 0) > 1
    await load.until(() => [...journal.abandoned.keys()].every(isBack))
  })
}

/**
 * Batches are stored as a whole or not at all: when the gateway dies during one, and when one is refused
 * because the broker does not confirm in time.
 */
export async function gatewayKilledInBatch(stage: Stage): Promise<void> {
  const size = 50
  const setting = { env: { OJS_PUBLISH_TIMEOUT_MS: '1000' }, load: { jobs: 4_500 } }
  await throughProxy(stage, setting, async (players) => {
    const { gateway, load, strikes, proxy } = players
    load.startPushingBatches(16, size)
    load.startPushing(32)
    load.startWorking({ connections: 16, count: 20 })
    const isInBatch = ({ publishes }: InFlight) => publishes >= size
    await killAtRandom(stage, players, [500, 1_500], isInBatch)
    await load.pushDuring(async () => {
      await momentToStrike(gateway, load, stage.random.integer(2_500, 3_500), isInBatch)
      proxy.hold('to-broker')
      strikes.note()
      await load.until(({ refused }) => refused >= 4 * size)
    })
    proxy.release('to-broker')
  })
}
