import type { ConsumeMessage } from 'amqplib'
import { v7 } from 'uuid'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { freshQueue, gatewayForAll, stateOf, untilState } from '../operations/harness.ts'
import { type ControlClient, connectControl } from '../support/gateway/control.ts'
import { eventually } from '../support/gateway/in-process.ts'

const { vhost, gateway } = gatewayForAll()
let client: ControlClient

beforeAll(async () => {
  client = await connectControl(vhost.url)
})
afterAll(() => client.close())

/** The value of a counter, summed over all labels that are not given. */
async function counted(name: string, labels: Record<string, string> = {}): Promise<number> {
  const text: string = (await gateway.request('GET', '/metrics')).body
  return text
    .split('\n')
    .filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `))
    .filter((line) =>
      Object.entries(labels).every(([key, value]) => line.includes(`${key}="${value}"`)),
    )
    .reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0)
}

async function pushed(queue = freshQueue()): Promise<{ id: string; queue: string }> {
  const { body } = await gateway.push(queue)
  return { id: body.job.id, queue }
}

describe('INFO by RPC (AMQP-021)', () => {
  it.each(['exclusive', 'direct'] as const)(
    'answers the same as GET, to a reply address that is %s, about a job of the queue that it names',
    async (how) => {
      const { id, queue } = await pushed()
      const other = await pushed()
      const { body } = await gateway.get(id)
      const ask = (by: string, over: object = {}) =>
        client.ask(by, 'ojs.control.info', { job_id: id, ...over }, how)
      expect(await ask(queue)).toEqual(body)
      expect(await ask('default', { queue })).toEqual(body)
      for (const answer of [await ask(other.queue), await ask(queue, { queue: other.queue })]) {
        expect(answer).toMatchObject({ error: { code: 'not_found' } })
      }
    },
  )

  it('answers an unknown id and an invalid question with an error', async () => {
    const unknown = await client.ask('default', 'ojs.control.info', { job_id: v7() })
    expect(unknown).toMatchObject({
      error: { code: 'not_found', retryable: false, request_id: expect.stringMatching(/^req_/) },
    })
    const before = await counted('ojs_control_malformed_total', { reason: 'invalid_request' })
    const malformed = await client.ask('default', 'ojs.control.info', { job: 'x' })
    expect(malformed).toMatchObject({
      error: { code: 'invalid_request', details: { field: 'job_id' } },
    })
    expect(await counted('ojs_control_malformed_total', { reason: 'invalid_request' })).toBe(
      before + 1,
    )
  })

  it('answers a question without a type, since seed 002 §5.8 requires none', async () => {
    const { id, queue } = await pushed()
    const { body } = await gateway.get(id)
    const answer = new Promise<unknown>((resolve) => {
      void client.channel.assertQueue('', { exclusive: true, autoDelete: true }).then((own) => {
        const onMessage = (message: ConsumeMessage | null) =>
          resolve(JSON.parse(String(message?.content)))
        void client.channel.consume(own.queue, onMessage, { noAck: true })
        const options = { replyTo: own.queue, correlationId: v7() }
        void client.say(queue, '', { job_id: id }, options)
      })
    })
    expect(await answer).toEqual(body)
  })

  it('drops and counts the answer to a reply queue that does not exist', async () => {
    const { id } = await pushed()
    const before = await counted('ojs_control_replies_dropped_total')
    await client.say('default', 'ojs.control.info', { job_id: id }, { replyTo: 'gone' })
    await eventually(
      async () => (await counted('ojs_control_replies_dropped_total')) === before + 1,
    )
  })
})

describe('an answer to a queue of others', () => {
  // The gateway may write to every queue, its asker perhaps not.
  it('is not sent, whatever the question, and is counted', async () => {
    const { id, queue } = await pushed()
    await client.channel.assertQueue('payments')
    const labels = { outcome: 'not-exclusive' }
    const before = await counted('ojs_control_replies_dropped_total', labels)
    const options = { replyTo: 'payments', correlationId: 'c' }
    const claim = { job_id: id, attempt: 1, worker_id: 'w' }
    await client.say(queue, 'ojs.control.info', { job_id: id }, options)
    await client.say(queue, 'ojs.control.claim', claim, options)
    await client.say('default', 'ojs.control.sync', { queues: [queue] }, options)
    await client.say(queue, 'ojs.control.info', { no_job: id }, options)
    await eventually(
      async () => (await counted('ojs_control_replies_dropped_total', labels)) === before + 4,
    )
    expect(await client.channel.deleteQueue('payments')).toEqual({ messageCount: 0 })
  })
})

describe('CANCEL by message (AMQP-019)', () => {
  it('cancels a job, and ignores unknown and ended jobs', async () => {
    const { id, queue } = await pushed()
    await client.say(queue, 'ojs.control.cancel', { job_id: id })
    await untilState(gateway, id, 'cancelled')
    await client.say(queue, 'ojs.control.cancel', { job_id: id })
    await client.say(queue, 'ojs.control.cancel', { job_id: v7() })
    const next = await pushed(queue)
    await client.say(queue, 'ojs.control.cancel', { job_id: next.id })
    await untilState(gateway, next.id, 'cancelled')
    expect(await stateOf(gateway, id)).toBe('cancelled')
  })
})

describe('directives to workers', () => {
  it('reach a worker whose heartbeats name no queues', async () => {
    const { queue } = await pushed()
    const workerId = `w-${v7()}`
    const heard = await client.listen([queue])
    const beat = () => client.say(queue, 'ojs.control.heartbeat', { worker_id: workerId })
    await beat()
    const quiet = () => gateway.request('POST', `/ojs/v1/admin/workers/${workerId}/quiet`)
    await expect.poll(async () => (await quiet()).status).toBe(200)
    await expect.poll(() => heard).not.toHaveLength(0)
    expect(heard[0]?.body).toEqual({ worker_id: workerId, state: 'quiet' })
  })

  const fetchAs = (workerId: string, queue: string) =>
    gateway.request('POST', '/ojs/v1/workers/fetch', { queues: [queue], worker_id: workerId })

  it('are broadcast to the queues of the worker, or for all workers to every queue', async () => {
    const { queue } = await pushed()
    const workerId = `w-${v7()}`
    await fetchAs(workerId, queue)
    const heard = await client.listen([queue])
    const elsewhere = await client.listen(['default'])
    await gateway.request('POST', `/ojs/v1/admin/workers/${workerId}/quiet`)
    await expect.poll(() => heard).toHaveLength(1)
    expect(heard[0]).toEqual({
      type: 'ojs.control.directive',
      key: `ojs.control.workers.${queue}`,
      body: { worker_id: workerId, state: 'quiet' },
    })
    await gateway.request('POST', '/ojs/v1/admin/workers/*/terminate')
    await expect.poll(() => heard).toHaveLength(2)
    expect(heard[1]?.body).toEqual({ state: 'terminate' })
    await expect.poll(() => elsewhere.map(({ body }) => body)).toEqual([{ state: 'terminate' }])
  })
})
