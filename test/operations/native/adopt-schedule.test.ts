import { beforeEach, expect, it } from 'vitest'
import type { EnsureOutcome, ScheduledMessage } from '../../../src/broker/broker.ts'
import { adoptSchedule } from '../../../src/operations/native/adopt-schedule.ts'
import { NOW, rowOf } from '../../ledger/harness.ts'
import { ledgerOfTest } from '../../ledger/sqlite/harness.ts'
import { onToldBroker, type ToldStage } from '../job-messages/told-broker.ts'

const ID = '019539a4-b68c-7def-8000-1a2b3c4d5e6f'

const harness = ledgerOfTest()
let stage: ToldStage
let outcome: EnsureOutcome
beforeEach(() => {
  stage = onToldBroker(harness, { isDeclared: () => false, ensureQueue: async () => outcome })
})

/** A native schedule that is due after `delayMs`. */
function scheduled(queue: string, delayMs = 60_000): ScheduledMessage {
  const content = Buffer.from(JSON.stringify({ id: ID, type: 'a', args: [] }))
  const message = { content, headers: { 'x-delay': delayMs }, properties: {} }
  return {
    ...{ id: ID, generation: 0, attempt: 1, maxAttempts: null },
    ...{ queue, message, carry: () => ({}) },
  }
}

it('a native schedule for a known queue is stored even if the queue is unavailable', async () => {
  outcome = 'unavailable'
  await harness.ledger.recordQueue('known', NOW)
  expect(await adoptSchedule(stage.deps, scheduled('known'))).toBe('handled')
  expect(await rowOf(harness.ledger, ID)).toMatchObject({ state: 'scheduled', dueAt: NOW + 60_000 })
  expect(stage.woken).toBe(0)
})

it('a native schedule for an unknown queue is rejected with 503 while the queue is unavailable', async () => {
  outcome = 'unavailable'
  await expect(adoptSchedule(stage.deps, scheduled('other'))).rejects.toMatchObject({ status: 503 })
  expect(await harness.ledger.read.find(ID)).toBeNull()
  expect(stage.events).toEqual([])
})

it('a native schedule for a queue beyond the maximum is malformed and not stored', async () => {
  outcome = 'too-many-queues'
  expect(await adoptSchedule(stage.deps, scheduled('other'))).toBe('malformed')
  expect(await harness.ledger.read.find(ID)).toBeNull()
  expect(stage.events).toMatchObject([{ type: 'message.malformed', id: ID }])
})

it('a native schedule that is already due is available at once; a duplicate emits no second event', async () => {
  outcome = 'ready'
  for (let i = 0; i < 2; i++) {
    expect(await adoptSchedule(stage.deps, scheduled('other', -1))).toBe('handled')
  }
  expect((await rowOf(harness.ledger, ID)).state).toBe('available')
  expect(stage.events.map(({ type }) => type)).toEqual(['job.enqueued'])
  expect(stage.woken).toBe(1)
})
