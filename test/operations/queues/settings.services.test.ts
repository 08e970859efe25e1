import { afterAll, describe, expect, it } from 'vitest'
import { managementRequest } from '../../../scripts/broker/management-api.mjs'
import { testVariables } from '../../../scripts/test/environment.mjs'
import { pikaPublish } from '../../support/broker/pika.ts'
import { createVhost, type Vhost, vhostForAll } from '../../support/broker/rabbit.ts'
import { eventually, startTestGateway, type TestGateway } from '../../support/gateway/in-process.ts'
import { fetchOne, freshQueue, nack, startJob, withChannel } from '../harness.ts'

const PORT = process.env[testVariables.managementPort]
const MANAGEMENT = `http://guest:guest@127.0.0.1:${PORT}`

const vhost = vhostForAll()
const started: TestGateway[] = []
afterAll(async () => {
  for (const gateway of started) await gateway.destroy()
})

async function start(url: string, env: Record<string, string> = {}): Promise<TestGateway> {
  const gateway = await startTestGateway(url, env, { idleMs: 20 })
  started.push(gateway)
  return gateway
}

let shared: Promise<TestGateway> | undefined
const gatewayForAll = () => {
  shared ??= start(vhost.url)
  return shared
}

const ask = (gateway: TestGateway, method: string, path: string, body?: object) =>
  gateway.request(method, `/ojs/v1${path}`, body)
const detail = async (gateway: TestGateway, queue: string) =>
  (await ask(gateway, 'GET', `/admin/queues/${queue}`)).body

describe('POST /admin/queues/:name/drain', () => {
  it('refuses new jobs, lets the others run, and tells when none is left', async () => {
    const gateway = await gatewayForAll()
    const queue = freshQueue()
    const active = await startJob(gateway, queue)
    const waiting = (await gateway.push(queue)).body.job
    const later = (await gateway.push(queue, { options: { delay_until: '+PT1H' } })).body.job
    const { status, body } = await ask(gateway, 'POST', `/admin/queues/${queue}/drain`)
    expect([status, body.state, body.jobs_left, body.drained]).toEqual([200, 'draining', 3, false])
    const again = await ask(gateway, 'POST', `/admin/queues/${queue}/drain`, {})
    expect(again.body.draining_since).toBe(body.draining_since)

    const refused = await gateway.push(queue)
    expect([refused.status, refused.body.error.code]).toEqual([422, 'queue_paused'])
    expect(refused.body.error.details.reason).toBe('queue_draining')
    const job = { type: 'test.job', args: [], options: { queue } }
    const batch = await ask(gateway, 'POST', '/jobs/batch', { jobs: [job] })
    expect(batch.status).toBe(422)
    const bulk = await ask(gateway, 'POST', '/jobs/bulk', { jobs: [job] })
    expect([bulk.status, bulk.body.items[0].error.code]).toEqual([422, 'queue_paused'])
    const flow = { type: 'chain', steps: [job] }
    expect((await ask(gateway, 'POST', '/workflows', flow)).status).toBe(422)

    // A retry comes back, although the queue drains.
    await nack(gateway, active.id, { retryable: true })
    expect(await fetchOne(gateway, queue)).toMatchObject({ id: waiting.id })
    await gateway.ack(waiting.id)
    await eventually(async () => (await gateway.get(active.id)).body.job.state === 'available')
    await gateway.ack((await fetchOne(gateway, queue)).id)
    await gateway.cancel(later.id)
    expect(await detail(gateway, queue)).toMatchObject({
      state: 'draining',
      paused: false,
      drained: true,
      jobs_left: 0,
    })

    await gateway.restart()
    expect((await gateway.push(queue)).status).toBe(422)
    await ask(gateway, 'POST', `/queues/${queue}/resume`)
    expect((await gateway.push(queue)).status).toBe(201)
    const resumed = await detail(gateway, queue)
    expect([resumed.state, 'drained' in resumed]).toEqual(['active', false])
  })

  it('skips the times of recurring jobs, and is 404 for an unknown queue', async () => {
    const gateway = await gatewayForAll()
    const queue = freshQueue()
    expect((await ask(gateway, 'POST', `/admin/queues/${queue}/drain`)).status).toBe(404)
    await ask(gateway, 'POST', '/queues', { name: queue })
    await ask(gateway, 'POST', `/admin/queues/${queue}/drain`)
    const name = `drained-${queue}`
    const entry = { name, cron: '* * * * * *', type: 'test.job', args: [], options: { queue } }
    expect((await ask(gateway, 'POST', '/cron', entry)).status).toBe(201)
    await eventually(async () => {
      const { body } = await ask(gateway, 'GET', '/events?types=cron.skipped&limit=1000')
      return body.events.some(
        ({ data }: { data: { cron_name: string; reason: string } }) =>
          data.cron_name === name && data.reason === 'queue_paused',
      )
    })
    expect((await detail(gateway, queue)).counts.available).toBe(0)
    await ask(gateway, 'DELETE', `/cron/${name}`)
  })
})

describe('PUT /admin/queues/:name/config', () => {
  const retry = { max_attempts: 2, initial_interval: 'PT5S', jitter: false }

  it('ADM-R006: sets the default retry policy, for jobs that name none, from now on', async () => {
    const gateway = await gatewayForAll()
    const queue = freshQueue()
    const before = (await gateway.push(queue)).body.job
    const { status, body } = await ask(gateway, 'PUT', `/queues/${queue}/config`, {
      default_retry: retry,
    })
    expect([status, body.configuration]).toEqual([200, { default_retry: retry }])
    const job = async (options: object) => {
      const { id } = (await gateway.push(queue, { options })).body.job
      return (await gateway.get(id)).body.job
    }
    expect(await job({})).toMatchObject({ max_attempts: 2, retry })
    expect((await job({ retry: { max_attempts: 9 } })).max_attempts).toBe(9)
    expect((await job({ retry_policy: { max_attempts: 8 } })).retry).not.toHaveProperty('jitter')
    expect((await job({ max_attempts: 7 })).max_attempts).toBe(7)
    expect((await gateway.get(before.id)).body.job.max_attempts).not.toBe(2)
    const plain = { type: 'test.job', args: [], options: { queue } }
    const batch = await ask(gateway, 'POST', '/jobs/batch', { jobs: [plain] })
    expect(batch.body.jobs[0].max_attempts).toBe(2)
    // The second step is made when the first one is over; both have what was set at the request.
    const flow = await ask(gateway, 'POST', '/workflows', { type: 'chain', steps: [plain, plain] })
    expect(flow.status).toBe(201)
    await gateway.restart()
    const [first] = (await ask(gateway, 'GET', `/workflows/${flow.body.workflow.id}`)).body.workflow
      .steps
    expect((await gateway.get(first.job_id)).body.job).toMatchObject({ max_attempts: 2, retry })
    expect((await detail(gateway, queue)).configuration).toEqual({ default_retry: retry })
    await ask(gateway, 'PUT', `/admin/queues/${queue}/config`, { default_retry: null })
    expect((await job({})).max_attempts).toBe(3)
  })

  it('creates an unknown queue, and refuses what it cannot do, naming the field', async () => {
    const gateway = await gatewayForAll()
    const queue = freshQueue()
    const put = (body: object, name = queue) =>
      ask(gateway, 'PUT', `/admin/queues/${name}/config`, body)
    const refused: [object, number, string][] = [
      [{ max_sice: 5 }, 400, 'max_sice'],
      [{ max_size: 0 }, 400, 'max_size'],
      [{ default_retry: { max_attempts: -1 } }, 422, 'default_retry.max_attempts'],
      [{ default_retry: { attempts: 2 } }, 400, 'default_retry.attempts'],
      [{ concurrency: 4 }, 422, 'concurrency'],
      [{ retention: '7d' }, 422, 'retention'],
      [{ overflow_policy: 'drop_oldest' }, 422, 'overflow_policy'],
      [{ backpressure: { strategy: 'block' } }, 422, 'backpressure.strategy'],
      [{ max_size: 5, backpressure: { max_depth: 6 } }, 400, 'max_size'],
    ]
    for (const [body, status, field] of refused) {
      const answer = await put(body)
      const said = [answer.status, answer.body.error.details.field]
      expect(said, JSON.stringify(body)).toEqual([status, field])
    }
    expect((await put({})).status).toBe(400)
    expect((await put({ default_retry: retry }, 'Not%20a%20name')).status).toBe(400)
    expect((await ask(gateway, 'GET', `/admin/queues/${queue}`)).status).toBe(404)
    expect((await put({ default_retry: retry })).status).toBe(200)
    expect((await ask(gateway, 'GET', `/admin/queues/${queue}`)).status).toBe(200)
    // Nobody has said where the management API is.
    const limited = await put({ max_size: 5 })
    expect([limited.status, limited.body.error.details]).toMatchObject([
      422,
      {
        field: 'max_size',
        reason: 'management_not_configured',
        policy: { pattern: `^ojs\\.queue\\.${queue}$`, definition: { 'max-length': 5 } },
      },
    ])
    expect((await detail(gateway, queue)).configuration).toEqual({ default_retry: retry })
  })

  describe('limits, by policies of RabbitMQ', () => {
    let own: Vhost
    const quorum = { OJS_QUEUE_TYPE: 'quorum', OJS_MANAGEMENT_URL: MANAGEMENT }
    const policies = async () => {
      const { text } = await managementRequest(Number(PORT), 'GET', `/policies/${own.name}`)
      return JSON.parse(text) as { name: string; definition: Record<string, number> }[]
    }

    it('ADM-R006: a full queue answers 429 at once, until its limit is raised or lifted', async () => {
      own = await createVhost()
      const gateway = await start(own.url, quorum)
      const queue = freshQueue()
      const put = (body: object) => ask(gateway, 'PUT', `/admin/queues/${queue}/config`, body)
      expect((await gateway.push(queue)).status).toBe(201)
      const { status, body } = await put({ max_size: 2 })
      expect([status, body.configuration]).toMatchObject([
        200,
        { max_size: 2, overflow_policy: 'reject', backpressure: { max_depth: 2 } },
      ])
      // RabbitMQ's limit is soft.
      let full = { status: 201, body: {} as Record<string, { details: { reason: string } }> }
      for (let i = 0; i < 50 && full.status === 201; i++) full = await gateway.push(queue)
      expect([full.status, full.body['error']?.details.reason]).toEqual([429, 'queue_full'])
      expect((await put({ max_size: null })).body.configuration).toEqual({})
      await eventually(async () => (await gateway.push(queue)).status === 201)
      for (let i = 0; i < 5; i++) expect((await gateway.push(queue)).status).toBe(201)

      // A policy of somebody else is not replaced.
      const other = freshQueue()
      await gateway.push(other)
      await own.setPolicy('theirs', `^ojs\\.queue\\.${other}$`, { 'max-length': 7 })
      const second = await ask(gateway, 'PUT', `/admin/queues/${other}/config`, {
        backpressure: { max_depth: 3 },
      })
      expect([second.status, second.body.error.details]).toMatchObject([
        409,
        { reason: 'other_policy', other: 'theirs' },
      ])
      const names = async () => new Set((await policies()).map(({ name }) => name))
      const ours = `ojs-limits ojs.queue.${queue}`
      expect(await names()).toEqual(new Set([ours, 'theirs']))

      // The policy goes with its queue.
      for (let id = ''; id !== 'none'; ) {
        const [job] = await gateway.fetch([queue], { wait_ms: 500 })
        id = job?.id ?? 'none'
        if (job !== undefined) await gateway.ack(id)
      }
      expect((await ask(gateway, 'DELETE', `/queues/${queue}`)).status).toBe(200)
      expect(await names()).toEqual(new Set(['theirs']))
      await own.drop()
    })

    it('a classic queue, a user without rights and a silent API: a clear answer, and nothing changes', async () => {
      own = await createVhost()
      const at = async (env: Record<string, string>) => {
        const gateway = await start(own.url, env)
        const queue = freshQueue()
        const answer = await ask(gateway, 'PUT', `/admin/queues/${queue}/config`, {
          max_size_bytes: 1_000,
          default_retry: retry,
        })
        expect((await detail(gateway, queue)).configuration).toEqual({})
        expect(await policies()).toEqual([])
        await gateway.stop()
        const { code, details } = answer.body.error
        return [answer.status, code, details.reason]
      }
      expect(await at({ OJS_MANAGEMENT_URL: MANAGEMENT })).toEqual([
        422,
        'unsupported',
        'classic_queue',
      ])
      const wrong = MANAGEMENT.replace('guest:guest', 'guest:wrong')
      expect(await at({ ...quorum, OJS_MANAGEMENT_URL: wrong })).toEqual([
        422,
        'unsupported',
        'policy_denied',
      ])
      expect(await at({ ...quorum, OJS_MANAGEMENT_URL: 'http://127.0.0.1:1' })).toEqual([
        503,
        'backend_error',
        'management_unavailable',
      ])
      await own.drop()
    })
  })
})

describe('DELETE /queues/:name', () => {
  const remove = (gateway: TestGateway, queue: string, body?: object) =>
    ask(gateway, 'DELETE', `/queues/${queue}`, body)
  const refusal = async (gateway: TestGateway, queue: string) => {
    const { status, body } = await remove(gateway, queue)
    return [status, body.error?.details?.reason]
  }
  const queuesIn = async (queue: string) => {
    const names = [
      ...[`ojs.queue.${queue}`, `ojs.queue.control.${queue}`, `ojs.queue.dlx.${queue}`],
      ...[1000].map((ms) => `ojs.queue.retry.${queue}.${ms}`),
    ]
    const found = await Promise.all(names.map((name) => vhost.queue(name)))
    return names.filter((_, i) => found[i] !== undefined)
  }

  it('deletes an empty queue with its RabbitMQ queues and settings; the next PUSH creates it anew', async () => {
    const gateway = await gatewayForAll()
    const queue = freshQueue()
    const options = { retry: { initial_interval_ms: 1000, jitter: false } }
    const job = await startJob(gateway, queue, options)
    await nack(gateway, job.id, { retryable: true })
    expect(await refusal(gateway, queue)).toEqual([409, 'queue_has_jobs'])
    await eventually(async () => (await gateway.get(job.id)).body.job.state === 'available')
    expect(await refusal(gateway, queue)).toEqual([409, 'queue_has_jobs'])
    await fetchOne(gateway, queue)
    expect(await refusal(gateway, queue)).toEqual([409, 'queue_has_jobs'])
    await gateway.ack(job.id)
    await ask(gateway, 'PUT', `/queues/${queue}/config`, { default_retry: { max_attempts: 9 } })
    await ask(gateway, 'POST', `/queues/${queue}/pause`)
    await ask(gateway, 'POST', `/admin/queues/${queue}/drain`)
    expect((await queuesIn(queue)).length).toBe(4)
    const wrong = await remove(gateway, queue, { strategy: 'discard' })
    expect([wrong.status, wrong.body.error.details.field]).toEqual([422, 'strategy'])

    const { status, body } = await remove(gateway, queue, { strategy: 'reject' })
    expect([status, body]).toEqual([
      200,
      { queue, strategy: 'reject', jobs_affected: 0, state: 'deleted' },
    ])
    expect(await queuesIn(queue)).toEqual([])
    expect((await ask(gateway, 'GET', `/admin/queues/${queue}`)).status).toBe(404)
    expect((await remove(gateway, queue)).status).toBe(404)
    expect((await gateway.get(job.id)).body.job.state).toBe('completed')
    await gateway.restart()
    expect((await ask(gateway, 'GET', `/admin/queues/${queue}`)).status).toBe(404)
    const again = await gateway.push(queue)
    expect(again.status).toBe(201)
    expect((await detail(gateway, queue)).configuration).toEqual({})
    expect(await fetchOne(gateway, queue)).toMatchObject({ id: again.body.job.id })
    await gateway.ack(again.body.job.id)
  })

  it('refuses a queue with dead letters, consumers, a cron job, or that is configured', async () => {
    const gateway = await gatewayForAll()
    expect(await refusal(gateway, 'default')).toEqual([409, 'queue_configured'])

    const dead = freshQueue()
    const { id } = await startJob(gateway, dead, { retry: { max_attempts: 1 } })
    await nack(gateway, id)
    expect(await refusal(gateway, dead)).toEqual([409, 'queue_has_jobs'])

    const worked = freshQueue()
    await gateway.push(worked)
    const job = (await gateway.fetch([worked], { worker_id: 'w', wait_ms: 20_000 }))[0]
    await ask(gateway, 'POST', '/workers/heartbeat', { worker_id: 'w', queues: [worked] })
    await gateway.ack(job.id)
    expect(await refusal(gateway, worked)).toEqual([409, 'queue_has_workers'])

    const cron = freshQueue()
    await ask(gateway, 'POST', '/queues', { name: cron })
    const entry = { cron: '0 0 1 1 *', type: 'test.job', args: [], options: { queue: cron } }
    expect((await ask(gateway, 'POST', '/cron', { ...entry, name: cron })).status).toBe(201)
    expect(await refusal(gateway, cron)).toEqual([409, 'in_use_in_rabbitmq'])
    expect((await gateway.push(cron)).status).toBe(201)

    const consumed = freshQueue()
    await ask(gateway, 'POST', '/queues', { name: consumed })
    await withChannel(vhost.url, async (channel) => {
      await channel.consume(`ojs.queue.${consumed}`, () => {})
      expect(await refusal(gateway, consumed)).toEqual([409, 'in_use_in_rabbitmq'])
    })
    expect((await detail(gateway, consumed)).state).toBe('active')
    await eventually(async () => (await remove(gateway, consumed)).status === 200)
  })

  it('deletes a queue whose jobs were purged, whose messages are still there; keeps one with unknown jobs', async () => {
    const gateway = await gatewayForAll()
    const queue = freshQueue()
    for (let i = 0; i < 3; i++) await gateway.push(queue)
    const purge = { states: ['available'], confirm: true }
    expect((await ask(gateway, 'DELETE', `/admin/queues/${queue}/jobs`, purge)).status).toBe(200)
    expect((await remove(gateway, queue)).status).toBe(200)
    expect(await queuesIn(queue)).toEqual([])

    const native = freshQueue()
    await ask(gateway, 'POST', '/queues', { name: native })
    const id = '019b0000-0000-7000-8000-000000000001'
    const body = { specversion: '1.0', id, type: 'test.job', queue: native, args: [] }
    await pikaPublish(vhost.url, native, [
      { body: JSON.stringify(body), properties: { message_id: id, delivery_mode: 2 } },
    ])
    expect(await refusal(gateway, native)).toEqual([409, 'queue_has_jobs'])
    expect(await fetchOne(gateway, native)).toMatchObject({ id, attempt: 1 })
    await gateway.ack(id)
  })

  it('loses no job that is pushed meanwhile: it is in the queue that stays, or in the new one', async () => {
    const gateway = await gatewayForAll()
    for (let round = 0; round < 8; round++) {
      const queue = freshQueue()
      const done = await startJob(gateway, queue)
      await gateway.ack(done.id)
      const [removed, ...pushed] = await Promise.all([
        remove(gateway, queue),
        ...Array.from({ length: 10 }, async (_, i) => {
          for (let turn = 0; turn < i + round; turn++) await new Promise(setImmediate)
          return await gateway.push(queue)
        }),
      ])
      expect([200, 409]).toContain(removed?.status)
      const stored = pushed.filter(({ status }) => status === 201).map(({ body }) => body.job.id)
      expect(stored.length).toBe(10)
      const fetched: string[] = []
      await eventually(async () => {
        const jobs = await gateway.fetch([queue], { count: 10, wait_ms: 1_000 })
        fetched.push(...jobs.map(({ id }) => id))
        return fetched.length >= stored.length
      })
      expect(new Set(fetched)).toEqual(new Set(stored))
      for (const id of fetched) await gateway.ack(id)
    }
  })
})

it('lists queues with percentiles of how long their jobs waited', async () => {
  const gateway = await gatewayForAll()
  const queue = freshQueue()
  await ask(gateway, 'POST', '/queues', { name: queue })
  expect(await detail(gateway, queue)).not.toHaveProperty('latency_ms')
  await gateway.ack((await startJob(gateway, queue)).id)
  const { p50, p95, p99 } = (await detail(gateway, queue)).latency_ms
  expect(p50).toBeGreaterThanOrEqual(0)
  expect(p99).toBe(p50)
  expect(p95).toBe(p50)
  const { items } = (await ask(gateway, 'GET', '/admin/queues?per_page=100')).body
  const listed = items.find(({ name }: { name: string }) => name === queue)
  expect(listed.latency_ms).toEqual({ p50, p95, p99 })
})

describe('RabbitMQ as it is', () => {
  const rabbitmq = async (gateway: TestGateway) =>
    (await ask(gateway, 'GET', '/admin/rabbitmq')).body

  it('without its management API: what the gateway knows, and its own queues', async () => {
    const gateway = await gatewayForAll()
    const retried = await startJob(gateway, freshQueue(), { retry: { initial_interval: 'PT40S' } })
    await nack(gateway, retried.id, { retryable: true })
    // Not the queue that was fetched from: the gateway might still hold what comes there.
    const queue = freshQueue()
    await gateway.push(queue)
    const server = await rabbitmq(gateway)
    expect(server).toMatchObject({
      status: 'up',
      virtual_host: vhost.name,
      management: 'not_configured',
    })
    expect(server.version).toMatch(/^\d+\.\d+/)
    expect(server.gateway_connections).toContainEqual(
      expect.objectContaining({ name: 'publish', up: true }),
    )
    expect(server).not.toHaveProperty('connections')
    const { items, pagination } = await allQueues(gateway)
    expect(pagination.total).toBe(items.length)
    const own = items.find((each) => each.queue === queue && each.use === 'job')
    expect(own).toMatchObject({ name: `ojs.queue.${queue}`, ready: 1, exists: true, differing: [] })
    expect(own?.expected).toMatchObject({ 'x-queue-type': 'classic', 'x-max-priority': 10 })
    expect(new Set(items.map(({ use }) => use))).toEqual(
      new Set(['job', 'dead_letters', 'control', 'retry', 'system']),
    )
  })

  it('has the message of a job as it is in the queue, and how large the ledger is', async () => {
    const gateway = await gatewayForAll()
    const queue = freshQueue()
    const options = { tags: ['eu'], priority: 3 }
    const { id } = (await gateway.push(queue, { args: [{ a: 'ü' }], options })).body.job
    const { body } = await ask(gateway, 'GET', `/admin/jobs/${id}/message`)
    await withChannel(vhost.url, async (channel) => {
      const found = await channel.get(`ojs.queue.${queue}`)
      if (found === false) throw new Error('the message is not there')
      const { headers, messageId, type, priority, contentType } = found.properties
      expect(body.body).toBe(found.content.toString())
      expect(body.bytes).toBe(found.content.length)
      expect(body.headers).toEqual(headers)
      const properties = { message_id: messageId, type, priority, content_type: contentType }
      expect(body.properties).toMatchObject({ ...properties, delivery_mode: 2 })
      const { exchange, routingKey } = found.fields
      expect([body.exchange, body.routing_key]).toEqual([exchange, routingKey])
    })
    const ledger = (await ask(gateway, 'GET', '/admin/system/ledger')).body
    expect(ledger.bytes).toBeGreaterThan(0)
    expect(ledger.jobs).toBeGreaterThan(0)
    expect(ledger.bytes).toBeGreaterThanOrEqual(ledger.bytes_at_start)
  })

  it('has the messages of a queue beside its jobs', async () => {
    const gateway = await gatewayForAll()
    const queue = freshQueue()
    await startJob(gateway, queue)
    await gateway.push(queue)
    await gateway.push(queue, { options: { concurrency: { key: queue, limit: 1 } } })
    await gateway.push(queue, { options: { concurrency: { key: queue, limit: 1 } } })
    await eventually(async () => {
      const { body } = await ask(gateway, 'GET', `/admin/queues/${queue}?include=rabbitmq`)
      const { available, active } = body.counts
      expect([available, active]).toEqual([3, 1])
      const { ready, held, held_back: heldBack, missing } = body.rabbitmq
      return ready === 2 && held === 1 && heldBack === 1 && missing === 0
    })
    const listed = (await ask(gateway, 'GET', '/admin/queues?include=rabbitmq&limit=100')).body
    const item = listed.items.find(({ name }: { name: string }) => name === queue)
    expect(item.rabbitmq).toMatchObject({ ready: 2, held: 1 })
    expect((await ask(gateway, 'GET', `/admin/queues/${queue}`)).body).not.toHaveProperty(
      'rabbitmq',
    )
    expect((await ask(gateway, 'GET', '/admin/queues?include=all')).status).toBe(400)
  })

  it('with its management API: connections, channels, nodes, policies, and queues that differ', async () => {
    const own = await createVhost()
    const [queue, foreign] = [freshQueue(), freshQueue()]
    await withChannel(own.url, async (channel) => {
      await channel.assertQueue(`ojs.queue.${queue}`, { arguments: { 'x-max-priority': 3 } })
      await channel.assertQueue(foreign, { durable: true })
    })
    await own.setPolicy('all-of-them', '^ojs', { 'max-length': 1_000_000 })
    const gateway = await start(own.url, { OJS_MANAGEMENT_URL: MANAGEMENT })
    await gateway.push(queue)
    let shown = await rabbitmq(gateway)
    await eventually(async () => {
      shown = await rabbitmq(gateway)
      return shown.connections.total >= 3 && shown.channels.total > 0
    })
    expect(shown).toMatchObject({ management: 'connected', status: 'up' })
    expect(shown.connections.items.map(({ name }: { name: string }) => name)).toContain(
      'ojs-rabbitmq publish',
    )
    expect(shown.nodes.items[0]).toMatchObject({ running: true, memory_alarm: false })
    expect(shown.policies.items).toMatchObject([
      { name: 'all-of-them', definition: { 'max-length': 1_000_000 } },
    ])
    expect(JSON.stringify(shown)).not.toMatch(/guest:|"password"/)
    await eventually(async () => {
      const { items } = await allQueues(gateway)
      const job = items.find(({ name }) => name === `ojs.queue.${queue}`)
      const other = items.find(({ name }) => name === foreign)
      expect(other).toMatchObject({ use: 'other', exists: true, differing: [] })
      expect(job).toMatchObject({ use: 'job', queue })
      expect(job?.differing).toContain('x-max-priority')
      expect(job?.differing).not.toContain('x-queue-type')
      const dead = items.find(({ name }) => name === `ojs.queue.dlx.${queue}`)
      expect(dead).toMatchObject({ use: 'dead_letters', type: 'quorum', differing: [] })
      return job?.policy === 'all-of-them' && job?.ready === 1
    })
    await gateway.stop()
    for (const [url, management] of [
      [MANAGEMENT.replace('guest:guest', 'guest:wrong-word'), 'denied'],
      ['http://127.0.0.1:1', 'unavailable'],
    ] as const) {
      const refused = await start(own.url, { OJS_MANAGEMENT_URL: url })
      const server = await rabbitmq(refused)
      expect(server).toMatchObject({ status: 'up', management })
      expect(JSON.stringify(server)).not.toContain('wrong-word')
      // The gateway's own queues are shown all the same.
      expect((await allQueues(refused)).items.map(({ use }) => use)).toContain('job')
      await refused.stop()
    }
    await own.drop()
  })

  interface Listed {
    name: string
    use: string
    queue?: string
    ready?: number
    policy?: string
    expected?: object
    differing: string[]
  }

  async function allQueues(gateway: TestGateway) {
    const items: Listed[] = []
    for (;;) {
      const { body } = await ask(
        gateway,
        'GET',
        `/admin/rabbitmq/queues?limit=100&offset=${items.length}`,
      )
      items.push(...body.items)
      if (!body.pagination.has_more) return { items, pagination: body.pagination }
    }
  }
})
