import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { connectAdmin } from '../../broker/harness.ts'
import { vhostForAll } from '../../support/broker/rabbit.ts'
import { startTestGateway, type TestGateway } from '../../support/gateway/in-process.ts'
import { databaseOn, type TestLedger } from '../../support/gateway/test-ledger.ts'
import { publishJob } from '../../worker/harness.ts'
import { sharedPostgres } from './server.ts'

const vhost = vhostForAll()
const server = sharedPostgres()
const V1 = '/ojs/v1'

let ledger: TestLedger
let gateway: TestGateway

beforeAll(async () => {
  ledger = await databaseOn(server())
  gateway = await startTestGateway(vhost.url, { OJS_LEDGER: ledger.url })
})
afterAll(async () => {
  await gateway?.destroy()
  await ledger?.remove()
})

type Json = string | number | boolean | null | readonly Json[] | { readonly [name: string]: Json }

/** The value with `text` at the end of one of its texts or names, once for each of them. */
function* spoilt(value: Json, text: string): Generator<Json> {
  if (typeof value === 'string') yield value + text
  if (typeof value !== 'object' || value === null) return
  if (Array.isArray(value)) {
    for (const [i, item] of value.entries())
      for (const other of spoilt(item, text)) yield value.with(i, other)
    return
  }
  for (const [name, member] of Object.entries(value)) {
    for (const other of spoilt(member, text)) yield { ...value, [name]: other }
    const { [name]: _, ...rest } = value as Record<string, Json>
    yield { ...rest, [name + text]: member }
  }
}

const OPTIONS = {
  ...{
    queue: 'texts',
    tags: ['a'],
    meta: { a: 'a' },
    unique: { keys: ['args', 'meta'], meta_keys: ['a'], on_conflict: 'replace' },
  },
  ...{
    concurrency: { key: 'a', limit: 9 },
    rate_limit: { max_per_second: 9, a: 'a' },
    expires_at: '2100-01-01T00:00:00Z',
  },
  ...{ retry: { max_attempts: 1, non_retryable_errors: ['a'], backoff_strategy: 'linear' } },
}
const JOB = {
  type: 'a.a',
  args: ['a', { a: 'a' }],

  other: 'a',
  options: OPTIONS,
}
const STEP = {
  type: 'a.a',
  args: [{ a: 'a' }],
  options: { queue: 'texts', concurrency: { key: 'b', limit: 9 } },
}
const ERROR = { code: 'a', type: 'a', message: 'a', details: { a: 'a' }, backtrace: ['a'] }

/** Requests that store texts of their own. */
const REQUESTS: [method: string, path: string, body: Json][] = [
  [
    'POST',
    '/jobs',
    {
      ...JOB,
      options: { ...OPTIONS, rate_limit: { concurrency: 9, key: 'b' }, concurrency: null },
    },
  ],
  ['POST', '/jobs', JOB],
  ['POST', '/jobs/batch', { jobs: [JOB] }],
  ['POST', '/jobs/bulk', { jobs: [JOB], atomicity: 'partial' }],
  [
    'POST',
    '/workflows',
    {
      name: 'a',
      steps: [
        { ...STEP, id: 'a' },
        { ...STEP, id: 'b', depends_on: ['a'] },
      ],
    },
  ],
  ['POST', '/workflows', { type: 'chain', name: 'a', steps: [STEP, STEP] }],
  [
    'POST',
    '/workflows',
    { type: 'batch', name: 'a', jobs: [STEP], callbacks: { on_complete: STEP } },
  ],
  [
    'POST',
    '/schemas',
    { uri: 'urn:a', type: 'b.b', version: '1', schema: { title: 'a', type: 'array' } },
  ],
  ['POST', '/queues/texts/pause', { reason: 'a', paused_by: 'a' }],
  ['POST', '/queues/texts/resume', {}],
  [
    'POST',
    '/workers/heartbeat',
    { worker_id: 'a', active_jobs: ['a'], hostname: 'a', labels: ['a'], version: 'a', state: 'a' },
  ],
  ['POST', '/workers/fetch', { queues: ['empty'], worker_id: 'a' }],
  [
    'POST',
    '/admin/jobs/bulk/cancel',
    { filter: { type: 'a.a', worker_id: 'a', tag: 'a' }, confirm: true },
  ],
]
/** Requests of a worker about a job of its own. */
const REPORTS: [method: string, path: string, body: Json][] = [
  [
    'PUT',
    '/jobs/{id}/progress',
    { progress: 0.5, message: 'a', data: { a: 'a' }, checkpoint: { a: 'a' } },
  ],
  ['PUT', '/jobs/{id}/checkpoint', { state: { a: 'a' } }],
  ['POST', '/workers/ack', { job_id: '{id}', result: { a: 'a' } }],
  ['POST', '/workers/nack', { job_id: '{id}', error: ERROR }],
  ['POST', '/workers/settle', { items: [{ action: 'ack', job_id: '{id}', result: { a: 'a' } }] }],
  ['POST', '/workers/settle', { items: [{ action: 'nack', job_id: '{id}', error: ERROR }] }],
]

async function expectAnswered(method: string, path: string, body: Json): Promise<number> {
  const answer = await gateway.request(method, `${V1}${path}`, body)
  const { items = [], results = [] } = answer.body ?? {}
  const parts = [...items, ...results].map((item: { status?: number }) => item.status ?? 0)
  const failed = [answer.status, ...parts].filter((status) => status >= 500)
  expect(failed, JSON.stringify([method, path, body, answer.body])).toEqual([])
  return answer.status
}

async function ackAll(): Promise<number> {
  let count = 0
  for (;;) {
    const jobs = await gateway.fetch(['texts'], { count: 100, wait_ms: 500 })
    if (jobs.length === 0) return count
    const answers = await Promise.all(jobs.map(({ id }) => gateway.ack(id)))
    expect(answers.map(({ status }) => status)).toEqual(jobs.map(() => 200))
    count += jobs.length
  }
}

describe.each([
  ['NUL', '\0'],
  ['half a surrogate pair', '\ud800'],
])('a text with %s', (_, text) => {
  it.each(REQUESTS)('is refused or stored: %s %s %j', async (method, path, body) => {
    const base = await gateway.request(method, `${V1}${path}`, body)
    expect(base.status, JSON.stringify(base.body)).toBeLessThan(300)
    const answers = [...spoilt(body, text)].map((given) => expectAnswered(method, path, given))
    await Promise.all(answers)
  })

  it.each(REPORTS)('of a worker is refused or stored: %s %s %j', async (method, path, body) => {
    for (const given of spoilt(body, text)) {
      await gateway.push('own')
      const [job] = await gateway.fetch(['own'], { wait_ms: 10_000 })
      const filled = JSON.parse(JSON.stringify(given).replaceAll('{id}', job.id))
      await expectAnswered(method, path.replace('{id}', job.id), filled)
      await gateway.ack(job.id)
    }
  })

  it('of a cron entry is refused, or its jobs are made, and it can be deleted', async () => {
    const entry = {
      cron: '0 0 1 1 *',
      type: 'a.a',
      args: [{ a: 'a' }],
      description: 'a',
      options: OPTIONS,
    }
    for (const [i, given] of [...spoilt(entry, text)].entries()) {
      const name = `texts-${text === '\0' ? 'nul' : 'half'}-${i}`
      if ((await expectAnswered('POST', '/cron', { ...(given as object), name })) >= 300) continue
      await expectAnswered('POST', `/cron/${name}/trigger`, {})
      expect((await gateway.request('DELETE', `${V1}/cron/${name}`)).status).toBeLessThan(300)
    }
  })

  it('is no concurrency key', async () => {
    const concurrency = { key: `a${text}`, limit: 1 }
    expect(await gateway.push('texts', { options: { concurrency } })).toMatchObject({
      status: 400,
      body: { error: { details: { field: 'options.concurrency.key' } } },
    })
  })

  it.each(['concurrency', 'rate_limit'])(
    'does not block the queue as the key of a native job: %s',
    async (member) => {
      const queue = `foreign-${member.replace('_', '-')}`
      const { body } = await gateway.push(queue)
      const envelope = { [member]: { key: `a${text}`, limit: 1, concurrency: 1 } }
      const admin = await connectAdmin(vhost.url)
      await publishJob(admin, queue, { envelope })
      await admin.close()
      const later = await gateway.push(queue)
      const ids: string[] = []
      while (!ids.includes(later.body.job.id)) {
        const [job] = await gateway.fetch([queue], { wait_ms: 5_000 })
        expect((await gateway.ack(job?.id)).status).toBe(200)
        ids.push(job.id)
      }
      expect(ids[0]).toBe(body.job.id)
    },
  )

  it.each(['retry', 'cancel', 'delete'])(
    'is an id of no job among those of a bulk %s',
    async (action) => {
      const { body } = await gateway.push('held', {
        options: { delay_until: '2100-01-01T00:00:00Z' },
      })
      const job_ids = [body.job.id, `a${text}`]
      const answer = await gateway.request('POST', `${V1}/jobs/bulk/${action}`, { job_ids })
      expect(answer.status).toBeLessThan(500)
      expect(JSON.stringify(answer.body)).toContain('not_found')
    },
  )

  it('is shown as U+FFFD where a worker says how far it is', async () => {
    const { body } = await gateway.push('said')
    await gateway.fetch(['said'], { wait_ms: 10_000 })
    const path = `${V1}/jobs/${body.job.id}/progress`
    await gateway.request('PUT', path, { progress: 0.5, message: `a${text}b` })
    expect((await gateway.request('GET', path)).body.message).toBe('a\ufffdb')
    await gateway.ack(body.job.id)
  })

  it('does not keep the jobs that were stored from being done', async () => {
    expect(await ackAll()).toBeGreaterThan(0)
  })
})
