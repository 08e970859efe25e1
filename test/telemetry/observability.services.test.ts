import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Gateway } from '../support/gateway.ts'
import { eventually } from '../support/in-process.ts'
import { createVhost, type Vhost } from '../support/rabbit.ts'

const TRACE_ID = '0af7651916cd43dd8448eb211c80319c'
const SECRET = 'attack at dawn'

describe('what an operator sees', () => {
  let vhost: Vhost
  let gateway: Gateway
  let jobId = ''

  beforeAll(async () => {
    vhost = await createVhost()
    gateway = await Gateway.start({ amqpUrl: vhost.url })
    await eventually(async () => (await gateway.client.health()).status === 200)
  })
  afterAll(async () => {
    await gateway.dispose()
    await vhost.drop()
  })

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

  it('logs each step of a job with its ids, and never what is in it', async () => {
    const pushed = await gateway.client.push(
      { type: 'log.me', args: [SECRET], options: { queue: 'watched' } },
      { 'X-Request-Id': 'req_from-the-client', traceparent: `00-${TRACE_ID}-b7ad6b7169203331-01` },
    )
    expect(pushed.status).toBe(201)
    const fetched = await gateway.client.fetch({ queues: ['watched'], wait_ms: 2_000 })
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

  it('counts the job, its messages and its requests', async () => {
    expect(jobId).not.toBe('')
    const job = '{queue="watched",type="log.me"}'
    const queue = '{queue="watched"}'
    expect(await metric(`ojs_job_enqueued_total${job}`)).toBe(1)
    expect(await metric(`ojs_job_completed_total${job}`)).toBe(1)
    expect(await metric(`ojs_job_duration_seconds_count${job}`)).toBe(1)
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

  it('counts connections that come back', async () => {
    const before = await metric('ojs_amqp_reconnections_total')
    await vhost.closeConnections()
    await expect
      .poll(() => metric('ojs_amqp_reconnections_total'), { timeout: 15_000 })
      .toBe(before + 3)
  })
})
