import { afterEach, describe, expect, it } from 'vitest'
import { createVhost, type Vhost, vhostForAll } from '../../support/broker/rabbit.ts'
import { eventually, startTestGateway, type TestGateway } from '../../support/gateway/in-process.ts'
import { fetchOne, freshQueue, nack, withChannel } from '../harness.ts'

const IDLE = { OJS_QUEUE_IDLE: 'PT0.5S', OJS_MAX_QUEUES: '3' }

const started: TestGateway[] = []
afterEach(async () => {
  for (const gateway of started.splice(0)) await gateway.destroy()
})

async function start(vhost: Pick<Vhost, 'url'>, env: Record<string, string> = {}) {
  const gateway = await startTestGateway(vhost.url, { ...IDLE, ...env }, { idleMs: 20 })
  started.push(gateway)
  return gateway
}

async function namesOf(gateway: TestGateway): Promise<string[]> {
  const { body } = await gateway.request('GET', '/ojs/v1/queues')
  const names: string[] = body.queues.map(({ name }: { name: string }) => name)
  return names.toSorted((a, b) => (a < b ? -1 : 1))
}

async function untilForgotten(gateway: TestGateway, queue: string): Promise<void> {
  await eventually(async () => !(await namesOf(gateway)).includes(queue))
}

/** The names of the vhost's queues that belong to this OJS queue. */
async function queuesIn(vhost: Vhost, queue: string): Promise<string[]> {
  const candidates = [
    `ojs.queue.${queue}`,
    `ojs.queue.control.${queue}`,
    `ojs.queue.dlx.${queue}`,
    ...[1000, 2000].map((ms) => `ojs.queue.retry.${queue}.${ms}`),
  ]
  const found = await Promise.all(candidates.map((name) => vhost.queue(name)))
  return candidates.filter((_, i) => found[i] !== undefined)
}

describe.each(['classic', 'quorum'] as const)('an idle queue (%s)', (queueType) => {
  it('is forgotten with its queues, makes room for another one, and works again', async () => {
    const vhost = await createVhost()
    const gateway = await start(vhost, { OJS_QUEUE_TYPE: queueType })
    const queue = 'first'
    const id = (await gateway.push(queue)).body.job.id
    expect(await fetchOne(gateway, queue)).toMatchObject({ id })
    const retry = { initial_interval_ms: 1000, jitter: false }
    const retried = (await gateway.push(queue, { options: { retry } })).body.job.id
    await fetchOne(gateway, queue)
    await nack(gateway, retried)
    expect(await fetchOne(gateway, queue)).toMatchObject({ id: retried, attempt: 2 })
    for (const job of [id, retried]) expect((await gateway.ack(job)).status).toBe(200)
    expect((await queuesIn(vhost, queue)).length).toBe(4)
    expect((await gateway.push('second')).status).toBe(201)
    expect((await gateway.push('third')).status).toBe(422)
    await untilForgotten(gateway, queue)
    expect(await queuesIn(vhost, queue)).toEqual([])
    expect((await gateway.request('GET', `/ojs/v1/queues/${queue}/stats`)).status).toBe(404)
    expect((await gateway.get(id)).body.job.state).toBe('completed')
    expect((await gateway.push('third')).status).toBe(201)
    // The names are forgotten in the ledger as well.
    await gateway.restart({ OJS_MAX_QUEUES: '4', OJS_QUEUE_IDLE: 'PT0S' })
    expect(await namesOf(gateway)).toEqual(['default', 'second', 'third'])
    const again = (await gateway.push(queue)).body.job.id
    expect(await fetchOne(gateway, queue)).toMatchObject({ id: again })
    await vhost.drop()
  })
})

it('an idle queue stays when anything in it is still wanted', async () => {
  const vhost = await createVhost()
  const env = { OJS_MAX_QUEUES: '20', OJS_QUEUES: 'default,kept' }
  const gateway = await start(vhost, env)
  const later = { delay_until: new Date(Date.now() + 3_600_000).toISOString() }
  await gateway.push('scheduled', { options: later })
  await gateway.push('available')
  await gateway.push('active')
  await fetchOne(gateway, 'active')
  const dead = (await gateway.push('dead', { options: { retry: { max_attempts: 1 } } })).body.job
  await fetchOne(gateway, 'dead')
  await nack(gateway, dead.id)
  await gateway.request('POST', '/ojs/v1/queues/paused/pause', {})
  const cron = { name: 'c', cron: '0 0 1 1 *', type: 't', args: [], options: { queue: 'cron' } }
  expect((await gateway.request('POST', '/ojs/v1/cron', cron)).status).toBe(201)
  const beat = { worker_id: 'w', queues: ['worker'], active_jobs: 0, state: 'running' }
  await gateway.push('worker')
  await gateway.ack((await fetchOne(gateway, 'worker', { worker_id: 'w' })).id)
  await gateway.request('POST', '/ojs/v1/workers/heartbeat', beat)
  await gateway.push('native')
  await gateway.ack((await fetchOne(gateway, 'native')).id)
  await gateway.push('unseen')
  await gateway.ack((await fetchOne(gateway, 'unseen')).id)
  await gateway.push('last')
  await gateway.ack((await fetchOne(gateway, 'last')).id)
  await withChannel(vhost.url, async (channel) => {
    await channel.consume('ojs.queue.native', () => {})
    channel.sendToQueue('ojs.queue.unseen', Buffer.from('{}'), { persistent: true })
    await channel.waitForConfirms()
    await untilForgotten(gateway, 'last')
  })
  const stays = ['active', 'available', 'cron', 'dead', 'default', 'kept', 'native', 'paused']
  expect(await namesOf(gateway)).toEqual([...stays, ...['scheduled', 'unseen', 'worker']])
  // What was found in use works on, also its control queue.
  expect(await queuesIn(vhost, 'unseen')).toHaveLength(3)
  expect(await vhost.queue('ojs.queue.control.unseen')).toBeDefined()
  await vhost.drop()
})

describe('a PUSH while its queue is being forgotten', () => {
  const vhost = vhostForAll()

  it('is never lost', async () => {
    const env = { OJS_QUEUE_IDLE: 'PT0.001S', OJS_MAX_QUEUES: '1000' }
    const gateway = await start(vhost, env)
    const queue = freshQueue()
    for (let i = 0; i < 8; i++) {
      const pushed = await gateway.push(queue)
      expect(pushed.status).toBe(201)
      const { id } = await fetchOne(gateway, queue)
      expect(id).toBe(pushed.body.job.id)
      await gateway.ack(id)
      await untilForgotten(gateway, queue)
    }
  })
})
