import { beforeEach, expect, it } from 'vitest'
import type { NewJob } from '../../src/job/job.ts'
import { isStale } from '../../src/job/stale.ts'
import type { Deps } from '../../src/operations/deps.ts'
import { promoter } from '../../src/services/promoter.ts'
import { FAILED, failAttempt, fenceOf, fetched, NOW, pushed, rowOf } from '../ledger/harness.ts'
import { ledgerOfTest } from '../ledger/sqlite/harness.ts'
import { onToldBroker, type ToldStage } from '../operations/job-messages/told-broker.ts'
import { runningUntil } from './running.ts'

const HOURS_MS = 7_200_000
/** The two clocks differ, so that a test fails when the promoter reads the wrong one. */
const WALL = NOW + HOURS_MS

const harness = ledgerOfTest()
let stage: ToldStage
let unparked: string[]

beforeEach(() => {
  unparked = []
  stage = onToldBroker(harness, { unpark: (id) => unparked.push(id) > 0 })
})

function promoting(
  until: () => unknown,
  { wall = WALL, ...settings }: Partial<Deps['settings']> & { wall?: number } = {},
): Promise<void> {
  const { deps } = stage
  const clock = { now: () => NOW, wall: () => wall }
  return runningUntil(
    promoter({ ...deps, clock, settings: { ...deps.settings, ...settings } }),
    until,
  )
}

/** A job that is scheduled for `dueAt` of the wall clock. */
const scheduled = (dueAt: number, given: Partial<NewJob> = {}) =>
  pushed(harness.ledger, { ...given, start: { state: 'scheduled', dueAt } })

/**
 * A job whose retry is due then; its job message is in a retry queue, or not published if `retryQueueMs` is
 * null.
 */
async function retrying(dueAt: number, retryQueueMs: number | null): Promise<string> {
  const job = await fetched(harness.ledger)
  const to = { to: 'retryable', dueAt, delayMs: 250, retryQueueMs, isMessageBack: true } as const
  const row = await failAttempt(harness.ledger, job.id, fenceOf(job), { ...FAILED, ...to })
  if (isStale(row)) throw new Error('the job is leased')
  if (row.outbox !== null) harness.ledger.confirmed(row.outbox)
  return job.id
}

const stateOf = async (id: string) => (await rowOf(harness.ledger, id)).state
const isAvailable = (id: string) => async () => expect(await stateOf(id)).toBe('available')

it.each([HOURS_MS, -HOURS_MS])(
  'the promoter promotes retries by the clock and schedules by the wall clock, to the millisecond (%i ahead)',
  async (aheadMs) => {
    const wall = NOW + aheadMs
    const late = [await retrying(NOW + 1, null), (await scheduled(wall + 1)).id]
    const due = [await retrying(NOW, null)]
    await promoting(isAvailable(due[0] ?? ''), { wall })
    due.push((await scheduled(wall)).id)
    const states = (ids: readonly string[]) => Promise.all(ids.map(stateOf))
    await promoting(async () => expect(await states(due)).toEqual(['available', 'available']), {
      wall,
    })
    expect(await states(late)).toEqual(['retryable', 'scheduled'])
  },
)

it('the promoter wakes the relay for retries that the ledger held, but not for those in a retry queue', async () => {
  const [sent, held] = [await retrying(NOW, 250), await retrying(NOW, null)]
  await promoting(isAvailable(held))
  expect(
    await Promise.all(
      [sent, held].map(async (id) => (await rowOf(harness.ledger, id)).outbox !== null),
    ),
  ).toEqual([false, true])
  expect(stage.woken).toBe(1)
})

it('the promoter does not wake the relay when all job messages are in RabbitMQ', async () => {
  await promoting(isAvailable(await retrying(NOW, 250)))
  expect(stage.woken).toBe(0)
})

it('the promoter unparks a job message that came early, and emits job.enqueued as promoted', async () => {
  const id = await retrying(NOW, 250)
  await promoting(isAvailable(id))
  expect(unparked).toEqual([id])
  expect(stage.events).toMatchObject([{ type: 'job.enqueued', promoted: true, job: { id } }])
})

it('the promoter hands schedules within the horizon over to the plugin, only in that delay mode', async () => {
  const [soon, later] = [await scheduled(WALL + 60_000), await scheduled(WALL + 60_001)]
  const due = await scheduled(WALL)
  const retryQueues = async () =>
    await Promise.all(
      [soon, later].map(async ({ id }) => (await rowOf(harness.ledger, id)).retryQueueMs),
    )
  await promoting(isAvailable(due.id), { delayMode: 'ttl', horizonMs: 60_000 })
  expect(await retryQueues()).toEqual([null, null])
  stage.woken = 0
  await promoting(() => expect(stage.woken).toBe(1), { delayMode: 'plugin', horizonMs: 60_000 })
  expect(await retryQueues()).toEqual([0, null])
})
