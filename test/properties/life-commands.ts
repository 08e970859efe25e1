import fc from 'fast-check'
import { expect } from 'vitest'
import { type Answer, jobOf, jobsOf, type OjsClient } from '../support/gateway/client.ts'
import { eventually } from '../support/gateway/in-process.ts'
import {
  afterFailure,
  apply,
  claim,
  isDeadLetter,
  type Model,
  type ModelJob,
  may,
  refusal,
  revive,
} from './life-model.ts'

/** Four clients with their own connections, each of which is also a worker. */
export interface Real {
  readonly clients: readonly OjsClient[]
  readonly queues: readonly string[]
}

type Command = fc.AsyncCommand<Model, Real>

export const CLIENTS = 4
const SOON_MS = 30
const FAR = '2099-12-31T23:59:59Z'
const UNKNOWN = '01900000-0000-7000-8000-000000000000'

const client = fc.nat({ max: CLIENTS - 1 })
const pick = fc.integer({ min: -60, max: 60 })

/** A command that can always run. When the model has no job, the gateway must answer 404. */
function command(text: string, run: (model: Model, real: Real) => Promise<void>): Command {
  return { check: () => true, run, toString: () => text }
}

const jobOptions = fc.record({
  start: fc.constantFrom('now', 'now', 'now', 'now', 'now', 'far', 'soon', 'pending'),
  maxAttempts: fc.integer({ min: 1, max: 4 }),
  onExhaustion: fc.constantFrom('discard' as const, 'dead_letter' as const),
  backoff: fc.constantFrom('long' as const, 'long' as const, 'short' as const),
  queue: fc.nat({ max: 1 }),
})
type JobOptions = typeof jobOptions extends fc.Arbitrary<infer T> ? T : never

function bodyOf(job: JobOptions, real: Real): object {
  const { start, maxAttempts, onExhaustion, backoff } = job
  const interval = backoff === 'long' ? 'PT1H' : 'PT0.03S'
  return {
    type: 'model.job',
    args: [],
    options: {
      queue: real.queues[job.queue],
      ...(start === 'pending' && { pending: true }),
      ...(start === 'far' && { scheduled_at: FAR }),
      ...(start === 'soon' && { scheduled_at: new Date(Date.now() + SOON_MS).toISOString() }),
      retry: {
        max_attempts: maxAttempts,
        initial_interval: interval,
        max_interval: interval,
        backoff_coefficient: 1,
        jitter: false,
        on_exhaustion: onExhaustion,
      },
    },
  }
}

function noteJob(model: Model, real: Real, given: JobOptions, shown: { id: string }): ModelJob {
  const states = {
    now: 'available',
    far: 'scheduled',
    soon: 'scheduled',
    pending: 'pending',
  } as const
  const job: ModelJob = {
    id: shown.id,
    queue: real.queues[given.queue] ?? '',
    maxAttempts: given.maxAttempts,
    onExhaustion: given.onExhaustion,
    backoff: given.backoff,
    state: states[given.start],
    attempt: 0,
    worker: null,
  }
  model.jobs.push(job)
  return job
}

const push = fc.tuple(client, jobOptions).map(([by, given]) =>
  command(`${by}: PUSH ${JSON.stringify(given)}`, async (model, real) => {
    const answer = await clientOf(real, by).push(bodyOf(given, real))
    expect(answer.status, answer.text).toBe(201)
    const shown = jobOf(answer)
    const job = noteJob(model, real, given, shown)
    // On a busy machine, a job that is due soon may be due already.
    if (given.start !== 'soon') expect(shown).toMatchObject(facts(job))
    else await untilDue(real, job)
  }),
)

const batch = fc
  .tuple(client, fc.array(jobOptions, { minLength: 2, maxLength: 3 }))
  .map(([by, given]) =>
    command(`${by}: PUSH batch of ${given.length}`, async (model, real) => {
      const jobs = given.map((job) => ({ ...job, start: 'now' as const }))
      const body = { jobs: jobs.map((job) => bodyOf(job, real)) }
      const answer = await clientOf(real, by).send('POST', '/ojs/v1/jobs/batch', body)
      expect(answer.status, answer.text).toBe(201)
      const shown = jobsOf(answer)
      expect(shown).toHaveLength(jobs.length)
      for (const [i, job] of jobs.entries()) noteJob(model, real, job, shown[i] ?? { id: '' })
    }),
  )

const pushAgain = fc.tuple(client, pick).map(([by, at]) =>
  command(`${by}: PUSH #${at} again`, async (model, real) => {
    const job = model.job(at)
    if (job === undefined || job.state === 'gone') return
    const answer = await clientOf(real, by).push({ id: job.id, type: 'model.job', args: [] })
    expect(answer).toMatchObject({ status: 409, body: { error: { code: 'duplicate' } } })
  }),
)

const fetchJobs = fc
  .tuple(client, fc.integer({ min: 1, max: 3 }), fc.subarray([0, 1], { minLength: 1 }))
  .map(([by, count, at]) =>
    command(`${by}: FETCH ${count} from ${at.join()}`, async (model, real) => {
      const queues = at.map((i) => real.queues[i] ?? '')
      const claimable = model.available(queues)
      const body = {
        queues,
        count,
        worker_id: workerOf(by),
        ...(claimable.length > 0 && { wait_ms: 30_000 }),
      }
      const answer = await clientOf(real, by).fetch(body)
      expect(answer.status, answer.text).toBe(200)
      const shown = jobsOf(answer)
      // FETCH does not wait for job messages on their way, so it may return fewer jobs, but at least one.
      expect(shown.length).toBeLessThanOrEqual(Math.min(count, claimable.length))
      if (claimable.length > 0) expect(shown.length).toBeGreaterThan(0)
      take(model, by, shown)
    }),
  )

const lose = client.map((by) =>
  command(`${by}: FETCH and let the lease run out`, async (model, real) => {
    if (model.available(real.queues).length === 0) return
    const body = { queues: real.queues, worker_id: workerOf(by), visibility_timeout_ms: 1 }
    const answer = await clientOf(real, by).fetch({ ...body, wait_ms: 30_000 })
    const shown = jobsOf(answer)
    expect(shown).toHaveLength(1)
    take(model, by, shown)
    const job = model.byId(shown[0]?.id ?? '')
    if (job === undefined) throw new Error('FETCH handed out a job of nobody')
    await eventually(async () => (await shownState(real, job)) !== 'active')
    if (job.attempt >= job.maxAttempts) apply(job, 'discard')
    else releaseLate(job)
    expect(jobOf(await clientOf(real, by).get(job.id))).toMatchObject(facts(job))
  }),
)

const fences = fc.constantFrom('none', 'none', 'attempt', 'attempt', 'own', 'worker', 'stale')

const ack = fc.tuple(client, pick, fences).map(([by, at, fence]) =>
  command(`${by}: ACK #${at}, fence ${fence}`, async (model, real) => {
    const job = model.job(at)
    const body = { job_id: job?.id ?? UNKNOWN, result: { by }, ...fenceOf(by, job, fence) }
    const answer = await clientOf(real, by).ack(body)
    if (job && may(job, 'ack') && holds(job, by, fence)) {
      expect(answer).toMatchObject({ status: 200, body: { state: 'completed', job_id: job.id } })
      apply(job, 'ack')
    } else expectRefusal(answer, job)
  }),
)

const nack = fc
  .tuple(client, pick, fences, fc.constantFrom(true, true, true, false))
  .map(([by, at, fence, retryable]) =>
    command(`${by}: NACK #${at}, fence ${fence}, retryable ${retryable}`, async (model, real) => {
      const job = model.job(at)
      const error = { code: 'broken', message: 'as told', retryable }
      const body = { job_id: job?.id ?? UNKNOWN, error, ...fenceOf(by, job, fence) }
      const answer = await clientOf(real, by).send('POST', '/ojs/v1/workers/nack', body)
      if (!(job && may(job, 'retry') && holds(job, by, fence))) return expectRefusal(answer, job)
      apply(job, afterFailure(job, retryable))
      expect(answer).toMatchObject({
        status: 200,
        body: { state: job.state, attempt: job.attempt },
      })
      if (job.state === 'retryable' && job.backoff === 'short') await untilDue(real, job)
    }),
  )

const requeue = fc.tuple(client, pick).map(([by, at]) =>
  command(`${by}: NACK #${at}, requeue`, async (model, real) => {
    const job = model.job(at)
    const error = { code: 'cancelled', message: 'given back' }
    const body = { job_id: job?.id ?? UNKNOWN, error, requeue: true }
    const answer = await clientOf(real, by).send('POST', '/ojs/v1/workers/nack', body)
    if (!(job && may(job, 'requeue'))) return expectRefusal(answer, job)
    apply(job, 'requeue')
    expect(answer).toMatchObject({ status: 200, body: { state: 'available' } })
  }),
)

const beat = fc.tuple(client, fc.array(pick, { maxLength: 4 })).map(([by, at]) =>
  command(`${by}: BEAT ${at.join()}`, async (model, real) => {
    const jobs = [...new Set(at.map((i) => model.job(i)))].filter((job) => job !== undefined)
    const body = { worker_id: workerOf(by), active_jobs: jobs.map(({ id }) => id) }
    const answer = await clientOf(real, by).send('POST', '/ojs/v1/workers/heartbeat', body)
    expect(answer.status, answer.text).toBe(200)
    const own = jobs.filter(({ state, worker }) => state === 'active' && worker === by)
    expect(answer.body['jobs_extended']).toEqual(own.map(({ id }) => id))
    const cancelled = (answer.body['cancelled_jobs'] ?? []) as string[]
    for (const id of cancelled) expect(model.byId(id)?.state).toBe('cancelled')
  }),
)

const cancel = fc.tuple(client, pick).map(([by, at]) =>
  command(`${by}: CANCEL #${at}`, async (model, real) => {
    const job = model.job(at)
    const answer = await clientOf(real, by).cancel(job?.id ?? UNKNOWN)
    if (!(job && may(job, 'cancel'))) return expectRefusal(answer, job)
    expect(jobOf(answer)).toMatchObject({ state: 'cancelled', previous_state: job.state })
    apply(job, 'cancel')
  }),
)

const activate = fc.tuple(client, pick).map(([by, at]) =>
  command(`${by}: ACTIVATE #${at}`, async (model, real) => {
    const job = model.job(at, (each) => may(each, 'activate'))
    const answer = await clientOf(real, by).send(
      'POST',
      `/ojs/v1/jobs/${job?.id ?? UNKNOWN}/activate`,
    )
    if (!(job && may(job, 'activate'))) return expectRefusal(answer, job)
    expect(jobOf(answer)).toMatchObject({ state: 'available', previous_state: 'pending' })
    apply(job, 'activate')
  }),
)

const retryDead = fc.tuple(client, pick).map(([by, at]) =>
  command(`${by}: retry dead letter #${at}`, async (model, real) => {
    const job = model.job(at, isDeadLetter)
    const path = `/ojs/v1/dead-letter/${job?.id ?? UNKNOWN}/retry`
    const answer = await clientOf(real, by).send('POST', path)
    if (!(job && isDeadLetter(job))) return expect(answer.status, answer.text).toBe(404)
    revive(job)
    expect(jobOf(answer)).toMatchObject({ state: 'available', attempt: 0 })
  }),
)

const deleteDead = fc.tuple(client, pick).map(([by, at]) =>
  command(`${by}: delete dead letter #${at}`, async (model, real) => {
    const job = model.job(at, isDeadLetter)
    const answer = await clientOf(real, by).send(
      'DELETE',
      `/ojs/v1/dead-letter/${job?.id ?? UNKNOWN}`,
    )
    if (!(job && isDeadLetter(job))) return expect(answer.status, answer.text).toBe(404)
    expect(answer).toMatchObject({ status: 200, body: { deleted: true, job_id: job.id } })
    job.state = 'gone'
  }),
)

const get = fc.tuple(client, pick).map(([by, at]) =>
  command(`${by}: GET #${at}`, async (model, real) => {
    const job = model.job(at)
    const answer = await clientOf(real, by).get(job?.id ?? UNKNOWN)
    if (job === undefined || job.state === 'gone')
      return expect(answer.status, answer.text).toBe(404)
    expect(jobOf(answer)).toMatchObject(facts(job))
  }),
)

/** Four clients at the same time, each of which ends the job in another way. */
const race = pick.map((at) =>
  command(`all: ACK, NACK, CANCEL and ACK #${at} at once`, async (model, real) => {
    const job = model.job(at)
    if (job?.state !== 'active') return
    const error = { code: 'broken', message: 'as told' }
    const [first, failed, cancelled, second] = await Promise.all([
      clientOf(real, 0).ack({ job_id: job.id }),
      clientOf(real, 1).send('POST', '/ojs/v1/workers/nack', { job_id: job.id, error }),
      clientOf(real, 2).cancel(job.id),
      clientOf(real, 3).ack({ job_id: job.id }),
    ])
    const answers = [first, failed, cancelled, second]
    for (const { status } of answers) expect([200, 409]).toContain(status)
    settleRace(job, failed.status === 200, cancelled.status === 200)
    const acks = [first, second].filter(({ status }) => status === 200)
    expect(acks).toHaveLength(has(job, 'completed') ? 1 : 0)
    if (has(job, 'retryable') && job.backoff === 'short') await untilDue(real, job)
    expect(jobOf(await clientOf(real, 0).get(job.id))).toMatchObject(facts(job))
  }),
)

function settleRace(job: ModelJob, isFailed: boolean, isCancelled: boolean): void {
  if (isFailed) apply(job, afterFailure(job, true))
  // A waiting retry can still be cancelled, a discarded job cannot.
  if (isCancelled) apply(job, 'cancel')
  else if (!isFailed) apply(job, 'ack')
}

function has(job: ModelJob, state: ModelJob['state']): boolean {
  return job.state === state
}

/** More commands that change the state of jobs than commands that read it. */
export const COMMANDS: fc.Arbitrary<Command>[] = [
  ...[push, push, push, push, batch, pushAgain],
  ...[fetchJobs, fetchJobs, fetchJobs, fetchJobs, fetchJobs, lose],
  ...[ack, ack, nack, nack, nack, nack, requeue, beat, race],
  ...[cancel, activate, retryDead, retryDead, deleteDead, get],
]

/** Cancels all remaining jobs, so that the next run begins with empty queues. */
export async function tidy(model: Model, real: Real): Promise<void> {
  const left = model.jobs.filter((job) => may(job, 'cancel'))
  await Promise.all(left.map((job, i) => clientOf(real, i % CLIENTS).cancel(job.id)))
}

function take(model: Model, by: number, shown: readonly { id: string }[]): void {
  for (const each of shown) {
    const job = model.byId(each.id)
    if (job === undefined) throw new Error(`FETCH handed out ${each.id}, a job of nobody`)
    claim(job, by)
    expect(each).toMatchObject(facts(job))
  }
}

/** Waits until the gateway makes the scheduled or retryable job available by itself. */
async function untilDue(real: Real, job: ModelJob): Promise<void> {
  await eventually(async () => {
    const state = await shownState(real, job)
    expect([job.state, 'available']).toContain(state)
    return state === 'available'
  })
  apply(job, 'due')
}

async function shownState(real: Real, job: ModelJob): Promise<unknown> {
  return jobOf(await clientOf(real, 0).get(job.id))['state']
}

/** After a lease that ran out, the attempt counts, and the job is available at once. */
function releaseLate(job: ModelJob): void {
  const { attempt } = job
  apply(job, 'requeue')
  job.attempt = attempt
}

function facts({ id, state, attempt, maxAttempts, queue }: ModelJob): object {
  return { id, state, attempt, max_attempts: maxAttempts, queue }
}

function fenceOf(by: number, job: ModelJob | undefined, fence: string): object {
  const attempt = job?.attempt ?? 1
  switch (fence) {
    case 'own':
      return { worker_id: workerOf(by), attempt: Math.max(1, attempt) }
    case 'worker':
      return { worker_id: workerOf(by) }
    case 'attempt':
      return { attempt: Math.max(1, attempt) }
    case 'stale':
      return { attempt: attempt + 1 }
    default:
      return {}
  }
}

/** Whether the fence fits the lease of this active job. */
function holds(job: ModelJob, by: number, fence: string): boolean {
  if (fence === 'own' || fence === 'worker') return job.worker === by
  return fence !== 'stale'
}

function expectRefusal(answer: Answer, job: ModelJob | undefined): void {
  expect(answer.status, answer.text).toBe(refusal(job))
  const { error } = answer.body as { error?: { code?: string; request_id?: string } }
  expect(error).toMatchObject({
    code: answer.status === 404 ? 'not_found' : 'invalid_request',
    request_id: expect.stringMatching(/./),
  })
}

function clientOf(real: Real, at: number): OjsClient {
  const one = real.clients[at]
  if (one === undefined) throw new Error(`there is no client ${at}`)
  return one
}

function workerOf(by: number): string {
  return `model-worker-${by}`
}
