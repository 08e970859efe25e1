import { describe, expect, it } from 'vitest'
import { assertDescribed, OPERATION_IDS } from '../support/checker/answers.ts'
import { freshQueue, gatewayForAll, startJob, untilState } from './harness.ts'

// Answers of a gateway are compared with the OpenAPI document, to the last member. All other tests of services
// compare theirs too (`test/support/gateway/in-process.ts`), but not what no schema knows of a job.

// biome-ignore lint/suspicious/noExplicitAny: answers are read as a client would, member by member
type Json = any

const { gateway } = gatewayForAll()

const AT_THE_ROOT = /^\/(ojs|metrics|livez|readyz)/

const seen = new Map<string, Set<number>>()

async function ask(method: string, path: string, body?: unknown): Promise<Json> {
  const whole = AT_THE_ROOT.test(path) ? path : `/ojs/v1${path}`
  const answer = await gateway.request(method, whole, body)
  const given = { method, path: whole, status: answer.status, body: answer.body }
  const id = assertDescribed(given, true)
  if (id === null) throw new Error(`${method} ${whole} is not in the document`)
  seen.set(id, (seen.get(id) ?? new Set()).add(answer.status))
  return answer.body
}

const error = { code: 'broken', message: 'it broke', details: { at: 3 }, backtrace: ['a', 'b'] }
const schemaUri = `urn:ojs:schema:${process.pid}`

describe('answers are as the OpenAPI document says:', () => {
  it('of jobs', async () => {
    const queue = freshQueue()
    const options = {
      queue,
      tags: ['eu'],
      retry: { max_attempts: 2, initial_interval_ms: 60_000, backoff_strategy: 'linear' },
      unique: { keys: ['args'], period: 'PT1H', on_conflict: 'ignore' },
      expires_at: '+PT1H',
      visibility_timeout: 60,
      timeout: 9,
      rate_limit: { max_per_second: 1_000 },
      meta: { tenant: 't7' },
    }
    const { job } = await ask('POST', '/jobs', { type: 'a', args: [1], options })
    expect(await ask('POST', '/jobs', { type: 'a', args: [1], options })).toMatchObject({
      deduplicated: true,
    })
    await ask('POST', '/jobs', { type: 'A!', args: [] })
    const [first] = (await ask('POST', '/jobs/batch', { jobs: [{ type: 'b', args: [] }] })).jobs
    await ask('DELETE', `/jobs/${first.id}`)
    await ask('DELETE', `/jobs/${first.id}`)
    await ask('GET', `/jobs/${first.id}`)
    await ask('GET', '/jobs/unknown')
    const later = { type: 'c', args: [], options: { queue, pending: true, delay_until: '+PT1H' } }
    const staged = (await ask('POST', '/jobs', later)).job
    await ask('POST', `/jobs/${staged.id}/activate`)
    await ask('POST', `/jobs/${staged.id}/activate`)

    const { jobs } = await ask('POST', '/workers/fetch', {
      queues: [queue],
      worker_id: 'w1',
      wait_ms: 15_000,
    })
    expect(jobs.map(({ id }: Json) => id)).toEqual([job.id])
    await ask('POST', '/workers/heartbeat', { worker_id: 'w1', job_id: job.id, hostname: 'h' })
    await ask('POST', '/workers/beat', { worker_id: 'w1', active_jobs: [job.id] })
    await ask('PUT', `/jobs/${job.id}/progress`, { progress: 0.5, message: 'half', data: { n: 1 } })
    await ask('POST', '/workers/progress', { job_id: job.id, percentage: 60 })
    await ask('GET', `/jobs/${job.id}/progress`)
    await ask('GET', `/jobs/${staged.id}/progress`)
    await ask('PUT', `/jobs/${job.id}/checkpoint`, { state: { at: 1 } })
    await ask('POST', `/jobs/${job.id}/checkpoint`, { state: null })
    await ask('GET', `/jobs/${job.id}/checkpoint`)
    await ask('GET', `/jobs/${job.id}`)
    await ask('GET', `/jobs/${job.id}/result`)
    await ask('POST', '/jobs/results', { ids: [job.id, 'unknown'] })
    await ask('GET', `/admin/jobs/${job.id}`)
    await ask('GET', `/admin/jobs/${job.id}/message`)
    await ask('GET', '/admin/workers/w1')
    const brief = { type: 'r', args: [], options: { queue, result_ttl: 0 } }
    const { job: kept } = await ask('POST', '/jobs', brief)
    await ask('POST', '/workers/fetch', { queues: [queue], worker_id: 'w1', wait_ms: 15_000 })
    await ask('POST', `/jobs/${kept.id}/ack`, { result: 1 })
    await ask('GET', `/jobs/${kept.id}/result`)
    await ask('GET', '/workers/w1/health')
    await ask('POST', '/workers/nack', { job_id: job.id, error })
    await ask('GET', `/jobs/${job.id}`)
    await ask('GET', `/jobs/${job.id}/retries`)
    await ask('GET', `/jobs/${job.id}/history?limit=2`)
    await ask('GET', `/admin/jobs?queue=${queue}&include=args,meta&limit=1`)
    await ask('GET', `/jobs?queue=${queue}&args=[1]&page=1&per_page=1`)
    await ask('DELETE', `/jobs/${job.id}/history`)
    await ask('DELETE', `/jobs/${job.id}/checkpoint`)
  })

  it('of ACK and NACK by path, of results and of checkpoints that the next attempt gets', async () => {
    const queue = freshQueue()
    const { id } = await startJob(gateway, queue)
    await ask('PUT', `/jobs/${id}/checkpoint`, { state: [1] })
    await ask('POST', `/jobs/${id}/nack`, { error, requeue: true })
    const again = await ask('POST', '/workers/fetch', { queues: [queue], wait_ms: 15_000 })
    expect(again.jobs[0]).toMatchObject({ id, last_checkpoint: [1] })
    await ask('POST', `/jobs/${id}/ack`, { result: { n: 1 } })
    await ask('POST', `/jobs/${id}/ack`, {})
    await ask('GET', `/jobs/${id}/result`)
    await ask('POST', '/workers/ack', { job_id: (await startJob(gateway, queue)).id })
    await ask('GET', `/jobs/${id}`)
    const done = await startJob(gateway, queue)
    const failed = await startJob(gateway, queue)
    await ask('POST', '/workers/settle', {
      items: [
        { action: 'ack', job_id: done.id },
        { action: 'nack', job_id: failed.id, error },
        { action: 'ack', job_id: 'unknown' },
      ],
    })
  })

  it('of dead letters', async () => {
    const queue = freshQueue()
    const dead: string[] = []
    for (const _ of [1, 2]) {
      const { id } = await startJob(gateway, queue, { retry: { max_attempts: 1 } })
      await ask('POST', '/workers/nack', { job_id: id, error })
      dead.push(id)
    }
    await ask('GET', `/dead-letter?queue=${queue}&limit=1`)
    await ask('GET', `/jobs/${dead[0]}/result`)
    await ask('POST', `/dead-letter/${dead[0]}/retry`, { override: { args: [] } })
    await ask('POST', `/dead-letter/${dead[0]}/retry`)
    await ask('GET', `/jobs/${dead[0]}`)
    await ask('DELETE', `/dead-letter/${dead[1]}`)
  })

  it('of jobs that an operator acts on, one or many', async () => {
    const queue = freshQueue()
    const filter = { queue }
    const item = { type: 'a', args: [], options: { queue } }
    const { jobs } = await ask('POST', '/jobs/batch', { jobs: Array(4).fill(item) })
    const [a, b, c, d] = jobs.map(({ id }: Json) => id)
    await ask('POST', `/admin/jobs/${a}/cancel`)
    await ask('POST', `/admin/jobs/${a}/retry`)
    await ask('POST', `/admin/jobs/${a}/copy`, { override: { args: [2] } })
    await ask('PATCH', `/admin/jobs/${a}`, { priority: 4 })
    await ask('PATCH', `/jobs/${b}`, { priority: 4 })
    await ask('POST', '/jobs/bulk/cancel', { job_ids: [a, b] })
    await ask('POST', '/jobs/bulk/cancel', { job_ids: ['unknown', b] })
    await ask('DELETE', `/admin/jobs/${b}`)
    await ask('DELETE', `/jobs/${c}`)
    await ask('POST', '/jobs/bulk/delete', { job_ids: [c] })
    await ask('POST', '/jobs/bulk', { jobs: [item, { ...item, args: 7 }], atomicity: 'partial' })
    await ask('POST', '/admin/jobs/bulk/cancel', { filter, dry_run: true })
    const begun = await ask('POST', '/admin/jobs/bulk/cancel', {
      filter,
      confirm: true,
      async: true,
    })
    expect(begun.id ?? begun.operation_id).toBeDefined()
    const operation = `/admin/operations/${begun.id ?? begun.operation_id}`
    await ask('GET', operation)
    await untilState(gateway, d, 'cancelled')
    await ask('POST', `${operation}/stop`)
    await ask('GET', '/admin/operations')
    await ask('POST', '/admin/jobs/bulk/retry', { filter, confirm: true })
    await ask('POST', '/admin/jobs/bulk/delete', { filter, confirm: true })
  })

  it('of dead letters that are found and steered', async () => {
    const queue = freshQueue()
    const dead: string[] = []
    for (const _ of [1, 2, 3, 4]) {
      const { id } = await startJob(gateway, queue, { retry: { max_attempts: 1 } })
      await ask('POST', '/workers/nack', { job_id: id, error })
      dead.push(id)
    }
    await ask('GET', `/dead-letter/${dead[0]}`)
    await ask('GET', `/admin/dead-letter?queue=${queue}`)
    await ask('GET', '/dead-letter/stats')
    expect((await ask('GET', `/admin/failures?queue=${queue}`)).groups).not.toEqual([])
    await ask('DELETE', `/admin/dead-letter/${dead[0]}`)
    await ask('POST', '/jobs/bulk/retry', { job_ids: [dead[1]] })
    await ask('POST', '/dead-letter/retry', { filter: { queue }, limit: 1, confirm: true })
    await ask('POST', '/dead-letter/purge', { queue, dry_run: true })
    await ask('DELETE', `/dead-letter?queue=${queue}&confirm=true`)
  })

  it('of queues, statistics and events', async () => {
    const queue = freshQueue()
    const { id } = await startJob(gateway, queue)
    await ask('POST', '/workers/ack', { job_id: id })
    await gateway.push(queue)
    await ask('GET', '/queues?limit=100')
    await ask('GET', `/queues/${queue}/stats`)
    await ask('GET', `/queues/${queue}`)
    await ask('GET', '/queues/unknown/stats')
    await ask('GET', `/queues/${queue}/priority-stats`)
    const concurrency = { key: `k-${queue}`, limit: 1 }
    await ask('POST', '/jobs', { type: 'a', args: [], options: { queue, concurrency } })
    await ask('GET', '/rate-limits?per_page=100')
    await ask('GET', `/rate-limits/k-${queue}`)
    await ask('GET', '/rate-limits/unknown')
    await ask('POST', `/queues/${queue}/pause`)
    await ask('GET', `/admin/queues/${queue}?include=rabbitmq`)
    await ask('POST', '/jobs', { type: 'a', args: [], options: { queue } })
    await ask('POST', `/queues/${queue}/resume`, {})
    await ask('GET', '/admin/queues?per_page=1&page=1&include=rabbitmq')
    await ask('POST', '/queues', { name: `${queue}-new` })
    await ask('POST', '/queues', { name: `${queue}-new` })
    await ask('POST', `/admin/queues/${queue}/pause`)
    await ask('POST', `/admin/queues/${queue}/resume`)
    await ask('DELETE', `/admin/queues/${queue}-new/jobs?states=completed&dry_run=true`)
    await ask('DELETE', `/admin/queues/${queue}-new/jobs`, { states: ['completed'], confirm: true })
    await ask('POST', `/admin/queues/${queue}/drain`)
    await ask('GET', `/admin/queues/${queue}`)
    await ask('DELETE', `/queues/${queue}`)
    await ask('PUT', `/queues/${queue}/config`, { default_retry: { max_attempts: 2 } })
    await ask('PUT', `/admin/queues/${queue}/config`, { max_size: 5 })
    await ask('PUT', `/admin/queues/${queue}-new/config`, { default_retry: null })
    await ask('DELETE', `/queues/${queue}-new?strategy=reject`)
    await ask('GET', '/admin/stats')
    await ask('GET', `/admin/stats?queue=${queue}`)
    await ask('GET', `/admin/stats/history?period=1m&queue=${queue}`)
    await ask('POST', `/admin/queues/${queue}/recover`, { dry_run: true })
    await ask('POST', `/admin/queues/${queue}/recover`)
    expect((await ask('GET', `/events?queues=${queue}`)).events).not.toEqual([])
  })

  it('of cron', async () => {
    const body = {
      name: `nightly-${process.pid}`,
      cron: '30 2 * * *',
      timezone: 'Europe/Berlin',
      type: 'a',
      args: [1],
      description: 'each night',
      options: { queue: freshQueue(), expires_at: '2099-01-01T00:00:00Z' },
      meta: { of: 'cron' },
    }
    expect((await ask('POST', '/cron', body)).warnings).not.toEqual([])
    await ask('POST', '/cron', body)
    await ask('POST', '/cron?replace=true', { ...body, enabled: false })
    await ask('GET', '/cron')
    const at = `/cron/${body.name}`
    await ask('PUT', at, body)
    await ask('PATCH', at, { options: { priority: 1 } })
    await ask('POST', `${at}/pause`)
    await ask('POST', `${at}/trigger`, { args: [2] })
    await ask('POST', `${at}/resume`)
    await ask('GET', `${at}/history`)
    const times = '/admin/cron/times?expression=30+2+*+*+*&timezone=Europe/Berlin&limit=3'
    expect((await ask('GET', times)).times).toHaveLength(3)
    await ask('GET', '/admin/cron/times?expression=nonsense')
    await ask('GET', `/cron/${body.name}`)
    await ask('DELETE', `/cron/${body.name}`)
    await ask('GET', `/cron/${body.name}`)
  })

  it('of workflows', async () => {
    const options = { queue: freshQueue(), retry: { max_attempts: 1 } }
    const step = (id: string, depends_on: string[] = []) => ({ id, type: id, args: [], depends_on })
    const graph = { name: 'graph', options, steps: [step('a'), step('b', ['a'])] }
    const { id } = await ask('POST', '/workflows', graph)
    await ask('GET', `/workflows/${id}`)
    await ask('GET', `/workflows/${id}/progress`)
    const fetchOne = async () => {
      const asked = { queues: [options.queue], wait_ms: 15_000 }
      return (await ask('POST', '/workers/fetch', asked)).jobs[0]
    }
    await ask('POST', '/workers/ack', { job_id: (await fetchOne()).id, result: { n: 1 } })
    const second = await fetchOne()
    expect(second.parent_results).toEqual({ a: { n: 1 } })
    await ask('POST', '/workers/nack', { job_id: second.id, error })
    await untilState(gateway, second.id, 'discarded')
    expect((await ask('GET', `/workflows/${id}`)).workflow.failed_step_id).toBe('b')
    const job = { type: 'c', args: [] }
    const batch = { type: 'batch', jobs: [job, job], callbacks: { on_complete: job }, options }
    const other = await ask('POST', '/workflows', batch)
    await ask('GET', `/workflows/${other.id}`)
    await ask('DELETE', `/workflows/${other.id}`)
    await ask('DELETE', `/workflows/${other.id}`)
    await ask('GET', '/workflows?state=cancelled&limit=1')
    await ask('GET', `/jobs/${second.id}`)
    await ask('GET', `/admin/jobs/${second.id}`)
  })

  it('of schemas', async () => {
    const body = { uri: schemaUri, type: 'a', version: 1, schema: { maxItems: 1 } }
    await ask('POST', '/schemas', body)
    await ask('POST', '/schemas', body)
    await ask('POST', '/schemas', { ...body, schema: {} })
    await ask('POST', '/jobs', { type: 'a', args: [1, 2], schema: schemaUri })
    const { job } = await ask('POST', '/jobs', { type: 'a', args: [1], schema: schemaUri })
    await ask('GET', `/jobs/${job.id}`)
    await ask('GET', '/schemas')
    await ask('GET', `/schemas/${encodeURIComponent(schemaUri)}`)
    await ask('DELETE', `/schemas/${encodeURIComponent(schemaUri)}`)
  })

  it('of workers', async () => {
    await ask('POST', '/workers/heartbeat', {
      worker_id: 'w2',
      pid: 7,
      concurrency: 2,
      version: '1',
      labels: ['a'],
      queues: ['q'],
    })
    await ask('GET', '/admin/workers?limit=1')
    await ask('POST', '/admin/workers/w2/quiet')
    await ask('POST', '/workers/fetch', { queues: ['q'], worker_id: 'w2' })
    await ask('POST', '/admin/workers/w2/terminate', {})
    await ask('POST', '/admin/workers/w2/quiet', {})
    await ask('DELETE', '/admin/workers/w2')
    await ask('POST', '/admin/workers/*/quiet')
    await ask('POST', '/admin/workers/directive', { directive: 'resume' })
  })

  it('of the system', async () => {
    await ask('GET', '/ojs/manifest')
    await ask('GET', '/health')
    await ask('GET', '/livez')
    await ask('GET', '/readyz')
    await ask('GET', '/ojs/v1/openapi.json')
    await ask('GET', '/session')
    await ask('POST', '/session', { key: 'none' })
    await ask('GET', '/session/login?page=http%3A%2F%2Flocalhost%2Fconsole%2F')
    await ask('DELETE', '/session')
    await ask('GET', '/metrics')
    await ask('GET', '/ojs/v1/metrics')
    await ask('POST', '/admin/retention/resume')
    await ask('GET', '/admin/system/config')
    await ask('GET', '/admin/system/maintenance')
    await ask('GET', '/admin/audit?limit=2')
    await ask('GET', '/admin/rabbitmq')
    await ask('GET', '/admin/system/ledger')
    await ask('GET', '/admin/rabbitmq/queues?limit=3')
    const plan = { enabled: true, reason: 'a move', duration: 60 }
    await ask('POST', '/admin/system/maintenance', plan)
    await ask('POST', '/jobs', { type: 'a', args: [] })
    await ask('GET', '/health')
    await ask('POST', '/admin/system/maintenance', { enabled: false })
  })

  // Of these only a refusal is seen: this gateway has no provider of OpenID Connect, and a worker is stale after 30 s.
  const REFUSED = ['beginLogin', 'deregisterWorker']

  it('of every endpoint', () => {
    const answered = (id: string) => [...(seen.get(id) ?? [])].some((status) => status < 300)
    // A number at the end: the same under another path. Streams do not end by themselves.
    const isLeftOut = (id: string) => /\d$|^stream/.test(id)
    const missing = OPERATION_IDS.filter((id) => !isLeftOut(id) && !answered(id))
    expect(missing).toEqual(REFUSED)
  })
})
