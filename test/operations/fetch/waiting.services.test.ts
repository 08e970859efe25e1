import { beforeEach, describe, expect, it } from 'vitest'
import { type Clock, systemClock } from '../../../src/clock.ts'
import { queueMessages } from '../../support/broker/queue-messages.ts'
import { eventually } from '../../support/gateway/in-process.ts'
import { leastOfThree } from '../../support/time/stopwatch.ts'
import {
  fetchOne,
  freshQueue,
  gatewayForAll,
  nack,
  startJob,
  stateOf,
  storyOf,
  untilState,
} from '../harness.ts'

const HOUR_MS = 3_600_000

/** How far the gateway's wall clock is ahead of the system's, so that tests do not wait for due times. */
let aheadMs = 0
const system = systemClock()
const clock: Clock = { now: () => system.now(), wall: () => system.wall() + aheadMs }

const { vhost, gateway } = gatewayForAll({}, { clock })
let queue = ''
beforeEach(() => {
  aheadMs = 0
  queue = freshQueue()
})

const inMs = (ms: number) => new Date(Date.now() + ms).toISOString()
const activate = (id: string) => gateway.request('POST', `/ojs/v1/jobs/${id}/activate`)

async function push(options: object) {
  const { status, body } = await gateway.push(queue, { options })
  expect(status, JSON.stringify(body)).toBe(201)
  return body.job
}

describe('a scheduled job', () => {
  it.each(['delay_until', 'scheduled_at'])('runs on time and never early: %s', async (member) => {
    const lateMs = async () => {
      aheadMs = 0
      queue = freshQueue()
      const at = inMs(HOUR_MS)
      const job = await push({ [member]: at })
      expect(job).toMatchObject({ state: 'scheduled', attempt: 0, scheduled_at: at })
      aheadMs = HOUR_MS - 1_000
      const jobs: (typeof job)[] = []
      while (jobs.length === 0) jobs.push(...(await gateway.fetch([queue])))
      const late = clock.wall() - Date.parse(at)
      expect(late).toBeGreaterThanOrEqual(0)
      const [fetched] = jobs
      expect(fetched).toMatchObject({ id: job.id, attempt: 1, scheduled_at: at })
      // `enqueued_at` is of the clock that no test moves, which may round to the other side of a millisecond.
      const enqueuedAt = Date.parse(fetched.enqueued_at) + aheadMs
      expect(enqueuedAt).toBeGreaterThanOrEqual(Date.parse(at) - 1)
      const story = ['job.scheduled', 'job.enqueued', 'job.started']
      expect(await storyOf(gateway, queue, job.id)).toEqual(story)
      return late
    }
    expect(await leastOfThree(lateMs, 1_000)).toBeLessThan(1_000)
  })

  it.each([
    ['a positive offset', '+05:30', 5.5 * HOUR_MS],
    ['a negative offset', '-08:00', -8 * HOUR_MS],
  ])('is due at the instant that its time with %s names', async (_, offset, offsetMs) => {
    const dueAt = Date.now() + HOUR_MS
    const local = new Date(dueAt + offsetMs).toISOString().replace('Z', offset)
    const job = await push({ scheduled_at: local })
    expect(job).toMatchObject({ state: 'scheduled' })
    expect(Date.parse(job.scheduled_at)).toBe(dueAt)
    aheadMs = HOUR_MS - 60_000
    const identity = await push({
      scheduled_at: new Date(Date.now() + aheadMs + 200).toISOString(),
    })
    await untilState(gateway, identity.id, 'available')
    expect(await stateOf(gateway, job.id)).toBe('scheduled')
    aheadMs = HOUR_MS
    await untilState(gateway, job.id, 'available')
  })

  it.each([3, 500])('may be %i years away, and is never early', async (years) => {
    const { id } = await push({ scheduled_at: inMs(years * 365.25 * 24 * HOUR_MS) })
    aheadMs = (years * 365.25 * 24 - 1) * HOUR_MS
    const identity = await push({ scheduled_at: inMs(aheadMs + 200) })
    await untilState(gateway, identity.id, 'available')
    expect(await stateOf(gateway, id)).toBe('scheduled')
    aheadMs += HOUR_MS
    await untilState(gateway, id, 'available')
  })

  it('becomes available without a FETCH, and is not published before', async () => {
    const job = await push({ delay_until: '+PT1H' })
    expect(Date.parse(job.scheduled_at)).toBeGreaterThan(Date.now())
    // The queue exists, since PUSH declares it.
    expect(await queueMessages(vhost.url, `ojs.queue.${queue}`)).toEqual([])
    expect(await stateOf(gateway, job.id)).toBe('scheduled')
    aheadMs = HOUR_MS
    await untilState(gateway, job.id, 'available')
    await eventually(async () => {
      return (await queueMessages(vhost.url, `ojs.queue.${queue}`)).includes(job.id)
    })
  })

  it('is available at once when its time has passed', async () => {
    const job = await push({ delay_until: inMs(-60_000) })
    expect(job.state).toBe('available')
    expect((await fetchOne(gateway, queue)).id).toBe(job.id)
  })

  it('is handed out in the order of due times, not of arrival', async () => {
    const later = await push({ delay_until: inMs(2 * HOUR_MS) })
    const sooner = await push({ delay_until: inMs(HOUR_MS) })
    aheadMs = HOUR_MS
    expect((await fetchOne(gateway, queue)).id).toBe(sooner.id)
    aheadMs = 2 * HOUR_MS
    expect((await fetchOne(gateway, queue)).id).toBe(later.id)
  })

  it('can be cancelled and then never runs', async () => {
    const job = await push({ delay_until: inMs(HOUR_MS) })
    expect((await gateway.cancel(job.id)).body.job.previous_state).toBe('scheduled')
    const next = await push({ delay_until: inMs(HOUR_MS + 100) })
    aheadMs = HOUR_MS + 100
    expect((await fetchOne(gateway, queue)).id).toBe(next.id)
    expect(await stateOf(gateway, job.id)).toBe('cancelled')
  })
})

describe('a pending job', () => {
  it('is not handed out until it is activated', async () => {
    const job = await push({ pending: true })
    expect(job).toMatchObject({ state: 'pending', attempt: 0 })
    expect(await gateway.fetch([queue], { wait_ms: 500 })).toEqual([])
    const answer = await activate(job.id)
    expect(answer.status).toBe(200)
    expect(answer.body.job).toMatchObject({ state: 'available', previous_state: 'pending' })
    const at = Date.parse(answer.body.job.activated_at)
    expect(Math.abs(Date.now() - at)).toBeLessThan(10_000)
    expect((await fetchOne(gateway, queue)).id).toBe(job.id)
    expect(await storyOf(gateway, queue, job.id)).toEqual(['job.enqueued', 'job.started'])
  })

  it('cannot be activated twice, and an unknown one not at all (seed 001 §9.5)', async () => {
    const job = await push({ pending: true })
    await activate(job.id)
    const again = await activate(job.id)
    expect(again.status).toBe(409)
    expect(again.body.error).toMatchObject({
      code: 'invalid_request',
      message:
        "Cannot activate job in state 'available'. Only jobs in 'pending' state can be activated.",
      details: { job_id: job.id, current_state: 'available' },
    })
    expect((await activate('019414d4-8b2e-7c3a-b5d1-f0e2a3b4c5d6')).status).toBe(404)
  })

  it('with a future time becomes scheduled by its activation (ojs-choices C-95)', async () => {
    const job = await push({ pending: true, delay_until: inMs(HOUR_MS) })
    expect(job.state).toBe('pending')
    const { body } = await activate(job.id)
    expect(body.job).toMatchObject({ state: 'scheduled', previous_state: 'pending' })
    expect(await gateway.fetch([queue], { wait_ms: 300 })).toEqual([])
    aheadMs = HOUR_MS
    expect(await fetchOne(gateway, queue)).toMatchObject({ id: job.id, attempt: 1 })
  })

  it('with a past time becomes available by its activation', async () => {
    const at = inMs(300)
    const job = await push({ pending: true, delay_until: at })
    await eventually(() => Date.now() > Date.parse(at))
    expect(await stateOf(gateway, job.id)).toBe('pending')
    expect((await activate(job.id)).body.job.state).toBe('available')
    expect((await fetchOne(gateway, queue)).id).toBe(job.id)
  })

  it('can be cancelled', async () => {
    const job = await push({ pending: true })
    expect((await gateway.cancel(job.id)).body.job.previous_state).toBe('pending')
    expect((await activate(job.id)).body.error.details.current_state).toBe('cancelled')
  })
})

describe('expires_at', () => {
  it.each([
    ['available', {}],
    ['scheduled', { delay_until: '+PT30M' }],
    ['pending', { pending: true }],
  ])('discards a job in state %s without a FETCH', async (state, options) => {
    const job = await push({ ...options, expires_at: '+PT1H' })
    expect(job.state).toBe(state)
    aheadMs = HOUR_MS
    const dead = await untilState(gateway, job.id, 'discarded')
    const discardedAt = Date.parse(dead.discarded_at) + aheadMs
    expect(discardedAt).toBeGreaterThanOrEqual(Date.parse(job.expires_at) - 1)
    expect(dead).not.toHaveProperty('completed_at')
    const story = await storyOf(gateway, queue, job.id)
    expect(story.at(-1)).toBe('job.expired')
    expect(story).not.toContain('job.discarded')
    expect(await gateway.fetch([queue], { wait_ms: 300 })).toEqual([])
  })

  it('discards a job that waits for a retry', async () => {
    const retry = { initial_interval: 'PT1H', max_interval: 'PT1H', jitter: false }
    const job = await startJob(gateway, queue, { retry, expires_at: '+PT1H' })
    await nack(gateway, job.id)
    aheadMs = HOUR_MS
    await untilState(gateway, job.id, 'discarded')
  })

  it('does not end an active job', async () => {
    const job = await startJob(gateway, queue, { expires_at: '+PT1H' })
    const other = await push({ expires_at: '+PT1H' })
    aheadMs = HOUR_MS
    await untilState(gateway, other.id, 'discarded')
    expect((await gateway.ack(job.id)).status).toBe(200)
  })
})

describe('after a restart', () => {
  it('retries, schedules and pending jobs continue where they were', async () => {
    const exact = (ms: number) => ({ retry: { initial_interval_ms: ms, jitter: false } })
    const hour = { initial_interval: 'PT1H', max_interval: 'PT1H', jitter: false }
    const inRetryQueue = await startJob(gateway, queue, exact(2_000))
    const inLedger = await startJob(gateway, queue, { retry: hour })
    await nack(gateway, inRetryQueue.id)
    await nack(gateway, inLedger.id)
    const dueMeanwhile = await push({ delay_until: inMs(300) })
    const dueLater = await push({ delay_until: inMs(4_000) })
    const pending = await push({ pending: true })

    await gateway.restart()
    const attempts = new Map<string, number>()
    while (attempts.size < 3) {
      const { id, attempt } = await fetchOne(gateway, queue)
      attempts.set(id, attempt)
    }
    const expected = [dueMeanwhile, dueLater].map(({ id }): [string, number] => [id, 1])
    expect(attempts).toEqual(new Map([...expected, [inRetryQueue.id, 2]]))
    expect(Date.now()).toBeGreaterThanOrEqual(Date.parse(dueLater.scheduled_at))
    expect(await stateOf(gateway, inLedger.id)).toBe('retryable')
    expect(await stateOf(gateway, pending.id)).toBe('pending')
    await activate(pending.id)
    expect((await fetchOne(gateway, queue)).id).toBe(pending.id)
  })

  it('a retry whose delay passed during the restart is handed out', async () => {
    const retry = { initial_interval_ms: 200, jitter: false }
    const job = await startJob(gateway, queue, { retry })
    await nack(gateway, job.id)
    await gateway.restart()
    expect(await fetchOne(gateway, queue)).toMatchObject({ id: job.id, attempt: 2 })
    expect((await gateway.ack(job.id)).status).toBe(200)
  })
})
