import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ack } from '../../../src/operations/lease/ack.ts'
import { heartbeat } from '../../../src/operations/lease/heartbeat.ts'
import { nack } from '../../../src/operations/lease/nack.ts'
import { jobMessage, NOW, pushed, TERMS } from '../../ledger/harness.ts'
import { openSqliteHarness, type SqliteHarness } from '../../ledger/sqlite/harness.ts'
import { onToldBroker, type ToldStage } from '../job-messages/told-broker.ts'

const CONTEXT = { requestId: 'req_1' }
const FAILURE = { error: { code: 'c', message: 'm' } }

let harness: SqliteHarness
let stage: ToldStage
beforeEach(async () => {
  harness = await openSqliteHarness()
  stage = onToldBroker(harness, { isRetryQueueReady: () => true, publish: async () => 'confirmed' })
})
afterEach(() => harness.destroy())

/** A job that `worker-1` runs. */
async function leased(): Promise<string> {
  const { id } = await pushed(harness.ledger)
  await harness.ledger.claim([jobMessage(id)], TERMS)
  return id
}

describe.each([
  ['null', { attempt: null, worker_id: null, generation: null }],
  ['absent', {}],
])('a fence whose members are %s', (_, fence) => {
  it('lets ACK and NACK end the current lease', async () => {
    const id = await leased()
    expect(await ack(stage.deps, { job_id: id, ...fence }, CONTEXT)).toMatchObject({
      state: 'completed',
    })
    const failed = await leased()
    expect(await nack(stage.deps, { job_id: failed, ...FAILURE, ...fence }, CONTEXT)).toMatchObject(
      { state: 'retryable' },
    )
    const returned = await leased()
    const requeue = { job_id: returned, ...FAILURE, requeue: true, ...fence }
    expect(await nack(stage.deps, requeue, CONTEXT)).toMatchObject({ state: 'available' })
  })
})

it('an attempt of null is none in a BEAT, and in the reason of a refused ACK or NACK', async () => {
  const id = await leased()
  const named = { job_id: id, attempt: null }
  const beat = await heartbeat(stage.deps, { ...named, worker_id: 'worker-1' }, {})
  expect(beat.extended).toEqual([id])
  const other = { ...named, worker_id: 'worker-2' }
  const refused = expect.objectContaining({
    status: 409,
    details: expect.objectContaining({ reason: 'other_worker' }),
  })
  await expect(ack(stage.deps, other, CONTEXT)).rejects.toEqual(refused)
  await expect(nack(stage.deps, { ...other, ...FAILURE }, CONTEXT)).rejects.toEqual(refused)
  expect(await harness.ledger.read.find(id)).toMatchObject({ state: 'active', startedAt: NOW })
})

it('a report of another generation is refused, before a NACK declares or writes anything', async () => {
  const id = await leased()
  const late = { job_id: id, worker_id: 'worker-1', attempt: 1, generation: 1 }
  const refused = expect.objectContaining({
    status: 409,
    details: expect.objectContaining({ reason: 'stale_generation' }),
  })
  await expect(ack(stage.deps, late, CONTEXT)).rejects.toEqual(refused)
  await expect(nack(stage.deps, { ...late, ...FAILURE }, CONTEXT)).rejects.toEqual(refused)
  await expect(heartbeat(stage.deps, late, {})).rejects.toEqual(refused)
  expect(await harness.ledger.read.find(id)).toMatchObject({ state: 'active', startedAt: NOW })
  const current = { ...late, generation: 0, ...FAILURE }
  expect(await nack(stage.deps, current, CONTEXT)).toMatchObject({ state: 'retryable' })
})
