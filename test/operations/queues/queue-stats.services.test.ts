import { describe, expect, it } from 'vitest'
import { report } from '../../../src/operations/native/report.ts'
import { queueStats } from '../../../src/operations/queues/queues.ts'
import { AheadClock } from '../../support/time/ahead-clock.ts'
import { fetchOne, freshQueue, gatewayForAll, nack, startJob } from '../harness.ts'
import { CONTEXT, stageForAll } from '../native/control-stage.ts'

const SECOND = 1_000
const HOUR = 3_600 * SECOND
/** So long that the delays of a busy machine do not matter. */
const WAIT = 1_000 * SECOND
const DURATION = 300 * SECOND
const JOBS = 100
const PATIENT = { timeout_ms: 0, visibility_timeout_ms: HOUR }

describe('queue stats over HTTP', () => {
  const clock = new AheadClock()
  const { gateway } = gatewayForAll({}, { clock })

  const statsOf = async (queue: string) => {
    const { status, body } = await gateway.request('GET', `/ojs/v1/queues/${queue}/stats`)
    expect(status).toBe(200)
    return body
  }

  it('are right within 5 % after 100 jobs, survive a restart, and leave the last hour after an hour', async () => {
    const queue = freshQueue()
    const job = { type: 'test.job', args: [], options: { queue, ...PATIENT } }
    await gateway.request('POST', '/ojs/v1/jobs/batch', { jobs: Array(JOBS).fill(job) })
    clock.aheadMs += WAIT
    const ids: string[] = []
    while (ids.length < JOBS) {
      const jobs = await gateway.fetch([queue], { count: JOBS, wait_ms: 10_000 })
      ids.push(...jobs.map(({ id }) => id))
    }
    clock.aheadMs += DURATION
    for (const id of ids) expect((await gateway.ack(id)).status).toBe(200)

    const before = await statsOf(queue)
    await gateway.restart()
    const after = await statsOf(queue)
    for (const { stats, ...rest } of [before, after]) {
      expect(rest).toMatchObject({ queue, status: 'active', computed_at: expect.any(String) })
      expect(stats).toMatchObject({ completed: JOBS, completed_last_hour: JOBS, depth: 0 })
      expect(stats.failed_last_hour).toBe(0)
      expect(Math.abs(stats.avg_wait_ms - WAIT)).toBeLessThan(WAIT / 20)
      expect(Math.abs(stats.avg_duration_ms - DURATION)).toBeLessThan(DURATION / 20)
      expect(Math.abs(stats.throughput_per_second - JOBS / 3_600)).toBeLessThan(JOBS / 72_000)
    }
    expect(after.stats).toEqual(before.stats)

    clock.aheadMs += HOUR
    const { stats, computed_at: at } = await statsOf(queue)
    expect(stats).toMatchObject({
      completed: JOBS,
      completed_last_hour: 0,
      avg_wait_ms: 0,
      avg_duration_ms: 0,
      throughput_per_second: 0,
    })
    expect(Date.parse(at) - Date.parse(after.computed_at)).toBeGreaterThanOrEqual(HOUR)
  })

  it('are in short in the queue itself, with those of today', async () => {
    const queue = freshQueue()
    const path = `/ojs/v1/queues/${queue}`
    expect((await gateway.request('GET', path)).status).toBe(404)
    const done = await startJob(gateway, queue)
    await gateway.ack(done.id)
    const dead = await startJob(gateway, queue, { retry: { max_attempts: 1 } })
    await nack(gateway, dead.id)
    await startJob(gateway, queue)
    await gateway.push(queue, { options: { delay_until: '+PT1H' } })
    await gateway.push(queue)
    await gateway.request('PUT', `${path}/config`, { default_retry: { max_attempts: 4 } })
    await gateway.request('POST', `${path}/pause`)
    const { status, body } = await gateway.request('GET', path)
    expect(status).toBe(200)
    const state = {
      name: queue,
      state: 'paused',
      paused: true,
      queue: { name: queue, paused: true },
    }
    expect(body).toMatchObject({
      ...state,
      depth: 2,
      running: 1,
      config: { default_retry: { max_attempts: 4 } },
    })
    expect(body.stats).toEqual({
      ...{ depth: 2, available: 1, active: 1, scheduled: 1, retryable: 0 },
      ...{ completed_today: 1, failed_today: 1 },
    })
    clock.aheadMs += 24 * HOUR
    const { stats } = (await gateway.request('GET', path)).body
    expect([stats.completed_today, stats.failed_today]).toEqual([0, 0])
  })

  it('count the jobs of every state and the failed attempts of the last hour', async () => {
    const queue = freshQueue()
    const retry = { initial_interval: 'PT1H', max_interval: 'PT1H', jitter: false }
    const retried = await startJob(gateway, queue, { retry })
    await nack(gateway, retried.id)
    const dead = await startJob(gateway, queue, { retry: { max_attempts: 1 } })
    await nack(gateway, dead.id)
    await gateway.push(queue, { options: { delay_until: '+PT1H' } })
    await gateway.push(queue, { options: { pending: true } })
    const cancelled = await gateway.push(queue)
    await gateway.cancel(cancelled.body.job.id)
    await gateway.push(queue)
    await gateway.push(queue)
    await fetchOne(gateway, queue)
    expect((await statsOf(queue)).stats).toMatchObject({
      available: 1,
      active: 1,
      scheduled: 1,
      retryable: 1,
      discarded: 1,
      pending: 1,
      cancelled: 1,
      completed: 0,
      depth: 3,
      completed_last_hour: 0,
      failed_last_hour: 2,
    })
    await gateway.request('POST', `/ojs/v1/queues/${queue}/pause`)
    expect((await statsOf(queue)).status).toBe('paused')
  })

  it('answer 404 for an unknown queue', async () => {
    for (const name of ['nobody', 'NOT-A-NAME', '%00']) {
      const { status, body } = await gateway.request('GET', `/ojs/v1/queues/${name}/stats`)
      expect([status, body.error.code]).toEqual([404, 'not_found'])
    }
    const { body } = await gateway.request('GET', '/ojs/v1/queues/nobody/stats')
    expect(body.error).toMatchObject({
      message: "Queue 'nobody' not found.",
      details: { resource_type: 'queue', resource_id: 'nobody' },
    })
  })
})

describe('queue stats of jobs that native workers run', () => {
  const stage = stageForAll()

  it('use the times in the reports of the workers', async () => {
    const queue = freshQueue()
    const ids = await Promise.all(Array.from({ length: 3 }, () => stage.pushed(queue)))
    const [timed = '', untimed = '', failing = ''] = ids
    stage.advance(1_000 * SECOND)
    const at = (second: number) => new Date(second * SECOND).toISOString()
    const attempt = { attempt: 1, generation: 0 }
    const error = { code: 'handler_error', message: 'm' }
    // The clock of a worker may differ from the gateway's by any amount: only the difference counts.
    const events = [
      { ...attempt, job_id: timed, event: 'started' as const, at: at(5) },
      { ...attempt, job_id: timed, event: 'completed' as const, at: at(305) },
      { ...attempt, job_id: untimed, event: 'completed' as const, at: at(400) },
      { ...attempt, job_id: failing, event: 'failed' as const, error },
    ]
    await report(stage.deps, { worker_id: 'w', events }, CONTEXT)
    const { startedAt, completedAt } = await stage.row(timed)
    expect((completedAt ?? 0) - (startedAt ?? 0)).toBe(300 * SECOND)
    const { lastHour } = await queueStats(stage.deps, queue)
    expect(lastHour).toMatchObject({ completed: 2, failed: 1, timed: 1, durationMs: 300 * SECOND })
    const waited = lastHour.waitMs / lastHour.waited
    // The failed job counts as started when its report came, since no start was reported.
    expect([lastHour.waited, Math.round(waited / (10 * SECOND))]).toEqual([2, 85])
  })

  it('use started_at of a completion when no start was reported, if it is a valid time', async () => {
    const queue = freshQueue()
    const ids = await Promise.all(Array.from({ length: 4 }, () => stage.pushed(queue)))
    stage.advance(1_000 * SECOND)
    const at = (second: number) => new Date(second * SECOND).toISOString()
    const told = [at(5), null, 'soon', 5]
    const events = ids.map((id, i) => ({
      ...{ job_id: id, attempt: 1, event: 'completed' as const, at: at(305) },
      started_at: told[i],
    }))
    expect(await report(stage.deps, { worker_id: 'w', events }, CONTEXT)).toMatchObject({
      applied: 4,
    })
    const { lastHour } = await queueStats(stage.deps, queue)
    expect(lastHour).toMatchObject({ completed: 4, timed: 1, durationMs: 300 * SECOND })
  })
})
