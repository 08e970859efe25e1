import { setImmediate as nextTurn } from 'node:timers/promises'
import { beforeEach, describe, expect, it, vi } from 'vitest'
import type { PublishOutcome } from '../../../src/broker/broker.ts'
import { retryDeadLetter } from '../../../src/operations/dead-letters/dead-letters.ts'
import { push } from '../../../src/operations/enqueue/push.ts'
import { pushBatch } from '../../../src/operations/enqueue/push-batch.ts'
import {
  FAILED,
  failAttempt,
  fenceOf,
  jobMessage,
  rowOf,
  settleLazily,
  TERMS,
} from '../../ledger/harness.ts'
import { ledgerOfTest } from '../../ledger/sqlite/harness.ts'
import { deferred } from '../../support/time/deferred.ts'
import { onToldBroker, type ToldStage } from '../job-messages/told-broker.ts'

const harness = ledgerOfTest()
let stage: ToldStage
let publish: () => Promise<PublishOutcome>

beforeEach(() => {
  publish = async () => 'confirmed'
  stage = onToldBroker(harness, {
    publish: () => publish(),
    broadcast: async () => 'confirmed',
    isQueueGone: async () => false,
  })
})

type Outcome = ReturnType<typeof deferred<PublishOutcome>>
type Pushed = ReturnType<typeof pushOne>

const CONTEXT = { requestId: 'req_1' }
const UNIQUE = { options: { unique: { keys: ['type'] } } }

const pushOne = (id: string, more: object = {}, context = CONTEXT) =>
  push(stage.deps, { type: 'a', args: [], id, ...more }, context)

/** Resolves in the turn in which the row is there, or the PUSH has failed before. */
async function stored(id: string, pushed: Pushed): Promise<void> {
  let isOver = false
  pushed.catch(() => {
    isOver = true
  })
  while (!isOver && (await harness.ledger.read.find(id)) === null) await nextTurn()
}

const storyOf = (id: string) =>
  stage.events.filter((event) => 'job' in event && event.job.id === id).map(({ type }) => type)

describe('an id whose first PUSH is not confirmed yet', () => {
  it.each<[string, (id: string) => Promise<unknown>]>([
    ['PUSH', (id) => pushOne(id)],
    ['PUSH of a unique job', (id) => pushOne(id, UNIQUE)],
    ['batch', (id) => pushBatch(stage.deps, { jobs: [{ type: 'a', args: [], id }] }, CONTEXT)],
  ])('is accepted in another %s once the first PUSH is refused', async (_, again) => {
    const id = stage.deps.newId()
    const first = deferred<PublishOutcome>()
    publish = () => first.promise
    const refused = pushOne(id)
    await stored(id, refused)
    const second = again(id)
    second.catch(() => {})
    await settleLazily(harness.ledger)
    publish = async () => 'confirmed'
    first.resolve('unknown')
    await expect(refused).rejects.toMatchObject({ status: 503 })
    await second
    expect(await rowOf(harness.ledger, id)).toMatchObject({ state: 'available' })
    expect(storyOf(id)).toEqual(['job.enqueued'])
  })
})

describe('another PUSH of the same id', () => {
  it('in the same commit waits for the outcome of the first, and is accepted when that is refused', async () => {
    const id = stage.deps.newId()
    const outcomes: PublishOutcome[] = ['unknown', 'confirmed']
    publish = async () => outcomes.shift() ?? 'refused'
    const [first, second] = await Promise.allSettled([pushOne(id), pushOne(id)])
    expect([first.status, second.status]).toEqual(['rejected', 'fulfilled'])
    expect(storyOf(id)).toEqual(['job.enqueued'])
  })

  it('emits job.enqueued once, whenever it comes during the withdrawal of the first', async () => {
    for (let late = 0; late < 40; late++) {
      const id = stage.deps.newId()
      publish = async () => 'unknown'
      const refused = pushOne(id)
      await stored(id, refused)
      for (let i = 0; i < late; i++) await Promise.resolve()
      publish = async () => 'confirmed'
      await pushOne(id)
      await expect(refused).rejects.toMatchObject({ status: 503 })
      expect(storyOf(id)).toEqual(['job.enqueued'])
    }
  })
})

describe('the retry of a dead letter whose unique key has been taken', () => {
  /** A dead letter whose key the next unique PUSH takes, which is not confirmed yet. */
  async function beside(): Promise<{
    dead: string
    other: string
    outcome: Outcome
    refused: Pushed
  }> {
    const dead = stage.deps.newId()
    await pushOne(dead, UNIQUE)
    await harness.ledger.claim([jobMessage(dead)], TERMS)
    const change = { ...FAILED, to: 'discarded', isDeadLetter: true, copy: 'nack' } as const
    await failAttempt(harness.ledger, dead, fenceOf(await rowOf(harness.ledger, dead)), change)
    const outcome = deferred<PublishOutcome>()
    publish = () => outcome.promise
    const other = stage.deps.newId()
    const refused = pushOne(other, UNIQUE)
    await stored(other, refused)
    publish = async () => 'confirmed'
    return { dead, other, outcome, refused }
  }

  it('succeeds when the PUSH that took the key is refused', async () => {
    const { dead, outcome, refused } = await beside()
    const retried = retryDeadLetter(stage.deps, dead, CONTEXT)
    retried.catch(() => {})
    await settleLazily(harness.ledger)
    outcome.resolve('unknown')
    await expect(refused).rejects.toMatchObject({ status: 503 })
    expect(await retried).toMatchObject({ id: dead, state: 'available', generation: 1 })
  })

  it('is refused with 409 once the PUSH that took the key is confirmed', async () => {
    const { dead, other, outcome, refused } = await beside()
    const revive = vi.spyOn(harness.ledger.bulk, 'act')
    const retried = retryDeadLetter(stage.deps, dead, CONTEXT)
    retried.catch(() => {})
    for (let i = 0; i < 5; i++) await settleLazily(harness.ledger)
    outcome.resolve('confirmed')
    await refused
    const details = { existing_job_id: other }
    await expect(retried).rejects.toMatchObject({ status: 409, details })
    // The retry waits for the outcome instead of polling.
    expect(revive).toHaveBeenCalledTimes(2)
  })

  it('fails with 503 unconfirmed after waiting for several PUSHes as long as a PUSH may take', async () => {
    const { dead, outcome, refused } = await beside()
    outcome.resolve('confirmed')
    await refused
    let now = stage.deps.clock.now()
    Object.assign(stage.deps, { clock: { now: () => now, wall: () => now } })
    let undecided = 4
    vi.spyOn(stage.deps.transient.unconfirmed, 'get').mockImplementation(() => {
      undecided -= 1
      if (undecided === 0) return undefined
      return Promise.resolve().then(() => {
        now += stage.deps.settings.publishTimeoutMs
      })
    })
    const details = { reason: 'unconfirmed' }
    const retried = retryDeadLetter(stage.deps, dead, CONTEXT)
    await expect(retried).rejects.toMatchObject({ status: 503, details })
  })
})
