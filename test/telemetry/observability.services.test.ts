import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { jobOf } from '../support/gateway/client.ts'
import { gatewayProcessForAll } from '../support/gateway/gateway.ts'
import { eventually } from '../support/gateway/in-process.ts'

const PACKAGE = join(import.meta.dirname, '../../package.json')
const TRACE_ID = '0af7651916cd43dd8448eb211c80319c'
const SECRET = 'attack at dawn'

describe('logs, metrics and events of a gateway', () => {
  const { vhost, gateway } = gatewayProcessForAll()
  let jobId = ''

  async function metric(line: string): Promise<number> {
    const { text } = await gateway.client.send('GET', '/metrics')
    const found = text.split('\n').find((candidate) => candidate.startsWith(`${line} `))
    return found === undefined ? Number.NaN : Number(found.slice(line.length + 1))
  }

  /** The whole log; lines are written asynchronously and may come after the answer. */
  const log = () => readFileSync(join(gateway.dir, 'gateway.log'), 'utf8')

  async function logged(msg: string): Promise<unknown> {
    const line = () =>
      log()
        .split('\n')
        .find((text) => text.includes(`"msg":"${msg}"`))
    await eventually(() => line() !== undefined)
    return JSON.parse(line() ?? '')
  }

  it('the log names the version and the URL at the start', async () => {
    const { version } = JSON.parse(readFileSync(PACKAGE, 'utf8'))
    expect(await logged('gateway listening')).toMatchObject({ version, url: gateway.url })
  })

  it('the log has each step of a job with its ids, but never its args or result', async () => {
    const pushed = await gateway.client.push(
      { type: 'log.me', args: [SECRET], options: { queue: 'watched' } },
      { 'X-Request-Id': 'req_from-the-client', traceparent: `00-${TRACE_ID}-b7ad6b7169203331-01` },
    )
    expect(pushed.status).toBe(201)
    const fetched = await gateway.client.fetch({ queues: ['watched'], wait_ms: 10_000 })
    const { jobs } = fetched.body as { jobs: { id: string }[] }
    jobId = jobs[0]?.id ?? ''
    await gateway.client.ack({ job_id: jobId, result: { secret: SECRET } })
    const enqueued = await logged('job.enqueued')
    const started = await logged('job.started')
    const completed = await logged('job.completed')
    const common = { level: 'info', jobId, queue: 'watched', type: 'log.me', traceId: TRACE_ID }
    expect(enqueued).toMatchObject({ ...common, attempt: 0, requestId: 'req_from-the-client' })
    expect(started).toMatchObject({ ...common, attempt: 1 })
    expect(completed).toMatchObject({ ...common, attempt: 1 })
    expect(log()).not.toContain(SECRET)
    expect(log()).not.toContain(':test@')
  })

  it('the metrics count the job, its messages and its requests', async () => {
    expect(jobId).not.toBe('')
    const job = '{queue="watched",type="log.me"}'
    const queue = '{queue="watched"}'
    expect(await metric(`ojs_job_enqueued_total${job}`)).toBe(1)
    expect(await metric(`ojs_job_completed_total${job}`)).toBe(1)
    const ended = '{queue="watched",type="log.me",state="completed"}'
    expect(await metric(`ojs_job_duration_seconds_count${ended}`)).toBe(1)
    expect(await metric('ojs_queue_depth{queue="watched",state="completed"}')).toBe(1)
    expect(await metric('ojs_queue_depth{queue="watched",state="available"}')).toBe(0)
    expect(await metric(`ojs_amqp_messages_published_total${queue}`)).toBe(1)
    expect(await metric(`ojs_amqp_messages_consumed_total${queue}`)).toBe(1)
    expect(await metric(`ojs_amqp_messages_acked_total${queue}`)).toBe(1)
    expect(await metric('ojs_amqp_connections_active')).toBe(3)
    expect(await metric('ojs_amqp_publish_confirm_latency_seconds_count')).toBe(1)
    const route = '{route="/ojs/v1/jobs",method="POST",status="2xx"}'
    expect(await metric(`ojs_http_request_duration_seconds_count${route}`)).toBe(1)
  })

  it('the metrics count failed attempts, retries, discards and dead letters, and each enqueued job once', async () => {
    const series = '{queue="failing",type="fail.me"}'
    const post = async (path: string, body: object = {}) => {
      const answer = await gateway.client.send('POST', path, body)
      expect(answer.status, answer.text).toBeLessThan(300)
      return answer
    }
    const options = {
      queue: 'failing',
      retry: { max_attempts: 2, initial_interval_ms: 125, jitter: false },
    }
    const pushed = await gateway.client.push({ type: 'fail.me', args: [SECRET], options })
    const { id } = jobOf(pushed)
    const fail = async () => {
      await gateway.client.fetch({ queues: ['failing'], wait_ms: 10_000 })
      const error = { code: 'boom', message: SECRET }
      await post('/ojs/v1/workers/nack', { job_id: id, error })
    }
    const depth = () => metric('ojs_dead_letter_depth{queue="failing"}')

    await fail()
    expect(await metric(`ojs_job_attempts_failed_total${series}`)).toBe(1)
    expect(await metric(`ojs_job_retried_total${series}`)).toBe(1)
    expect(await metric(`ojs_job_failed_total${series}`)).toBeNaN()
    expect(await depth()).toBe(0)
    await fail()
    expect(await metric(`ojs_job_attempts_failed_total${series}`)).toBe(2)
    expect(await metric(`ojs_job_retried_total${series}`)).toBe(1)
    expect(await metric(`ojs_job_failed_total${series}`)).toBe(1)
    expect(await metric(`ojs_job_discarded_total${series}`)).toBe(1)
    const ended = '{queue="failing",type="fail.me",state="discarded"}'
    expect(await metric(`ojs_job_duration_seconds_count${ended}`)).toBe(1)
    expect(await depth()).toBe(1)

    await post(`/ojs/v1/dead-letter/${id}/retry`)
    expect(await depth()).toBe(0)
    const staged = await post('/ojs/v1/jobs', {
      type: 'fail.me',
      args: [],
      options: { ...options, pending: true },
    })
    const delay_until = new Date(Date.now() + 3_600_000).toISOString()
    await post('/ojs/v1/jobs', { type: 'fail.me', args: [], options: { ...options, delay_until } })
    expect(await metric(`ojs_job_enqueued_total${series}`)).toBe(3)
    // The staged job was counted when it was stored.
    await post(`/ojs/v1/jobs/${jobOf(staged).id}/activate`)
    expect(await metric(`ojs_job_enqueued_total${series}`)).toBe(3)
    expect(log()).not.toContain(SECRET)
  })

  it('the events show each step of a job that fails, becomes a dead letter and is retried', async () => {
    const { text } = await gateway.client.send('GET', '/ojs/v1/events?queues=failing')
    const { events } = JSON.parse(text) as { events: { type: string; data: object }[] }
    expect(events.slice(0, 11).map(({ type }) => type)).toEqual([
      'job.enqueued',
      'job.started',
      'job.failed',
      'job.retrying',
      'job.enqueued',
      'job.started',
      'job.failed',
      'job.discarded',
      'dead_letter.added',
      'dead_letter.retried',
      'job.enqueued',
    ])
    expect(events[2]?.data).toMatchObject({ attempt: 1, error: { code: 'boom', retryable: true } })
    expect(events[3]?.data).toMatchObject({ attempt: 1, max_attempts: 2, retry_delay_ms: 130 })
    expect(events[7]?.data).toMatchObject({ total_attempts: 2, last_error: { code: 'boom' } })
    // The job with a delay, and the staged job at its activation.
    expect(events.slice(11).map(({ type }) => type)).toEqual(['job.scheduled', 'job.enqueued'])
  })

  it('the metrics count reconnections of all three connections', async () => {
    const reconnections = (connection: string) =>
      metric(`ojs_amqp_reconnections_total{connection="${connection}"}`)
    const all = () => Promise.all(['publish', 'consume', 'declare'].map(reconnections))
    const before = await all()
    await vhost.closeConnections()
    await eventually(async () => (await all()).every((count, i) => count > Number(before[i])))
  })
})
