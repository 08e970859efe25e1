import { beforeEach, describe, expect, it } from 'vitest'
import type { PublishOutcome } from '../../src/broker/broker.ts'
import { isStale } from '../../src/job/stale.ts'
import { cancel } from '../../src/operations/cancel.ts'
import type { Deps } from '../../src/operations/deps.ts'
import { sendJobMessage } from '../../src/operations/job-messages/send.ts'
import { failLease } from '../../src/operations/lease/fail-lease.ts'
import { heartbeat } from '../../src/operations/lease/heartbeat.ts'
import { EventRing } from '../../src/telemetry/event-ring.ts'
import { fetched, NOW, pushed, rowOf, settleLazily } from '../ledger/harness.ts'
import { ledgerOfTest } from '../ledger/sqlite/harness.ts'
import { onToldBroker, type ToldStage, toldDelivery } from './job-messages/told-broker.ts'

const FAILURE = { code: 'e', type: 'E', message: 'm', retryable: true }

const harness = ledgerOfTest()
let stage: ToldStage
/** What RabbitMQ was told, in order. */
let told: string[]
let outcome: PublishOutcome
let publish: () => Promise<PublishOutcome>

beforeEach(() => {
  told = []
  outcome = 'confirmed'
  stage = onToldBroker(harness, {
    publish: () => publish(),
    isRetryQueueReady: () => false,
    ensureRetryQueue: async () => 'unusable',
    broadcast: async ({ type }) => {
      told.push(type)
      return outcome
    },
  })
})

const cancelNow = async (id: string) => {
  await cancel(stage.deps, id, { requestId: 'req_1' })
  await settleLazily(harness.ledger)
  return await rowOf(harness.ledger, id)
}

describe('CANCEL of an active job', () => {
  it.each(['settled', 'lost'] as const)(
    'acknowledges its delivery, and notes whether the job message is still out: %s',
    async (settles) => {
      const { id } = await fetched(harness.ledger)
      stage.deps.jobMessages.held.set(id, toldDelivery(told, { settles }))
      const ended = { outbox: null, messageOut: settles === 'lost', workerId: 'worker-1' }
      expect(await cancelNow(id)).toMatchObject(ended)
      expect(told).toEqual(['ack', 'ojs.control.cancel'])
    },
  )

  it('leaves the broadcast to the relay when it is not confirmed', async () => {
    outcome = 'unknown'
    const { id } = await fetched(harness.ledger)
    const { outbox } = await cancelNow(id)
    expect([outbox === null, stage.woken]).toEqual([false, 1])
  })
})

describe('CANCEL of a waiting job', () => {
  it('of a lost queue is told to any worker whose heartbeat names it, and its event names none', async () => {
    const { id } = await pushed(harness.ledger, { queue: 'q' })
    await harness.ledger.rearm('q', NOW)
    await cancelNow(id)
    const workers = { beaten: () => 'running' }
    const beat = { worker_id: 'w', active_jobs: [id] }
    const answer = await heartbeat({ ...stage.deps, workers } as unknown as Deps, beat, {})
    expect(answer).toMatchObject({ extended: [], cancelled: [id] })
    const ring = new EventRing(9, stage.deps.clock, stage.deps.newId)
    for (const event of stage.events) ring.onJobEvent(event)
    const { events } = ring.list({ types: new Set(), queues: new Set(), after: null, limit: 9 })
    expect(events.map(({ type, data }) => [type, data['worker_id']])).toEqual([
      ['job.cancelled', undefined],
    ])
  })

  it.each<[string, (id: string) => unknown, boolean]>([
    ['was never published', () => {}, false],
    ['is being published', (id) => stage.deps.jobMessages.sending.add(id), true],
    ['is part of an unfinished batch', (id) => stage.deps.jobMessages.staging.add(id), true],
    ['was published without a confirm', (id) => stage.deps.jobMessages.unsure.add(id), true],
  ])('notes whether the job message is out when it %s', async (_, before, messageOut) => {
    const { id } = await pushed(harness.ledger)
    before(id)
    expect(await cancelNow(id)).toMatchObject({ state: 'cancelled', messageOut })
    expect(told).toEqual(['ojs.control.cancel'])
  })

  it.each(['settled', 'lost'] as const)(
    'whose lease expired notes whether the job message is out: acknowledgement %s',
    async (settles) => {
      const job = await fetched(harness.ledger)
      stage.deps.jobMessages.held.set(job.id, toldDelivery(told, { settles }))
      publish = async () => 'refused'
      await failLease(stage.deps, {
        id: job.id,
        fence: job,
        find: () => ({ failure: FAILURE, isLost: true }),
      })
      await settleLazily(harness.ledger)
      expect(await cancelNow(job.id)).toMatchObject({ messageOut: settles === 'lost' })
    },
  )

  it.each(['settled', 'lost'] as const)(
    'whose retry the ledger held notes whether the job message is out: acknowledgement %s',
    async (settles) => {
      const job = await fetched(harness.ledger)
      stage.deps.jobMessages.held.set(job.id, toldDelivery(told, { settles, isLive: false }))
      publish = async () => 'refused'
      const failed = await failLease(stage.deps, {
        id: job.id,
        fence: job,
        find: () => ({ failure: FAILURE }),
      })
      if (isStale(failed)) throw new Error('the lease is there')
      await harness.ledger.promote(failed.dueAt ?? 0, 0, 1)
      expect(await cancelNow(job.id)).toMatchObject({ messageOut: settles === 'lost' })
    },
  )

  it.each<[string, () => Promise<PublishOutcome>]>([
    ['was not confirmed in time', async () => 'unknown'],
    ['had no confirm before its channel was closed for another', async () => 'forbidden'],
    ['may have gone out before the ledger failed', () => Promise.reject(new Error('closed'))],
  ])('keeps a job message as out that %s, although a later publish is refused', async (_, send) => {
    const { id } = await pushed(harness.ledger)
    publish = send
    await sendJobMessage(stage.deps, await rowOf(harness.ledger, id))
    publish = async () => 'refused'
    await sendJobMessage(stage.deps, await rowOf(harness.ledger, id))
    expect(await cancelNow(id)).toMatchObject({ state: 'cancelled', messageOut: true })
  })
})
