import type { Endpoint } from '../http/endpoints.ts'

type PostPath = Extract<Endpoint, `POST ${string}`> extends `POST ${infer Path}` ? Path : never

const UNKNOWN_ID = '01900000-0000-7000-8000-000000000000'

const OPTIONS = {
  queue: 'hostile',
  priority: 1,
  timeout_ms: 1_000,
  visibility_timeout_ms: 1_000,
  delay_until: '2099-01-01T00:00:00Z',
  expires_at: '2099-01-02T00:00:00Z',
  retry: {
    max_attempts: 3,
    initial_interval: 'PT1S',
    max_interval: 'PT1M',
    backoff_coefficient: 2,
    backoff_strategy: 'exponential',
    jitter: false,
    non_retryable_errors: ['auth.*'],
    on_exhaustion: 'discard',
  },
  unique: { keys: ['type', 'args'], period: 'PT1S', on_conflict: 'ignore', states: ['available'] },
  tags: ['a', 'b'],
  pending: false,
  rate_limit: { max_per_second: 1_000 },
  metadata: { note: 'x' },
}

const JOB = {
  type: 'hostile.job',
  args: [1, { nested: [null, 'x', { deep: true }] }],
  meta: { trace: 'x', list: [1] },
  schema: 'urn:ojs:schema:hostile.unknown:v1',
  options: OPTIONS,
}

const STEP = { id: 'a', type: 'hostile.step', args: [], options: { queue: 'hostile' } }

const ERROR = {
  code: 'handler_error',
  type: 'Broken',
  message: 'it broke',
  retryable: true,
  details: { error_class: 'Broken', backtrace: ['a', 'b'] },
}

/**
 * Bodies for every POST endpoint of Appendix A that use all members which it knows. The hostile bodies are
 * made from them. Without `wait_ms`, for which the gateway would wait.
 */
export const BODIES: Readonly<Record<PostPath, readonly object[]>> = {
  '/ojs/v1/jobs': [JOB, { id: UNKNOWN_ID, type: 'hostile.job', args: [] }],
  '/ojs/v1/jobs/batch': [{ jobs: [JOB, { ...JOB, args: [2] }] }],
  '/ojs/v1/jobs/:id/activate': [{}],
  '/ojs/v1/workers/fetch': [
    { queues: ['hostile'], count: 2, worker_id: 'w', visibility_timeout_ms: 1_000 },
  ],
  '/ojs/v1/workers/ack': [
    { job_id: UNKNOWN_ID, worker_id: 'w', attempt: 1, result: { a: [1, { b: 'x' }] } },
  ],
  '/ojs/v1/workers/nack': [
    { job_id: UNKNOWN_ID, worker_id: 'w', attempt: 1, error: ERROR, requeue: false },
  ],
  '/ojs/v1/workers/heartbeat': [
    {
      worker_id: 'w',
      active_jobs: [UNKNOWN_ID],
      visibility_timeout_ms: 1_000,
      state: 'running',
      queues: ['hostile'],
      hostname: 'h',
      pid: 1,
      concurrency: 2,
    },
  ],
  '/ojs/v1/queues/:name/pause': [{}],
  '/ojs/v1/queues/:name/resume': [{}],
  '/ojs/v1/dead-letter/:id/retry': [{}],
  '/ojs/v1/cron': [
    {
      name: 'hostile',
      cron: '0 0 1 1 *',
      timezone: 'Europe/Berlin',
      overlap_policy: 'skip',
      type: 'hostile.cron',
      args: [1],
      meta: { a: 1 },
      options: { queue: 'hostile', priority: 1 },
    },
    {
      name: 'hostile-2',
      expression: '@yearly',
      job_template: { type: 'hostile.cron', args: [], options: { queue: 'hostile' } },
    },
  ],
  '/ojs/v1/workflows': [
    {
      name: 'hostile',
      steps: [STEP, { ...STEP, id: 'b', depends_on: ['a'] }],
      options: { queue: 'hostile' },
    },
    {
      type: 'batch',
      name: 'hostile',
      jobs: [{ type: 'hostile.step', args: [] }],
      callbacks: { on_complete: { type: 'hostile.done', args: [] } },
    },
    { type: 'chain', steps: [{ type: 'hostile.step', args: [], options: { queue: 'hostile' } }] },
  ],
  '/ojs/v1/schemas': [
    {
      uri: 'urn:ojs:schema:hostile.job:v1',
      type: 'hostile.registered',
      version: '1.0.0',
      schema: {
        $schema: 'https://json-schema.org/draft/2020-12/schema',
        type: 'array',
        prefixItems: [{ type: 'string', pattern: '^[a-z]+$', maxLength: 10 }],
        items: false,
      },
    },
  ],
}

/** Values for `:id` and `:name` in a path. */
export const SEGMENTS: readonly string[] = [
  UNKNOWN_ID,
  'hostile',
  'x',
  '..%2F..',
  '%00',
  '%F0%9F%92%A9',
  '__proto__',
  'constructor',
  'x'.repeat(4_000),
  '%FF',
  '%',
]
