import { describe, expect, it } from 'vitest'
import { fetchMany, fetchOne, freshQueue, gatewayForAll, nack, stateOf } from '../harness.ts'

/** At most eight unacknowledged deliveries of a queue; by default there are 2,048. */
const { gateway } = gatewayForAll({}, { prefetch: 4, maxConsumerChannels: 2 })

const LEASE = { visibility_timeout_ms: 600_000, timeout_ms: 0 }

async function push(queue: string, jobs: number): Promise<string[]> {
  const ids: string[] = []
  for (let n = 0; n < jobs; n++) {
    const { body } = await gateway.push(queue, {
      options: { ...LEASE, retry: { max_attempts: 1 } },
    })
    ids.push(body.job.id)
  }
  return ids
}

describe('more leases than the gateway may hold deliveries', () => {
  it('are granted all the same: each job is handed out once and can be acknowledged or failed', async () => {
    const queue = freshQueue()
    const ids = await push(queue, 30)
    const jobs = await fetchMany(gateway, queue, 30)
    // No order: RabbitMQ deals to both consumers in turns, and their channels overtake each other.
    expect(new Set(jobs.map(({ id }) => id))).toEqual(new Set(ids))
    const [failed = '', ...others] = ids
    for (const id of others) expect((await gateway.ack(id)).status).toBe(200)
    await nack(gateway, failed, { code: 'e', message: 'm' })
    for (const id of others) expect(await stateOf(gateway, id)).toBe('completed')
    expect(await stateOf(gateway, failed)).toBe('discarded')
    const { body } = await gateway.request('GET', `/ojs/v1/queues/${queue}/stats`)
    expect(body.stats).toMatchObject({ available: 0, active: 0 })
    expect(await gateway.fetch([queue])).toEqual([])
  })

  it('can be requeued: the job comes again in a new job message', async () => {
    const queue = freshQueue()
    const ids = await push(queue, 20)
    await fetchMany(gateway, queue, 20)
    const last = ids.at(-1) ?? ''
    const error = { code: 'e', message: 'm' }
    const body = { job_id: last, requeue: true, error }
    expect((await gateway.request('POST', '/ojs/v1/workers/nack', body)).status).toBe(200)
    expect(await fetchOne(gateway, queue)).toMatchObject({ id: last, attempt: 1 })
  })
})
