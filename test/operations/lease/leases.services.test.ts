import { beforeEach, describe, expect, it } from 'vitest'
import { queueMessages } from '../../support/broker/queue-messages.ts'
import { eventually } from '../../support/gateway/in-process.ts'
import { AheadClock } from '../../support/time/ahead-clock.ts'
import {
  deadIds,
  fetchOne,
  freshQueue,
  gatewayForAll,
  nack,
  startJob,
  stateOf,
  storyOf,
  untilState,
} from '../harness.ts'

const ONCE = { max_attempts: 1 }
const MINUTE_MS = 60_000
/** These two are so long that a lease ends only when a test moves the clock, not on a busy machine. */
const MINUTE = { visibility_timeout_ms: MINUTE_MS, timeout_ms: 0 }
const HALF_A_MINUTE = { visibility_timeout_ms: MINUTE_MS / 2, timeout_ms: 0 }

const clock = new AheadClock()

describe.each(['classic', 'quorum'])('an expired lease, profile %s', (profile) => {
  const { vhost, gateway } = gatewayForAll({ OJS_QUEUE_TYPE: profile }, { clock })
  let queue = ''
  beforeEach(() => {
    queue = freshQueue()
  })

  it('makes the job available at once, and the next FETCH starts attempt 2', async () => {
    const job = await startJob(gateway, queue, { visibility_timeout_ms: 600 })
    const freed = await untilState(gateway, job.id, 'available')
    expect(clock.now()).toBeGreaterThanOrEqual(Date.parse(job.started_at) + 600)
    expect(freed).toMatchObject({ attempt: 1, error: { code: 'visibility_timeout' } })
    expect(freed).not.toHaveProperty('started_at')
    expect(freed).not.toHaveProperty('worker_id')
    const again = await fetchOne(gateway, queue, { visibility_timeout_ms: MINUTE_MS })
    expect(again).toMatchObject({ id: job.id, attempt: 2, errors: [{ attempt: 1 }] })
    expect(again.errors[0]).toMatchObject({ code: 'visibility_timeout', retryable: true })
    await gateway.ack(job.id)
    expect(await storyOf(gateway, queue, job.id)).toEqual([
      'job.enqueued',
      'job.started',
      'job.failed',
      'job.enqueued',
      'job.started',
      'job.completed',
    ])
    // Each attempt had one job message, and each job message was acknowledged.
    await eventually(async () => (await vhost.queue(`ojs.queue.${queue}`))?.['messages'] === 0)
  })

  it('had the visibility timeout of FETCH, which overrides that of the job', async () => {
    await gateway.push(queue, { options: { visibility_timeout_ms: 60_000 } })
    const job = await fetchOne(gateway, queue, { visibility_timeout_ms: 500 })
    await untilState(gateway, job.id, 'available')
    await gateway.cancel(job.id)
  })

  it('refuses late ACK and NACK of its worker with 409, by attempt and worker too', async () => {
    await gateway.push(queue, { options: { visibility_timeout_ms: 400 } })
    const first = await fetchOne(gateway, queue, { worker_id: 'w1' })
    await untilState(gateway, first.id, 'available')
    expect((await gateway.ack(first.id)).body.error.details.current_state).toBe('available')
    const second = await fetchOne(gateway, queue, {
      worker_id: 'w2',
      visibility_timeout_ms: 60_000,
    })
    expect((await gateway.ack(first.id, { attempt: 1 })).status).toBe(409)
    expect((await gateway.ack(first.id, { worker_id: 'w1' })).status).toBe(409)
    expect((await nack(gateway, first.id, {}, { attempt: 1 })).status).toBe(409)
    expect((await gateway.ack(second.id, { worker_id: 'w2', attempt: 2 })).status).toBe(200)
  })

  it('discards the job after its last attempt, and puts a copy in the dead letter queue', async () => {
    const job = await startJob(gateway, queue, { visibility_timeout_ms: 400, retry: ONCE })
    const dead = await untilState(gateway, job.id, 'discarded')
    expect(dead).toMatchObject({ attempt: 1, error: { code: 'visibility_timeout' } })
    expect(await deadIds(gateway, queue)).toEqual([job.id])
    const copies = () => queueMessages(vhost.url, `ojs.queue.dlx.${queue}`)
    await eventually(async () => (await copies()).includes(job.id))
    expect(await queueMessages(vhost.url, `ojs.queue.${queue}`)).toEqual([])
  })

  it('still ends after a restart, which gives the lease its full time again', async () => {
    const job = await startJob(gateway, queue, MINUTE)
    const last = await startJob(gateway, queue, { ...MINUTE, retry: ONCE })
    clock.aheadMs += 0.7 * MINUTE_MS
    await gateway.restart()
    // No worker could renew a lease during the restart, so it has a whole minute again. A new lease of
    // half a minute therefore ends before it.
    const shorter = freshQueue()
    const other = await startJob(gateway, shorter, HALF_A_MINUTE)
    clock.aheadMs += 0.7 * MINUTE_MS
    await untilState(gateway, other.id, 'available')
    expect(await stateOf(gateway, job.id)).toBe('active')
    clock.aheadMs += 0.3 * MINUTE_MS
    expect(await fetchOne(gateway, queue)).toMatchObject({ id: job.id, attempt: 2 })
    await untilState(gateway, last.id, 'discarded')
    // The ledger alone held that lease: the copy was published, not nacked.
    const copies = () => queueMessages(vhost.url, `ojs.queue.dlx.${queue}`)
    await eventually(async () => (await copies()).includes(last.id))
  })
})

describe('the execution timeout', () => {
  const { gateway } = gatewayForAll({}, { clock })
  let queue = ''
  beforeEach(() => {
    queue = freshQueue()
  })

  it('fails the attempt, which is retried by the policy of the job', async () => {
    const retry = { initial_interval_ms: 300, jitter: false }
    const job = await startJob(gateway, queue, { timeout_ms: MINUTE_MS / 2, retry })
    clock.aheadMs += MINUTE_MS / 2
    await eventually(async () => (await storyOf(gateway, queue, job.id)).includes('job.retrying'))
    expect((await gateway.get(job.id)).body.job).toMatchObject({
      attempt: 1,
      retry_delay_ms: 300,
      error: {
        code: 'timeout',
        type: 'timeout',
        details: { timeout_kind: 'execution', limit_seconds: 30 },
      },
    })
    expect(await fetchOne(gateway, queue)).toMatchObject({ id: job.id, attempt: 2 })
    expect((await gateway.ack(job.id, { attempt: 1 })).status).toBe(409)
    expect((await gateway.ack(job.id, { attempt: 2 })).status).toBe(200)
  })

  it('is not extended by heartbeats', async () => {
    const job = await startJob(gateway, queue, { timeout_ms: 800, retry: ONCE })
    const beat = { worker_id: 'w', active_jobs: [job.id], visibility_timeout_ms: 60_000 }
    await eventually(async () => {
      await gateway.request('POST', '/ojs/v1/workers/heartbeat', beat)
      return (await stateOf(gateway, job.id)) === 'discarded'
    })
    expect((await gateway.get(job.id)).body.job.error.code).toBe('timeout')
    expect(await deadIds(gateway, queue)).toEqual([job.id])
  })

  it('of 0 means none, while the lease still expires', async () => {
    const options = { timeout_ms: 0, visibility_timeout_ms: 500 }
    const job = await startJob(gateway, queue, options)
    const freed = await untilState(gateway, job.id, 'available')
    expect(freed.error.code).toBe('visibility_timeout')
  })

  it('takes precedence over the visibility timeout when both pass at the same time', async () => {
    const retry = { initial_interval: 'PT1H', max_interval: 'PT1H', jitter: false }
    const options = { timeout_ms: 500, visibility_timeout_ms: 500, retry }
    const job = await startJob(gateway, queue, options)
    expect((await untilState(gateway, job.id, 'retryable')).error.code).toBe('timeout')
  })
})

describe('a restart after the clock was set back by an hour', () => {
  const { gateway } = gatewayForAll({}, { clock })
  const HOUR_MS = 60 * MINUTE_MS

  it('does not hold up retries and leases for an hour', async () => {
    clock.aheadMs += HOUR_MS
    const retry = { initial_interval: 'PT10M', max_interval: 'PT10M', jitter: false }
    const failed = await startJob(gateway, freshQueue(), { retry })
    expect((await nack(gateway, failed.id)).body.retry_delay_ms).toBe(10 * MINUTE_MS)
    const leased = await startJob(gateway, freshQueue(), MINUTE)
    await gateway.stop()
    clock.aheadMs -= HOUR_MS
    await gateway.restart()
    clock.aheadMs += MINUTE_MS
    await untilState(gateway, leased.id, 'available')
    clock.aheadMs += 9 * MINUTE_MS
    await untilState(gateway, failed.id, 'available')
  })
})
