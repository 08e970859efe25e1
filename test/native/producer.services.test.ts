import { v4, v7 } from 'uuid'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { pikaConsume, pikaPublish, runSeedExample } from '../support/broker/pika.ts'
import { queueMessages } from '../support/broker/queue-messages.ts'
import { createVhost, type Vhost } from '../support/broker/rabbit.ts'
import { type Job, jobOf, jobsOf } from '../support/gateway/client.ts'
import { Gateway } from '../support/gateway/gateway.ts'
import { eventually } from '../support/gateway/in-process.ts'

let vhost: Vhost
let gateway: Gateway

beforeEach(async () => {
  vhost = await createVhost()
  gateway = await Gateway.start({ amqpUrl: vhost.url })
})
afterEach(async () => {
  await gateway.dispose()
  await vhost.drop()
})

describe('the job of seed 002 §15.1, published as printed', () => {
  test('runs when it is published before the gateway declares anything', async () => {
    const id = v7()
    await runSeedExample(vhost.url, id)
    await expectSeedJobRuns(id)
  })

  test('runs when it is published after the gateway has declared the queue', async () => {
    const first = jobOf(await pushTo('email'))
    const id = v7()
    await runSeedExample(vhost.url, id)
    expect((await fetchFrom('email')).id).toBe(first.id)
    await expectSeedJobRuns(id)
  })

  test('runs with its classic queue under a gateway that would declare quorum queues', async () => {
    await gateway.restart({ OJS_QUEUE_TYPE: 'quorum' })
    const id = v7()
    await runSeedExample(vhost.url, id)
    await expectSeedJobRuns(id)
    const pushed = jobOf(await pushTo('email'))
    expect((await fetchFrom('email')).id).toBe(pushed.id)
    const health = await gateway.client.health()
    expect(health.status).toBe(200)
    expect(health.text).toContain('ojs.queue.email')
  })

  test('is dead-lettered for an invalid id, even if there was no dead letter queue yet', async () => {
    const id = v4()
    await runSeedExample(vhost.url, id)
    await fetchNothingUntil(() => gateway.log.lines().some(({ jobId }) => jobId === id))
    await pushTo('email')
    await eventually(async () => (await deadMessages()).includes(id))
  })

  test('is dead-lettered when its attempts are already used up, even without a dead letter queue yet', async () => {
    await runSeedExample(vhost.url, v7())
    await pikaConsume(vhost.url, 'ojs.queue.email', 1)
    const id = v7()
    const body = JSON.stringify({ id, type: 'a.b', args: [] })
    const headers = { 'x-ojs-attempt': 6, 'x-ojs-max-attempts': 5 }
    await pikaPublish(vhost.url, 'email', [{ body, properties: { message_id: id }, headers }])
    await fetchNothingUntil(async () => (await gateway.client.get(id)).status === 200)
    await pushTo('email')
    await eventually(async () => (await deadMessages()).includes(id))
    expect(jobOf(await gateway.client.get(id))).toMatchObject({ state: 'discarded' })
  })

  const deadMessages = () => queueMessages(vhost.url, 'ojs.queue.dlx.email')

  async function expectSeedJobRuns(id: string): Promise<void> {
    const job = await fetchFrom('email')
    expect(job).toMatchObject({
      id,
      type: 'email.send',
      queue: 'email',
      args: ['user@example.com', 'welcome'],
      attempt: 1,
      max_attempts: 5,
      state: 'active',
    })
    const ack = await gateway.client.ack({ job_id: id, result: { sent: true } })
    expect(ack.status, ack.text).toBe(200)
    const read = jobOf(await gateway.client.get(id))
    expect(read).toMatchObject({ id, state: 'completed', attempt: 1, result: { sent: true } })
    expect(read).toHaveProperty('created_at', job['created_at'])
  }
})

test('unknown members of a native message are part of the job in FETCH and GET', async () => {
  await pushTo('email')
  await fetchFrom('email')
  const id = v7()
  const unknown = { x_vendor: { a: [1, null, 'é'] }, another: false }
  const body = { specversion: '1.0', id, type: 'a.b', args: [{ x: 1 }], meta: { m: 1 }, ...unknown }
  const properties = { message_id: id, correlation_id: 'c', app_id: 'billing', priority: 3 }
  const headers = { 'x-vendor': 'v', 'x-ojs-tags': 'a', nested: { list: [1, 'two'] } }
  await pikaPublish(vhost.url, 'email', [{ body: JSON.stringify(body), properties, headers }])

  const fetched = await fetchFrom('email')
  expect(fetched).toMatchObject({ id, args: [{ x: 1 }], meta: { m: 1 }, ...unknown })
  const read = jobOf(await gateway.client.get(id))
  expect(read).toMatchObject({ id, state: 'active', ...unknown })
})

test('the headers of seed 002 §6.2 of a native message determine the job in FETCH, GET and NACK', async () => {
  await pushTo('email')
  await fetchFrom('email')
  const id = v7()
  const retry = { max_attempts: 7, initial_interval: 'PT0.3S' }
  const body = JSON.stringify({ id, type: 'a.b', args: [], retry })
  const headers = {
    'x-ojs-queue': 'email',
    'x-ojs-attempt': 2,
    'x-ojs-max-attempts': 2,
    'x-ojs-created-at': '2026-02-12T10:00:00.000Z',
    'x-ojs-enqueued-at': '2026-02-12T10:30:00.250Z',
    'x-ojs-scheduled-at': '2026-02-12T10:30:00.000Z',
    'x-ojs-tags': 'a,b',
    'x-ojs-error-code': 'E_BEFORE',
    'x-ojs-error-message': 'the attempt before',
  }
  await pikaPublish(vhost.url, 'email', [{ body, properties: { message_id: id }, headers }])

  const told = {
    ...{ id, attempt: 2, max_attempts: 2, tags: ['a', 'b'] },
    created_at: headers['x-ojs-created-at'],
    enqueued_at: headers['x-ojs-enqueued-at'],
    scheduled_at: headers['x-ojs-scheduled-at'],
    error: { code: 'E_BEFORE', message: 'the attempt before' },
  }
  expect(await fetchFrom('email')).toMatchObject(told)
  expect(jobOf(await gateway.client.get(id))).toMatchObject(told)
  const failure = { job_id: id, error: { code: 'E', message: 'last' } }
  const nack = await gateway.client.send('POST', '/ojs/v1/workers/nack', failure)
  expect(nack.body).toMatchObject({ state: 'discarded', attempt: 2, max_attempts: 2 })
})

test('unknown members of an HTTP job survive a restart and reach a native consumer', async () => {
  const unknown = { x_vendor: { a: [1, null, 'é'] }, another: false, options_extra: '__proto__' }
  const pushed = await gateway.client.push({
    type: 'a.b',
    args: [1.5, 'x'],
    options: { queue: 'email', x_option: 7 },
    ...unknown,
  })
  const job = jobOf(pushed)
  expect(job).toMatchObject(unknown)
  await gateway.kill9()
  await gateway.restart()
  expect(jobOf(await gateway.client.get(job.id))).toMatchObject(unknown)
  const [message] = await pikaConsume(vhost.url, 'ojs.queue.email', 1)
  expect(JSON.parse(message?.body ?? '')).toMatchObject({ ...unknown, options: { x_option: 7 } })
})

test('the job message of a job that was cancelled while queued is dropped, not dead-lettered', async () => {
  const cancelled = jobOf(await pushTo('email'))
  const kept = jobOf(await pushTo('email'))
  expect((await gateway.client.cancel(cancelled.id)).status).toBe(200)

  expect((await fetchFrom('email')).id).toBe(kept.id)
  expect(jobsOf(await gateway.client.fetch({ queues: ['email'], wait_ms: 300 }))).toEqual([])
  await gateway.client.ack({ job_id: kept.id })
  await gateway.stop()
  // One job message was dropped and one acknowledged. Neither was dead-lettered.
  expect(await queueMessages(vhost.url, 'ojs.queue.email')).toEqual([])
  expect(await queueMessages(vhost.url, 'ojs.queue.dlx.email')).toEqual([])
})

/** Fetches until `isSeen`, since the gateway reads native messages only when a worker asks for jobs. */
function fetchNothingUntil(isSeen: () => boolean | Promise<boolean>): Promise<void> {
  return eventually(async () => {
    const fetched = await gateway.client.fetch({ queues: ['email'], wait_ms: 300 })
    expect(jobsOf(fetched)).toEqual([])
    return await isSeen()
  })
}

function pushTo(queue: string) {
  return gateway.client.push({ type: 'a.b', args: [], options: { queue } })
}

async function fetchFrom(queue: string): Promise<Job> {
  const answer = await gateway.client.fetch({ queues: [queue], wait_ms: 15_000 })
  const [job] = jobsOf(answer)
  if (job === undefined) throw new Error(`nothing fetched: ${answer.status} ${answer.text}`)
  return job
}
