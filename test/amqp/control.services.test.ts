import { randomUUID } from 'node:crypto'
import type { Channel, ConsumeMessage } from 'amqplib'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { eventually } from '../support/gateway/in-process.ts'
import { amqpStage, deliveryOf, ofJob, settlementsOf } from './stage.ts'

const { wire, gateway, admin, clients } = amqpStage()

/** Publishes a control message, as a client in any language does (seed 002 §5.6 and §5.7). */
async function tell(queue: string, type: string, body: object, more: object = {}): Promise<void> {
  const content = Buffer.from(JSON.stringify(body))
  const options = { type, mandatory: true, contentType: 'application/json', ...more }
  admin.channel.publish('ojs.exchange.direct', `ojs.queue.control.${queue}`, content, options)
  await admin.channel.waitForConfirms()
}

/** Hears what is broadcast to the workers of a queue. */
async function listen(of: string, hear: (message: ConsumeMessage) => void): Promise<Channel> {
  const channel = await admin.model.createChannel()
  const { queue } = await channel.assertQueue('', { exclusive: true, autoDelete: true })
  await channel.bindQueue(queue, 'ojs.exchange.direct', `ojs.control.workers.${of}`)
  await channel.consume(queue, (message) => message && hear(message), { noAck: true })
  return channel
}

async function stateOf(id: string): Promise<string> {
  return (await gateway.get(id)).body.job.state
}

describe('ojs.control.cancel', () => {
  it('AMQP-019 implements CANCEL via control queue publish: a waiting job is never handed out', async () => {
    const id = await clients.push('cancelled')
    await tell('cancelled', 'ojs.control.cancel', { job_id: id })
    await eventually(async () => (await stateOf(id)) === 'cancelled')
    // The job's job message is still in the queue, but no FETCH gets it.
    await eventually(async () => {
      expect(await gateway.fetch(['cancelled'], { wait_ms: 300 })).toEqual([])
      const [delivery] = wire.all('BasicDeliver', ofJob(id))
      return delivery !== undefined && settlementsOf(wire, delivery).length > 0
    })
    expect(settlementsOf(wire, deliveryOf(wire, id))).toMatchObject([{ name: 'BasicAck' }])
  })

  it('AMQP-019 implements CANCEL via control queue publish: a heartbeat tells the worker of a running job', async () => {
    const id = await clients.push('cancelled')
    await clients.fetch('cancelled', 1, { worker_id: 'w-cancel' })
    await tell('cancelled', 'ojs.control.cancel', { job_id: id })
    await eventually(async () => (await stateOf(id)) === 'cancelled')
    const beat = { worker_id: 'w-cancel', active_job_ids: [id] }
    const { body } = await gateway.request('POST', '/ojs/v1/workers/heartbeat', beat)
    expect(body).toMatchObject({ cancelled_jobs: [id] })
    expect((await gateway.ack(id)).status).toBe(409)
  })

  it('a message that another priority makes void is broadcast as cancelled, with its generation', async () => {
    const id = await clients.push('told-anew')
    const heard = new Promise<unknown>((resolve) => {
      void listen('told-anew', (message) => resolve(JSON.parse(message.content.toString()))).then(
        () => gateway.request('PATCH', `/ojs/v1/jobs/${id}`, { priority: 3 }),
      )
    })
    expect(await heard).toEqual({ job_id: id, generation: 0 })
    const [job] = await clients.fetch('told-anew')
    expect(job).toMatchObject({ id, generation: 1, priority: 3 })
  })

  it('AMQP-019 broadcasts the cancellation to the workers of that queue', async () => {
    const id = await clients.push('told')
    const delivery = await admin.channel.get('ojs.queue.told')
    if (delivery === false) throw new Error('no message')
    const heard: { type: string; body: unknown }[] = []
    const channel = await listen('told', (message) => {
      const body: unknown = JSON.parse(message.content.toString())
      heard.push({ type: String(message.properties.type), body })
    })
    await tell('told', 'ojs.control.heartbeat', { job_id: id, worker_id: 'w-native' })
    await eventually(async () => (await stateOf(id)) === 'active')
    await tell('told', 'ojs.control.cancel', { job_id: id })
    await eventually(() => heard.length > 0)
    expect(heard[0]).toMatchObject({ type: 'ojs.control.cancel', body: { job_id: id } })
    expect(await stateOf(id)).toBe('cancelled')
    admin.channel.ack(delivery)
    await channel.close()
  })
})

describe('ojs.control.heartbeat', () => {
  it('AMQP-020 implements BEAT via control queue publish: a heartbeat extends the lease', async () => {
    const beaten = await clients.push('beaten')
    const silent = await clients.push('beaten')
    await clients.fetch('beaten', 2, { worker_id: 'w-beat', visibility_timeout_ms: 8_000 })
    const beat = { job_id: beaten, worker_id: 'w-beat', visibility_timeout_ms: 60_000 }
    await tell('beaten', 'ojs.control.heartbeat', beat)
    // Both had the same lease, so without the heartbeat the other one would have ended too.
    await eventually(async () => (await stateOf(silent)) === 'available', 30_000)
    expect((await gateway.get(beaten)).body.job).toMatchObject({ state: 'active', attempt: 1 })
    expect((await gateway.ack(beaten)).status).toBe(200)
  })

  it('AMQP-020 implements BEAT via control queue publish: a foreign worker is listed', async () => {
    const id = await clients.push('foreign')
    const message = await admin.channel.get('ojs.queue.foreign')
    if (message === false) throw new Error('no message')
    await tell('foreign', 'ojs.control.heartbeat', { job_id: id, worker_id: 'w-foreign' })
    await eventually(async () => (await stateOf(id)) === 'active')
    const { body } = await gateway.request('GET', '/ojs/v1/admin/workers')
    expect(body.items).toContainEqual(expect.objectContaining({ worker_id: 'w-foreign' }))
    admin.channel.ack(message)
  })

  it('AMQP-020 has a heartbeat interval of 10 s on every connection, below the recommended 60 s', () => {
    const tuned = wire.all('ConnectionTuneOk')
    expect(tuned.length).toBeGreaterThanOrEqual(3)
    for (const { fields } of tuned) expect(fields['heartbeat']).toBe(10)
  })
})

/** Seed 002 §5.8: the client has an exclusive, auto-delete reply queue, and sends a `correlation_id`. */
describe('ojs.control.info', () => {
  let channel: Channel
  let replyTo: string
  const answers = new Map<string, ConsumeMessage>()

  beforeAll(async () => {
    channel = await admin.model.createChannel()
    const { queue } = await channel.assertQueue('', { exclusive: true, autoDelete: true })
    replyTo = queue
    const onAnswer = (message: ConsumeMessage | null) => {
      if (message) answers.set(String(message.properties.correlationId), message)
    }
    await channel.consume(queue, onAnswer, { noAck: true })
  })
  afterAll(() => channel.close())

  async function ask(queue: string, id: string) {
    const correlationId = randomUUID()
    await tell(queue, 'ojs.control.info', { job_id: id }, { replyTo, correlationId })
    await eventually(() => answers.has(correlationId))
    const { content, properties } = answers.get(correlationId) ?? {}
    return { type: properties?.type, body: JSON.parse(String(content)) }
  }

  it('AMQP-021 implements INFO via the RPC reply-to pattern', async () => {
    const id = await clients.push('asked', { meta: { tenant: 'blue' } })
    const answer = await ask('asked', id)
    expect(answer.type).toBe('ojs.control.info')
    expect(answer.body.job).toMatchObject({ id, state: 'available', meta: { tenant: 'blue' } })
    expect(answer.body).toEqual((await gateway.get(id)).body)
  })

  it('AMQP-021 answers INFO for an unknown job with the error of HTTP', async () => {
    await clients.push('asked')
    const { body } = await ask('asked', '019414d4-8b2e-7c3a-b5d1-f0e2a3b4c5d6')
    expect(body.error).toMatchObject({ code: 'not_found', retryable: false })
  })
})
