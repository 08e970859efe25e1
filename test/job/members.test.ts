import { describe, expect, it } from 'vitest'
import { toDefinition } from '../../src/job/cron/entry.ts'
import { refuseBeside } from '../../src/job/members.ts'
import { planWorkflow } from '../../src/job/workflow/plan.ts'
import {
  parseAck,
  parseCron,
  parseFetch,
  parseHeartbeat,
  parseJobMessage,
  parseNack,
  parsePush,
} from '../../src/schemas/requests/validator.ts'
import { parseGraphSteps, parseWorkflow } from '../../src/schemas/requests/workflow.ts'

const JOB = { type: 'a', args: [] }
const DAY = '2030-01-01T00:00:00Z'
const NEXT_DAY = '2030-01-02T00:00:00Z'
const RATE = { max_per_second: 1 }
const CALLBACK = { on_failure: JOB }

function fieldRefused(work: () => unknown): unknown {
  try {
    work()
  } catch (error) {
    expect(error).toMatchObject({ status: 400, code: 'invalid_request' })
    return (error as { details: Record<string, unknown> }).details['field']
  }
  return undefined
}

describe('a setting of a job that would have no effect is refused', () => {
  it.each<[string, object]>([
    ['jitter', { jitter: false }],
    ['initial_interval_ms', { initial_interval_ms: 5 }],
    ['non_retryable_errors', { non_retryable_errors: ['a'] }],
    ['on_conflict', { unique: {}, on_conflict: 'ignore' }],
    ['max_per_second', { max_per_second: 1 }],
    ['idempotency_key', { idempotency_key: 'k' }],
    ['depends_on', { depends_on: ['a'] }],
    ['overlap_policy', { overlap_policy: 'skip' }],
    ['timeoutMs', { timeoutMs: 5 }],
    ['maxAttempts', { maxAttempts: 5 }],
    ['backoffCoefficient', { backoffCoefficient: 5 }],
    ['options.scheduledAt', { options: { scheduledAt: '+PT5S' } }],
    ['options.on_exhaustion', { options: { on_exhaustion: 'discard' } }],
    ['options.strategy', { options: { strategy: 'linear' } }],
    ['options.key', { options: { key: ['a'] } }],
    ['options.timezone', { options: { timezone: 'UTC' } }],
    ['options.id', { options: { id: 'x' } }],
    ['options.type', { options: { type: 'b' } }],
    ['options.schema', { options: { schema: 'urn:a' } }],
    ['max_attempts', { max_attempts: 2, retry: { max_attempts: 3 } }],
    ['max_attempts', { max_attempts: 2, options: { retry_policy: { max_attempts: 3 } } }],
    ['options.max_attempts', { options: { max_attempts: 2, retry: { max_attempts: 3 } } }],
    ['scheduled_at', { delay_until: '+PT5S', scheduled_at: '+PT6S' }],
    ['options.scheduled_at', { options: { delay_until: DAY, scheduled_at: NEXT_DAY } }],
    ['rate_limit.max_per_second', { rate_limit: {} }],
    ['rate_limit.maxPerSecond', { rate_limit: { maxPerSecond: 1 } }],
    ['rate_limit.max_per_second', { rate_limit: { max_per_minute: 1 } }],
    ['options.rate_limit.max_per_second', { options: { rate_limit: { max_per_second: null } } }],
    [
      'options.rate_limit.max_per_second',
      { options: { rate_limit: { limit: 1, period: 'PT1S' } } },
    ],
    ['options.rate_limit.max_per_second', { rate_limit: RATE, options: { rate_limit: { k: 1 } } }],
    ['retry.non_retryable_errors', { retry: { non_retryable_errors: ['a', '*'] } }],
    ['retry_policy.non_retryable_errors', { retry_policy: { non_retryable_errors: ['.*'] } }],
    [
      'options.retry.non_retryable_errors',
      { options: { retry: { non_retryable_errors: ['au*'] } } },
    ],
    [
      'options.retry.non_retryable_errors',
      { options: { retry: { non_retryable_errors: ['*.a'] } } },
    ],
  ])('%s of %j', (field, members) => {
    expect(fieldRefused(() => parsePush({ ...JOB, ...members }))).toBe(field)
    // A message that is in RabbitMQ already is read as it is.
    expect(() => parseJobMessage({ ...JOB, ...members })).not.toThrow()
  })

  it.each<[object]>([
    [{ key: 'k', keys: [1], period: 'P1D', states: ['WA'], strategy: 'x', expression: '1+1' }],
    [{ timezone: 'UTC', myOwn: 1, Type: 2, options: { own: 1, myOwn: 2, state: 'WA' } }],
    [{ jitter: null, timeoutMs: null, options: { id: null, jitter: null } }],
    [{ max_attempts: 3, retry: { max_attempts: 3 } }],
    [{ max_attempts: 3, options: { max_attempts: 2, retry: { max_attempts: 2 } } }],
    [{ max_attempts: 3, retry: { jitter: false } }],
    [{ retry: { non_retryable_errors: ['Auth.*', 'auth.x.*', 'a b'] } }],
    [{ retry: { non_retryable_errors: ['*'] }, options: { retry: { jitter: false } } }],
    [{ delay_until: DAY, scheduled_at: '2030-01-01T01:00:00.000+01:00' }],
    [{ delay_until: NEXT_DAY, scheduled_at: null, options: { scheduled_at: DAY } }],
    [{ rate_limit: { ...RATE, maxPerSecond: 2, key: 'k', concurrency: 1 } }],
    [{ rate_limit: {}, options: { rate_limit: RATE } }],
    [{ rate_limit: { key: 'k', rate: 1, period: 'second' } }],
    [{ options: { rate_limit: { key: 'k', concurrency: 1 } } }],
    [{ onFailure: 1, on_failure: { type: 'b' }, tz: 'UTC', overlap: 'skip' }],
  ])('but not data that the producer may mean: %j', (members) => {
    expect(parsePush({ ...JOB, ...members })).toMatchObject(JOB)
  })

  it.each<[string, object]>([
    ['queue', { queue: 'x' }],
    ['options', { options: {} }],
    ['retry_policy', { retry_policy: {} }],
    ['jitter', { jitter: false }],
    ['scheduledAt', { scheduledAt: '+PT5S' }],
  ])('beside the jobs of a batch: %s', (field, members) => {
    expect(fieldRefused(() => refuseBeside('batch', { jobs: [], ...members }))).toBe(field)
    expect(fieldRefused(() => refuseBeside('batch', { jobs: [], meta: {}, other: 1 }))).toBe(
      undefined,
    )
  })

  it.each<[string, object]>([
    ['queue', { type: 'chain', steps: [JOB], queue: 'x' }],
    ['timeout_ms', { name: 'w', steps: [{ ...JOB, id: 'a' }], timeout_ms: 5 }],
    ['steps[0].retry', { type: 'chain', steps: [{ type: 'group', jobs: [JOB], retry: {} }] }],
    ['on_failure', { type: 'batch', jobs: [JOB], ...CALLBACK }],
    ['on_complete', { type: 'batch', jobs: [JOB], callbacks: CALLBACK, on_complete: JOB }],
    ['onSuccess', { type: 'batch', jobs: [JOB], callbacks: CALLBACK, onSuccess: JOB }],
    ['on_success', { type: 'chain', steps: [JOB], on_success: JOB }],
    ['on_failure', { name: 'w', steps: [{ ...JOB, id: 'a' }], ...CALLBACK }],
    ['steps[1].on_failure', { type: 'chain', steps: [JOB, { ...JOB, ...CALLBACK }] }],
    ['steps[0].onFailure', { name: 'w', steps: [{ ...JOB, id: 'a', onFailure: JOB }] }],
    ['steps[0].on_failure', { name: 'w', steps: [{ ...JOB, id: 'a', ...CALLBACK }] }],
    [
      'steps[0].on_failure',
      { type: 'chain', steps: [{ type: 'group', jobs: [JOB], ...CALLBACK }] },
    ],
    [
      'callbacks.on_success.on_failure',
      { type: 'batch', jobs: [JOB], callbacks: { on_success: { ...JOB, ...CALLBACK } } },
    ],
  ])('beside the steps of a workflow: %s', (field, body) => {
    expect(fieldRefused(() => planWorkflow(parseWorkflow(body), parseGraphSteps))).toBe(field)
  })

  it.each<[string, object]>([
    ['jitter', { ...JOB, jitter: true }],
    ['overlapPolicy', { ...JOB, overlapPolicy: 'skip' }],
    ['queue', { job_template: JOB, queue: 'x' }],
    ['args', { job_template: { type: 'a' }, args: [1] }],
    ['options', { job_template: JOB, options: { queue: 'x' } }],
    ['jobTemplate', { jobTemplate: JOB }],
    ['tz', { ...JOB, tz: 'Europe/Berlin' }],
    ['tz', { job_template: JOB, tz: 'Europe/Berlin' }],
    ['overlap', { ...JOB, overlap: 'skip' }],
    ['overlap', { job_template: JOB, overlap: 'skip' }],
    ['paused', { ...JOB, paused: true }],
    ['paused', { job_template: JOB, paused: true }],
    ['disabled', { ...JOB, disabled: true }],
    ['time_zone', { ...JOB, time_zone: 'Europe/Berlin' }],
    ['timeZone', { ...JOB, timeZone: 'Europe/Berlin' }],
  ])('beside the schedule of a cron entry: %s', (field, members) => {
    const body = {
      name: 'n',
      cron: '0 0 1 1 *',
      overlap_policy: 'skip',
      timezone: 'UTC',
      ...members,
    }
    expect(fieldRefused(() => toDefinition(parseCron(body)))).toBe(field)
  })
})

describe('a twin in camelCase of a member is refused', () => {
  const error = { code: 'x', message: 'it broke' }
  it.each<[string, string, (body: unknown) => unknown, object]>([
    ['waitMs', 'wait_ms', parseFetch, { queues: ['q'], waitMs: 5_000 }],
    ['workerId', 'worker_id', parseFetch, { queues: ['q'], workerId: 'w' }],
    ['batchSize', 'batch_size', parseFetch, { queues: ['q'], batchSize: 5 }],
    ['visibilityTimeoutMs', 'visibility_timeout_ms', parseFetch, { visibilityTimeoutMs: 5 }],
    ['jobId', 'job_id', parseAck, { jobId: 'a' }],
    ['workerId', 'worker_id', parseAck, { job_id: 'a', workerId: 'w' }],
    ['jobId', 'job_id', parseNack, { jobId: 'a', error }],
    ['workerId', 'worker_id', parseNack, { job_id: 'a', error, workerId: 'w' }],
    ['activeJobs', 'active_jobs', parseHeartbeat, { worker_id: 'w', activeJobs: ['a'] }],
    ['activeJobIds', 'active_job_ids', parseHeartbeat, { worker_id: 'w', activeJobIds: ['a'] }],
    ['workerId', 'worker_id', parseHeartbeat, { workerId: 'w' }],
  ])('%s, which is %s', (field, name, parse, body) => {
    expect(() => parse(body)).toThrow(
      `The '${field}' field would have no effect here: its name is '${name}'.`,
    )
    expect(fieldRefused(() => parse(body))).toBe(field)
  })

  it('but not other members, nor null', () => {
    const body = { queues: ['q'], waitMs: null, myOwn: 1 }
    expect(parseFetch(body)).toBe(body)
    expect(fieldRefused(() => parseFetch(null))).toBe('body')
  })
})

it('a step’s max_attempts and those of a retry policy override each other as one option', () => {
  const optionsOf = (defaults: object, step: object) => {
    const body = { type: 'chain', steps: [{ ...JOB, ...step }], options: defaults }
    const [node] = planWorkflow(parseWorkflow(body), parseGraphSteps).nodes
    return node?.kind === 'job' ? parsePush(node.request).options : undefined
  }
  const policy = { retry: { max_attempts: 5, jitter: false } }
  expect(optionsOf(policy, { max_attempts: 2 })).toEqual({
    retry: { max_attempts: null, jitter: false },
  })
  expect(optionsOf(policy, { options: { max_attempts: 2 } })).toMatchObject({ max_attempts: 2 })
  expect(optionsOf({ max_attempts: 5 }, { options: { retry: { max_attempts: 2 } } })).toEqual({
    retry: { max_attempts: 2 },
  })
  expect(optionsOf({ max_attempts: 5 }, { options: { retry: { jitter: false } } })).toEqual({
    max_attempts: 5,
    retry: { jitter: false },
  })
})
