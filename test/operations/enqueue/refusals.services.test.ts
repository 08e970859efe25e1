import amqp from 'amqplib'
import { v7 } from 'uuid'
import { describe, expect, it } from 'vitest'
import { createVhost } from '../../support/broker/rabbit.ts'
import { connectControl } from '../../support/gateway/control.ts'
import { eventually, startTestGateway } from '../../support/gateway/in-process.ts'
import { samplesOf, scrape } from '../../telemetry/exposition-text.ts'
import { fetchOne, gatewayForAll } from '../harness.ts'

const { vhost, gateway } = gatewayForAll({ OJS_MAX_QUEUES: '5', OJS_CONTROL_SCOPE: 'any' })

/** Declares a job queue as an operator might before the gateway does. */
async function declare(
  queue: string,
  options: amqp.Options.AssertQueue,
  url = vhost.url,
): Promise<void> {
  const connection = await amqp.connect(url)
  const channel = await connection.createChannel()
  await channel.assertQueue(`ojs.queue.${queue}`, { durable: true, ...options })
  await connection.close()
}

describe('a queue that is full', () => {
  it('answers PUSH with 429; the job is withdrawn and its id may be used again', async () => {
    await declare('full', { arguments: { 'x-max-length': 1, 'x-overflow': 'reject-publish' } })
    let id = v7()
    const accepted: string[] = []
    let refused = await gateway.push('full', { id })
    // The limit is soft: a classic queue takes a message or two more.
    while (refused.status === 201) {
      accepted.push(id)
      id = v7()
      refused = await gateway.push('full', { id })
    }
    expect(refused.status).toBe(429)
    expect(refused.body.error).toMatchObject({
      code: 'rate_limited',
      retryable: true,
      details: { reason: 'queue_full' },
    })
    expect(refused.headers.get('retry-after')).toBe('1')
    expect((await gateway.get(id)).status).toBe(404)
    for (const job of accepted) {
      expect((await fetchOne(gateway, 'full')).id).toBe(job)
      await gateway.ack(job)
    }
    await eventually(async () => (await gateway.push('full', { id })).status === 201)
    expect(await fetchOne(gateway, 'full')).toMatchObject({ id, attempt: 1 })
  })

  it('is reported by health as queue_differs, since it has other arguments', async () => {
    const { body } = await gateway.request('GET', '/ojs/v1/health')
    expect(body.status).toBe('ok')
    const warning = body.warnings.find((entry: { message: string }) =>
      entry.message.includes('ojs.queue.full'),
    )
    expect(warning?.code).toBe('queue_differs')
  })
})

describe('a gateway with OJS_MAX_QUEUES', () => {
  it('refuses a PUSH to one queue more with 422 too_many_queues', async () => {
    let answer = await gateway.push('many-0')
    for (let i = 1; answer.status === 201; i++) answer = await gateway.push(`many-${i}`)
    expect(answer.status).toBe(422)
    expect(answer.body.error).toMatchObject({
      code: 'unsupported',
      details: { reason: 'too_many_queues' },
    })
  })

  it('ignores jobs of further queues in the report of a native worker', async () => {
    const namesOf = async () => {
      const { body } = await gateway.request('GET', '/ojs/v1/queues')
      return body.queues.map(({ name }: { name: string }) => name)
    }
    const known = await namesOf()
    const { say, close } = await connectControl(vhost.url)
    const shown = (queue: string) => {
      const id = v7()
      const job = { specversion: '1.0', id, type: 'test.job', queue, args: [] }
      return { job_id: id, generation: 0, attempt: 1, event: 'completed', job }
    }
    const events = ['told-0', 'told-1', 'many-0'].map(shown)
    const [more, another, last] = events.map(({ job_id }) => job_id)
    await say('default', 'ojs.control.report', { worker_id: 'w', events })
    await eventually(async () => (await gateway.get(last ?? '')).status === 200)
    expect((await gateway.get(more ?? '')).status).toBe(404)
    expect((await gateway.get(another ?? '')).status).toBe(404)
    expect(await namesOf()).toEqual(known)
    await close()
  })

  it('answers a FETCH of an unknown queue with [], and does not declare it', async () => {
    expect(await gateway.fetch(['never-seen'])).toEqual([])
    expect(await vhost.queue('ojs.queue.never-seen')).toBeUndefined()
  })
})

describe('silent acknowledgements', () => {
  it('are detected; a lost queue is then republished only by `recover`', async () => {
    const silent = await createVhost()
    const own = await startTestGateway(silent.url)
    try {
      for (let i = 0; i < 3; i++) {
        await Promise.all(Array.from({ length: 50 }, () => own.push('silent')))
      }
      const connection = await amqp.connect(silent.url)
      const channel = await connection.createChannel()
      await channel.purgeQueue('ojs.queue.silent')
      await eventually(async () => {
        const { body } = await own.request('GET', '/ojs/v1/health')
        return body.warnings.some((entry: { code: string }) => entry.code === 'silent_acks')
      }, 30_000)
      const early = await own.request('POST', '/ojs/v1/admin/queues/silent/recover')
      expect(early.status).toBe(409)
      await channel.deleteQueue('ojs.queue.silent')
      await connection.close()
      const isRefused = async () =>
        (await own.push('silent')).body.error?.details?.reason === 'queue_lost'
      // The first PUSH finds the queue missing.
      expect(await isRefused()).toBe(true)
      // A missing queue cannot be sampled again, so the suspicion has to survive a restart.
      await own.restart()
      expect(await isRefused()).toBe(true)
      // The worker that acknowledges silently declares the queue when it comes back.
      await declare('silent', { maxPriority: 10 }, silent.url)
      expect(await isRefused()).toBe(true)
      const codes = async () => {
        const { body } = await own.request('GET', '/ojs/v1/health')
        return body.warnings.map(({ code }: { code: string }) => code)
      }
      expect(await codes()).toContain('queue_lost')
      const recovered = await own.request('POST', '/ojs/v1/admin/queues/silent/recover')
      expect(recovered.body).toMatchObject({ queue: 'silent' })
      expect(recovered.body.republished).toBeGreaterThanOrEqual(150)
      expect(await codes()).not.toContain('queue_lost')
      const jobs = await own.fetch(['silent'], { count: 10, wait_ms: 5_000 })
      expect(jobs.length).toBeGreaterThan(0)
      const late = await own.request('POST', '/ojs/v1/admin/queues/silent/recover')
      expect(late.body.error.details.reason).toBe('queue_exists')
      await own.restart()
      expect((await own.push('silent')).status).toBe(201)
    } finally {
      await own.destroy()
      await silent.drop()
    }
  }, 60_000)
})

describe('a second gateway with another ledger on the same broker', () => {
  it('is refused: health, PUSH and FETCH answer 503 until the first one ends', async () => {
    const shared = await createVhost()
    const first = await startTestGateway(shared.url)
    const { readConfig } = await import('../../../src/config/config.ts')
    const { startGateway } = await import('../../../src/gateway.ts')
    const { createLogger } = await import('../../../src/logger.ts')
    const { config } = readConfig({
      OJS_PORT: '0',
      OJS_AMQP_URL: shared.url,
      OJS_LEDGER: `sqlite:${first.ledgerPath}.second`,
      OJS_LOG_LEVEL: 'silent',
    })
    const second = await startGateway(config, createLogger('silent'))
    try {
      const health = async () => {
        const response = await fetch(`${second.url}/ojs/v1/health`)
        return (await response.json()) as { status: string; backend: { status: string } }
      }
      await eventually(async () => (await health()).backend.status === 'refused')
      const refused = await fetch(`${second.url}/ojs/v1/jobs`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json' },
        body: '{"type":"a","args":[]}',
      })
      expect(refused.status).toBe(503)
      expect(await refused.text()).toContain('"foreign_ledger"')
      const fetched = await fetch(`${second.url}/ojs/v1/workers/fetch`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json' },
        body: '{"queues":["default"]}',
      })
      expect(fetched.status).toBe(503)
      expect(await fetched.text()).toContain('"foreign_ledger"')
      await first.destroy()
      await eventually(async () => (await health()).status === 'ok')
    } finally {
      await second.stop(AbortSignal.timeout(5_000))
      await shared.drop()
    }
  })
})

describe('without RabbitMQ', () => {
  const STEP = { type: 'a', args: [], options: { queue: 'steps' } }
  const CHAIN = { type: 'chain', steps: [STEP, STEP] }

  it('PUSH and workflows answer 503 at once and store nothing, while GET and ACK still work', async () => {
    const own = await createVhost()
    const lonely = await startTestGateway(own.url)
    const queued = (await lonely.push('q')).body.job.id
    const active = (await fetchOne(lonely, 'q')).id
    const { workflow: chain } = (await lonely.request('POST', '/ojs/v1/workflows', CHAIN)).body
    await fetchOne(lonely, 'steps')
    await own.drop()
    const id = v7()
    await eventually(async () => (await lonely.push('q', { id })).status === 503)
    const refused = await lonely.push('q', { id })
    expect(refused.body.error).toMatchObject({ code: 'backend_error', retryable: true })
    expect(refused.headers.get('retry-after')).toBe('1')
    expect((await lonely.get(id)).status).toBe(404)
    expect(active).toBe(queued)
    expect((await lonely.ack(active)).status).toBe(200)
    const started = await lonely.request('POST', '/ojs/v1/workflows', CHAIN)
    expect([started.status, started.body.error.code]).toEqual([503, 'backend_error'])
    const { workflows } = (await lonely.request('GET', '/ojs/v1/workflows')).body
    expect(workflows.map(({ id: one }: { id: string }) => one)).toEqual([chain.id])
    expect((await lonely.ack(chain.steps[0].job_id)).status).toBe(200)
    const { body } = await lonely.request('GET', `/ojs/v1/workflows/${chain.id}`)
    // The relay publishes the job message of the next step later.
    expect(body.workflow.steps[1]).toMatchObject({ state: 'available' })
    const health = await lonely.request('GET', '/ojs/v1/health')
    expect(health.status).toBe(503)
    expect(JSON.stringify(health.body)).not.toContain(':test@')
    expect(samplesOf(await scrape(lonely), 'ojs_')).toMatchObject({
      ojs_healthy: 0,
      ojs_ledger_writable: 1,
      ojs_ledger_tokens_owed: 1,
    })
    await lonely.destroy()
  })
})
