import { beforeEach, describe, expect, it } from 'vitest'
import type { DeadLetter } from '../../../src/broker/broker.ts'
import type { JobRow } from '../../../src/job/job.ts'
import type { ReportEvent } from '../../../src/job/request.ts'
import { visibilityFailure } from '../../../src/job/retry/failure.ts'
import { diedInBroker } from '../../../src/operations/dead-letters/died-in-broker.ts'
import { failLease } from '../../../src/operations/lease/fail-lease.ts'
import { nativeHeartbeat } from '../../../src/operations/native/heartbeat.ts'
import { report } from '../../../src/operations/native/report.ts'
import { WorkerRegistry } from '../../../src/operations/workers/worker-registry.ts'
import { jobMessage, NOW, pushed, revive, rowOf, TERMS } from '../../ledger/harness.ts'
import { ledgerOfTest } from '../../ledger/sqlite/harness.ts'
import { onToldBroker, type ToldStage } from '../job-messages/told-broker.ts'

const harness = ledgerOfTest()
let stage: ToldStage
beforeEach(() => {
  stage = onToldBroker(harness, { publish: async () => 'confirmed' })
  Object.assign(stage.deps, { workers: new WorkerRegistry(stage.deps.clock) })
})

const row = (id: string): Promise<JobRow> => rowOf(harness.ledger, id)
const codes = async (id: string) =>
  JSON.parse((await row(id)).errors ?? '[]').map((entry: { attempt: number; code: string }) => [
    entry.attempt,
    entry.code,
  ])
const codeOf = async (id: string) => JSON.parse((await row(id)).error ?? '{}').code
const told = (...types: string[]) =>
  types.map((type) => stage.events.filter((event) => event.type === type).length)
const failuresOf = () => harness.ledger.known.traffic.lastHour('default', NOW).failed

async function said(
  id: string,
  event: ReportEvent['event'],
  more: object = {},
  worker = 'w',
): Promise<void> {
  const one = { job_id: id, attempt: 1, event, at: new Date(NOW).toISOString(), ...more }
  const request = { worker_id: worker, events: [one as ReportEvent] }
  await report(stage.deps, request, { requestId: 'req_1' })
}

const FAILED = { error: { code: 'boom', message: 'it went off' } }

function beat(id: string): Promise<unknown> {
  const heartbeat = { worker_id: 'w', job_ids: [id] } as never
  return nativeHeartbeat(stage.deps, heartbeat, { requestId: 'req_1' }, 'default')
}

async function leaseOver(id: string): Promise<void> {
  const find = () => ({ failure: visibilityFailure(), isLost: true })
  await failLease(stage.deps, { id, fence: {}, find })
  expect(await row(id)).toMatchObject({ state: 'available', holder: 'native', attempt: 1 })
}

/** A job that is started and silent for this many leases, with a heartbeat between two of them. */
async function silentFor(leases: number, maxAttempts = 3): Promise<string> {
  const { id } = await pushed(harness.ledger, { maxAttempts })
  await said(id, 'started')
  await leaseOver(id)
  for (let n = 1; n < leases; n++) {
    await beat(id)
    expect(await row(id)).toMatchObject({ state: 'active', attempt: 1 })
    await leaseOver(id)
  }
  return id
}

describe('a native attempt that its worker reports again after its lease expired', () => {
  it.each([1, 2, 4])(
    'counts as one failure, with the error of its worker, after %i expired leases',
    async (leases) => {
      const id = await silentFor(leases)
      await said(id, 'failed', FAILED)
      expect(await row(id)).toMatchObject({ state: 'retryable', attempt: 1, retryDelayMs: 1_000 })
      expect([await codeOf(id), await codes(id)]).toEqual(['boom', [[1, 'boom']]])
      expect(told('job.started', 'job.failed', 'job.retrying')).toEqual([1, 1, 1])
      expect([failuresOf(), harness.ledger.known.traffic.lastHour('default', NOW).waited]).toEqual([
        1, 1,
      ])
    },
  )

  it('emits job.heartbeat when a heartbeat makes it active again', async () => {
    const id = await silentFor(2)
    expect(stage.events.map(({ type }) => type)).toEqual([
      ...['job.started', 'job.failed', 'job.enqueued'],
      ...['job.heartbeat', 'job.enqueued'],
    ])
    const heartbeat = stage.events.find(({ type }) => type === 'job.heartbeat')
    const visible = { id, attempt: 1, leaseExpiresAt: NOW + 30_000 }
    expect(heartbeat).toMatchObject({ workerId: 'w', job: visible })
  })

  it('counts as one failure when it was active again before it failed', async () => {
    const id = await silentFor(1)
    await beat(id)
    await said(id, 'failed', FAILED)
    expect([(await row(id)).state, await codes(id)]).toEqual(['retryable', [[1, 'boom']]])
    expect([told('job.failed'), failuresOf()]).toEqual([[1], 1])
  })

  it('is followed by the next attempt, whose failure counts separately', async () => {
    const id = await silentFor(2, 2)
    await said(id, 'failed', { ...FAILED, outcome: { decision: 'retry', delay_ms: 9, rung_ms: 9 } })
    await said(id, 'started', { attempt: 2 })
    await said(id, 'failed', { ...FAILED, attempt: 2 })
    expect(await row(id)).toMatchObject({ state: 'discarded', attempt: 2, isDeadLetter: true })
    expect(await codes(id)).toEqual([
      [1, 'boom'],
      [2, 'boom'],
    ])
    expect(told('job.started', 'job.failed', 'job.discarded')).toEqual([2, 2, 1])
    expect(failuresOf()).toBe(2)
  })

  it('keeps the timeout in its history when it completes', async () => {
    const id = await silentFor(2)
    await said(id, 'completed')
    expect(await row(id)).toMatchObject({ state: 'completed', attempt: 1, error: null })
    expect(await codes(id)).toEqual([[1, 'visibility_timeout']])
    expect(told('job.started', 'job.failed', 'job.completed')).toEqual([1, 1, 1])
  })

  it('counts as one failure when its worker rejects the delivery and then reports the error', async () => {
    const id = await silentFor(1)
    await beat(id)
    const message = { content: Buffer.from(JSON.stringify({ id })), headers: {} }
    const letter = { id, queue: 'default', generation: 0, attempt: 1, reason: 'rejected', message }
    await diedInBroker(stage.deps, { ...letter, isControl: false } as unknown as DeadLetter)
    expect([(await row(id)).state, await codeOf(id)]).toEqual(['discarded', 'rejected'])
    await said(id, 'failed', { ...FAILED, outcome: { decision: 'discard' } })
    expect([await codeOf(id), await codes(id)]).toEqual(['boom', [[1, 'boom']]])
    expect([told('job.failed', 'job.discarded'), failuresOf()]).toEqual([[1, 1], 1])
  })

  it.each(['started', 'claimed'])(
    'is in the history when a later attempt is %s, and still takes the error of its worker',
    async (how) => {
      const id = await silentFor(1)
      await beat(id)
      if (how === 'started') await said(id, 'started', { attempt: 3 }, 'other')
      else await harness.ledger.claim([jobMessage(id, { attempt: 3 })], TERMS)
      expect(await row(id)).toMatchObject({ state: 'active', attempt: 3 })
      expect(await codes(id)).toEqual([
        [1, 'visibility_timeout'],
        [2, 'unreported'],
      ])
      await said(id, 'failed', FAILED)
      expect([(await codes(id))[0], told('job.failed')]).toEqual([[1, 'boom'], [1]])
    },
  )
})

it('attempts of the same number before and after a dead letter retry count separately', async () => {
  const { ledger } = harness
  const { id } = await pushed(ledger, { maxAttempts: 1 })
  await said(id, 'started')
  await said(id, 'failed', FAILED)
  await revive(ledger, id, NOW)
  await said(id, 'started', { generation: 1 })
  await said(id, 'failed', { ...FAILED, generation: 1 })
  expect(await codes(id)).toEqual([
    [1, 'boom'],
    [1, 'boom'],
  ])
  expect([told('job.failed'), failuresOf()]).toEqual([[2], 2])
})
