import { beforeEach, describe, expect, it } from 'vitest'
import type { DeadLetter } from '../../../src/broker/broker.ts'
import type { JobRow } from '../../../src/job/job.ts'
import { visibilityFailure } from '../../../src/job/retry/failure.ts'
import { diedInBroker } from '../../../src/operations/dead-letters/died-in-broker.ts'
import { failLease } from '../../../src/operations/lease/fail-lease.ts'
import { report } from '../../../src/operations/native/report.ts'
import { jobMessage, NOW, pushed, rowOf, TERMS } from '../../ledger/harness.ts'
import { ledgerOfTest } from '../../ledger/sqlite/harness.ts'
import { newJob } from '../../support/gateway/jobs.ts'
import { onToldBroker, type ToldStage } from '../job-messages/told-broker.ts'

const harness = ledgerOfTest()
let stage: ToldStage
beforeEach(() => {
  stage = onToldBroker(harness, { publish: async () => 'confirmed' })
})

const row = (id: string): Promise<JobRow> => rowOf(harness.ledger, id)
const codes = ({ errors }: JobRow) =>
  JSON.parse(errors ?? '[]').map((entry: { attempt: number; code: string }) => [
    entry.attempt,
    entry.code,
  ])
const codeOf = ({ error }: JobRow) => JSON.parse(error ?? '{}').code
const told = (type: string) => stage.events.filter((event) => event.type === type).length

async function started(id: string, attempt = 1): Promise<void> {
  const event = { job_id: id, attempt, event: 'started' as const, at: new Date(NOW).toISOString() }
  await report(stage.deps, { worker_id: 'w', events: [event] }, { requestId: 'req_1' })
}

/** A job that a native worker started without any further report, until its lease expired. */
async function fallenSilent(maxAttempts: number): Promise<string> {
  const { id } = await pushed(harness.ledger, { maxAttempts })
  await started(id)
  const find = () => ({ failure: visibilityFailure(), isLost: true })
  await failLease(stage.deps, { id, fence: {}, find })
  expect(await row(id)).toMatchObject({ state: 'available', holder: 'native', attempt: 1 })
  return id
}

function died(id: string, reason: DeadLetter['reason'], attempt = 1): Promise<void> {
  const message = { content: Buffer.from(JSON.stringify({ id })), headers: {} }
  const letter = { id, queue: 'default', generation: 0, attempt, reason, message }
  return diedInBroker(stage.deps, { ...letter, isControl: false } as unknown as DeadLetter)
}

// The worker rejects the job message because `ojs.control.claim` answered that no attempt is left.
it.each(['rejected', 'maxlen', 'delivery_limit'] as const)(
  'a dead letter (%s) keeps the timeout error of the last attempt, whose lease expired',
  async (reason) => {
    const id = await fallenSilent(1)
    await died(id, reason)
    expect(await row(id)).toMatchObject({
      ...{ state: 'discarded', attempt: 1, isDeadLetter: true, completedAt: NOW },
    })
    expect([codeOf(await row(id)), codes(await row(id))]).toEqual([
      'visibility_timeout',
      [[1, 'visibility_timeout']],
    ])
    expect([told('job.failed'), told('job.discarded')]).toEqual([1, 1])
    expect(harness.ledger.known.traffic.lastHour('default', NOW).failed).toBe(1)
  },
)

it.each(['rejected', 'maxlen', 'delivery_limit'] as const)(
  'a dead letter (%s) with attempts left records that reason and counts no further attempt',
  async (reason) => {
    const id = await fallenSilent(3)
    await died(id, reason)
    expect([(await row(id)).state, (await row(id)).attempt, codeOf(await row(id))]).toEqual([
      'discarded',
      1,
      reason,
    ])
    expect(codes(await row(id))).toEqual([[1, 'visibility_timeout']])
    expect([told('job.failed'), told('job.discarded')]).toEqual([1, 1])
    expect(harness.ledger.known.traffic.lastHour('default', NOW).failed).toBe(1)
  },
)

it('a dead letter counts the attempt that started after the lease expired', async () => {
  const id = await fallenSilent(2)
  await started(id, 2)
  await died(id, 'rejected')
  expect([(await row(id)).attempt, codeOf(await row(id))]).toEqual([2, 'rejected'])
  expect(codes(await row(id))).toEqual([
    [1, 'visibility_timeout'],
    [2, 'rejected'],
  ])
  expect(told('job.failed')).toBe(2)
})

it('a dead letter with a later attempt number also counts the unreported attempts before it', async () => {
  const id = await fallenSilent(3)
  await died(id, 'rejected', 3)
  expect([(await row(id)).attempt, codeOf(await row(id))]).toEqual([3, 'rejected'])
  expect(codes(await row(id))).toEqual([
    [1, 'visibility_timeout'],
    [2, 'unreported'],
    [3, 'rejected'],
  ])
})

describe('the claim of a native job by its x-ojs-attempt', () => {
  type Reported = { code: string; message: string }
  async function met(attempt: number, maxAttempts: number, reported: Reported | null = null) {
    const job = newJob({ maxAttempts })
    const said = { attempt, adopt: () => job, reportedError: () => reported }
    const [result] = await harness.ledger.claim([jobMessage(job.id, said)], TERMS)
    return { verdict: result?.verdict, job: await row(job.id) }
  }

  it.each([
    [9, 3, '9 (x-ojs-attempt) of a job that may run 3 times'],
    [4, 3, '4 (x-ojs-attempt) of a job that may run 3 times'],
    [2, 0, '2 (x-ojs-attempt) of a job that may run once'],
  ])(
    'discards attempt %i with max_attempts %i, and says why',
    async (attempt, maxAttempts, why) => {
      const { verdict, job } = await met(attempt, maxAttempts)
      expect([verdict, job.state, job.errors]).toEqual(['exhausted', 'discarded', null])
      expect(JSON.parse(job.error ?? '')).toEqual({
        ...{ code: 'attempts_exhausted', type: 'attempts_exhausted', retryable: false },
        message: `The message names attempt ${why}.`,
      })
    },
  )

  it('discards it with the error of the attempt before, if its message reports one', async () => {
    const { verdict, job } = await met(4, 3, { code: 'smtp_down', message: 'no route' })
    expect([verdict, codeOf(job), codes(job)]).toEqual([
      'exhausted',
      'smtp_down',
      [[3, 'smtp_down']],
    ])
  })

  it('runs it without an error when the attempt is its last', async () => {
    const { verdict, job } = await met(3, 3)
    expect([verdict, job.error]).toEqual(['claimed', null])
  })
})
