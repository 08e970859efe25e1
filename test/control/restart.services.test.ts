import { v7 } from 'uuid'
import { expect, it } from 'vitest'
import { freshQueue, gatewayForAll, untilState } from '../operations/harness.ts'
import { connectControl } from '../support/gateway/control.ts'

const PREFIX = 'tenant1'
const { vhost, gateway } = gatewayForAll({ OJS_PREFIX: PREFIX })

it('a restarted gateway with a prefix handles the messages that waited in every control queue', async () => {
  const queues = [freshQueue(), freshQueue(), 'default']
  const jobs = await Promise.all(
    queues.map(async (queue) => ({ queue, id: (await gateway.push(queue)).body.job.id })),
  )
  const client = await connectControl(vhost.url, PREFIX)
  const count = async (queue: string) => {
    const name = `${PREFIX}.ojs.queue.control.${queue}`
    const { messageCount, consumerCount } = await client.channel.checkQueue(name)
    return [messageCount, consumerCount]
  }
  await gateway.stop()
  for (const { queue, id } of jobs) {
    await client.say(queue, 'ojs.control.cancel', { job_id: v7() })
    await client.say(queue, 'ojs.control.cancel', { job_id: id })
    expect(await count(queue)).toEqual([2, 0])
  }
  await gateway.restart()
  for (const { queue, id } of jobs) {
    await untilState(gateway, id, 'cancelled')
    await expect.poll(() => count(queue)).toEqual([0, 1])
  }
  for (const { queue, id } of jobs) {
    const { body } = await gateway.get(id)
    for (const how of ['exclusive', 'direct'] as const) {
      expect(await client.ask(queue, 'ojs.control.info', { job_id: id }, how)).toEqual(body)
    }
  }
  const heard = await client.listen([queues[0] ?? ''])
  await gateway.request('POST', '/ojs/v1/admin/workers/*/quiet')
  await expect.poll(() => heard.map(({ body }) => body)).toEqual([{ state: 'quiet' }])
  await client.close()
})

it('a restarted gateway keeps the reported errors of native jobs that were rejected meanwhile', async () => {
  const queue = freshQueue()
  const options = { retry: { max_attempts: 2, jitter: false } }
  const ids = await Promise.all(
    Array.from({ length: 8 }, async () => (await gateway.push(queue, { options })).body.job.id),
  )
  const client = await connectControl(vhost.url, PREFIX)
  await gateway.stop()
  const failed = (job_id: string, attempt: number, outcome: object) => ({
    ...{ job_id, generation: 0, attempt, event: 'failed', outcome },
    error: { code: 'handler_error', message: `no ${attempt}` },
  })
  for (const id of ids) {
    const jobMessage = await client.channel.get(`${PREFIX}.ojs.queue.${queue}`)
    if (jobMessage === false) throw new Error('a job has no job message')
    const retry = { decision: 'retry', delay_ms: 1, rung_ms: 1 }
    const events = [failed(id, 1, retry), failed(id, 2, { decision: 'discard' })]
    for (const event of events)
      await client.say(queue, 'ojs.control.report', { worker_id: 'w', events: [event] })
    client.channel.nack(jobMessage, false, false)
  }
  const dead = () => client.channel.checkQueue(`${PREFIX}.ojs.system.dead-letters`)
  await expect.poll(async () => (await dead()).messageCount).toBe(ids.length)
  await gateway.restart()
  for (const id of ids) {
    const job = await untilState(gateway, id, 'discarded')
    expect(job).toMatchObject({ attempt: 2, error: { message: 'no 2' } })
    expect(job.errors).toMatchObject([{ message: 'no 1' }, { message: 'no 2' }])
  }
  await expect.poll(async () => (await dead()).messageCount).toBe(0)
  await client.close()
})
