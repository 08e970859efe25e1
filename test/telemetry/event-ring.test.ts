import { describe, expect, it } from 'vitest'
import type { JobState } from '../../src/job/job.ts'
import { EventRing } from '../../src/telemetry/event-ring.ts'
import type { JobEvent } from '../../src/telemetry/events.ts'
import { jobRow } from '../http/job-rows.ts'
import { endedStep, workflowRow } from './workflow-rows.ts'

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const ANY = { types: new Set<string>(), queues: new Set<string>() }

/**
 * A ring with the events `evt_1`, `evt_2`, …: odd ones of the queue `q`, even ones of the queue `even`. Each
 * is listed before the next comes, so that also those that are dropped count.
 */
function ringOf(capacity: number, count: number): EventRing {
  let made = 0
  const newId = () => String(++made)
  const ring = new EventRing(capacity, { now: () => 0, wall: () => 0 }, newId)
  for (let i = 1; i <= count; i++) {
    const job = jobRow({ queue: i % 2 === 0 ? 'even' : 'q' })
    ring.onJobEvent({ type: i % 3 === 0 ? 'job.expired' : 'job.enqueued', job })
    ids(ring)
  }
  return ring
}

function ids(ring: EventRing, query: { after?: string; limit?: number } = {}): string[] {
  const page = ring.list({ ...ANY, after: null, limit: 100, ...query })
  return page.events.map(({ id }) => id)
}

describe('EventRing', () => {
  it('keeps the newest events, in order', () => {
    expect(ids(ringOf(3, 2))).toEqual(['evt_1', 'evt_2'])
    expect(ids(ringOf(3, 3))).toEqual(['evt_1', 'evt_2', 'evt_3'])
    expect(ids(ringOf(3, 8))).toEqual(['evt_6', 'evt_7', 'evt_8'])
  })

  it('makes ids in the order of the events when they are first listed, and none for others', () => {
    let made = 0
    const ring = new EventRing(4, { now: () => 0, wall: () => 0 }, () => String(++made))
    const push = (type: 'job.enqueued' | 'job.completed') =>
      ring.onJobEvent({ type, job: jobRow() })
    for (let i = 0; i < 9; i++) push('job.enqueued')
    push('job.completed')
    expect(made).toBe(0)
    const completed = ring.list({
      ...ANY,
      types: new Set(['job.completed']),
      after: null,
      limit: 9,
    })
    expect(completed.events.map(({ id }) => id)).toEqual(['evt_4'])
    push('job.enqueued')
    expect(ids(ring)).toEqual(['evt_2', 'evt_3', 'evt_4', 'evt_5'])
    expect(ids(ring, { after: 'evt_4' })).toEqual(['evt_5'])
    expect(made).toBe(5)
  })

  it('lists pages after a cursor', () => {
    const ring = ringOf(10, 5)
    const first = ring.list({ ...ANY, after: null, limit: 2 })
    expect(first).toMatchObject({ cursor: 'evt_2', has_more: true, gap: false })
    expect(ids(ring, { after: 'evt_2', limit: 2 })).toEqual(['evt_3', 'evt_4'])
    const last = ring.list({ ...ANY, after: 'evt_4', limit: 2 })
    expect(last).toMatchObject({ cursor: 'evt_5', has_more: false })
    expect(ring.list({ ...ANY, after: 'evt_5', limit: 2 })).toMatchObject({
      events: [],
      cursor: 'evt_5',
      has_more: false,
      gap: false,
    })
  })

  it('lists no events for a limit of 0, and leaves the cursor unchanged', () => {
    const ring = ringOf(10, 5)
    const none = { events: [], gap: false }
    const start = ring.list({ ...ANY, after: null, limit: 0 })
    expect(start).toEqual({ ...none, cursor: null, has_more: true })
    const middle = ring.list({ ...ANY, after: 'evt_4', limit: 0 })
    expect(middle).toEqual({ ...none, cursor: 'evt_4', has_more: true })
    const end = ring.list({ ...ANY, after: 'evt_5', limit: 0 })
    expect(end).toEqual({ ...none, cursor: 'evt_5', has_more: false })
  })

  it('reports a gap if events after the cursor were dropped', () => {
    const ring = ringOf(3, 8)
    expect(ring.list({ ...ANY, after: 'evt_2', limit: 9 })).toMatchObject({ gap: true })
    expect(ids(ring, { after: 'evt_2' })).toEqual(['evt_6', 'evt_7', 'evt_8'])
    expect(ring.list({ ...ANY, after: 'evt_6', limit: 9 })).toMatchObject({ gap: false })
  })

  it('filters by type and by queue, and moves the cursor past events that do not match', () => {
    const ring = ringOf(10, 7)
    const expired = ring.list({ ...ANY, types: new Set(['job.expired']), after: null, limit: 9 })
    expect(expired.events.map(({ id }) => id)).toEqual(['evt_3', 'evt_6'])
    expect(expired.cursor).toBe('evt_7')
    const even = ring.list({ ...ANY, queues: new Set(['even']), after: null, limit: 2 })
    expect(even.events.map(({ id }) => id)).toEqual(['evt_2', 'evt_4'])
    expect(even).toMatchObject({ cursor: 'evt_4', has_more: true })
  })

  it('lists events about the queue itself, but no workflow events, for a filter by queue', () => {
    const ring = new EventRing(9, { now: () => 0, wall: () => 2_000 }, () => 'x')
    ring.onJobEvent({ type: 'queue.paused', queue: 'q' })
    ring.onJobEvent({ type: 'workflow.started', workflow: workflowRow() })
    const { events } = ring.list({ ...ANY, queues: new Set(['q']), after: null, limit: 9 })
    expect(events).toEqual([
      {
        specversion: '1.0',
        id: 'evt_x',
        type: 'queue.paused',
        source: 'ojs://ojs-rabbitmq',
        time: '1970-01-01T00:00:02.000Z',
        subject: 'q',
        data: { queue: 'q' },
      },
    ])
  })

  it('lists an empty page before the first event', () => {
    expect(ringOf(3, 0).list({ ...ANY, after: null, limit: 9 })).toEqual({
      events: [],
      cursor: null,
      has_more: false,
      gap: false,
    })
  })
})

describe('the data of an event', () => {
  const failure = { code: 'boom', type: 'Boom', message: 'it went off', retryable: true }
  const lease = { id: 'x', queue: 'q', type: 't', attempt: 2, leaseExpiresAt: 1_500 }

  function dataOf(event: JobEvent) {
    const ring = new EventRing(10, { now: () => 0, wall: () => 0 }, () => 'id')
    ring.onJobEvent(event)
    return ring.list({ ...ANY, after: null, limit: 9 }).events[0]?.data
  }

  it('job.failed: has the attempt that failed, although the row has a later one', () => {
    const job = jobRow({ state: 'retryable', attempt: 3, workerId: 'w1' })
    expect(dataOf({ type: 'job.failed', job, attempt: 2, failure })).toEqual({
      job_id: job.id,
      job_type: 'email.send',
      queue: 'email',
      state: 'retryable',
      attempt: 2,
      worker_id: 'w1',
      error: failure,
    })
  })

  it('job.enqueued: has no worker_id for a job that was given back, although its row has one', () => {
    const job = jobRow({ state: 'available', attempt: 0, outbox: 7, workerId: 'w1' })
    expect(dataOf({ type: 'job.enqueued', job, promoted: true })).not.toHaveProperty('worker_id')
  })

  it('job.retrying: has the time and delay of the retry and the number of attempts', () => {
    const job = jobRow({ state: 'retryable', attempt: 1, dueAt: 61_000, retryDelayMs: 1_000 })
    expect(dataOf({ type: 'job.retrying', job, failure })).toMatchObject({
      attempt: 1,
      max_attempts: 3,
      next_retry_at: '1970-01-01T00:01:01.000Z',
      retry_delay_ms: 1_000,
      error: failure,
    })
  })

  it('job.scheduled: has the time', () => {
    const job = jobRow({ state: 'scheduled', dueAt: 61_000, priority: 7 })
    expect(dataOf({ type: 'job.scheduled', job })).toMatchObject({
      state: 'scheduled',
      priority: 7,
      scheduled_at: '1970-01-01T00:01:01.000Z',
    })
  })

  it('job.expired: has its time to live', () => {
    const at = { createdAt: 1_000, expiresAt: 3_000, discardedAt: 5_000 }
    const job = jobRow({ state: 'discarded', ...at })
    expect(dataOf({ type: 'job.expired', job })).toMatchObject({
      created_at: '1970-01-01T00:00:01.000Z',
      expired_at: '1970-01-01T00:00:03.000Z',
      ttl_ms: 2_000,
    })
    const byQueue = jobRow({ state: 'discarded', ...at, expiresAt: null })
    expect(dataOf({ type: 'job.expired', job: byQueue })).toMatchObject({ ttl_ms: 4_000 })
  })

  it('job.discarded: has the attempts and the last error', () => {
    const error = JSON.stringify({ ...failure, details: { much: 'more' } })
    const job = jobRow({ state: 'discarded', attempt: 2, maxAttempts: 3, error })
    const data = dataOf({ type: 'job.discarded', job })
    expect(data).toMatchObject({ total_attempts: 2 })
    expect(data?.['last_error']).toEqual({ code: 'boom', message: 'it went off' })
    const unknown = dataOf({ type: 'job.discarded', job: jobRow({ attempt: 1 }) })
    expect(unknown).not.toHaveProperty('last_error')
  })

  it('job.cancelled: has the previous state; job.completed: the duration; job.enqueued: the priority', () => {
    const job = jobRow({ startedAt: 1_000, completedAt: 1_040, priority: 7 })
    expect(dataOf({ type: 'job.cancelled', job, previousState: 'pending' })).toMatchObject({
      previous_state: 'pending',
    })
    expect(dataOf({ type: 'job.completed', job })).toMatchObject({ duration_ms: 40 })
    expect(dataOf({ type: 'job.enqueued', job, promoted: true })).toMatchObject({ priority: 7 })
  })

  it('job.heartbeat: has the worker and the end of the lease', () => {
    expect(dataOf({ type: 'job.heartbeat', job: lease, workerId: 'w1' })).toEqual({
      job_id: 'x',
      job_type: 't',
      queue: 'q',
      state: 'active',
      attempt: 2,
      worker_id: 'w1',
      visible_until: '1970-01-01T00:00:01.500Z',
    })
  })

  it('dead_letter.retried and dead_letter.deleted: have data', () => {
    const job = jobRow({ state: 'available' })
    const retried = dataOf({ type: 'dead_letter.retried', job })
    expect(retried).toMatchObject({ job_id: job.id, state: 'available' })
    expect(dataOf({ type: 'dead_letter.deleted', job })).toBeDefined()
  })

  it('job.staged and job message.malformed: are no events', () => {
    expect(dataOf({ type: 'job.staged', job: jobRow() })).toBeUndefined()
    expect(
      dataOf({ type: 'message.malformed', queue: 'q', id: '', error: new Error() }),
    ).toBeUndefined()
  })

  it('job.failed and job.discarded: have the first 500 characters of a message', () => {
    const long = { ...failure, message: 'x'.repeat(10_000) }
    const data = dataOf({ type: 'job.failed', job: jobRow(), attempt: 1, failure: long })
    expect(data?.['error']).toEqual({ ...failure, message: 'x'.repeat(500) })
    const last = jobRow({ state: 'discarded', error: JSON.stringify(long) })
    const { last_error: error } = dataOf({ type: 'job.discarded', job: last }) ?? {}
    expect(error).toEqual({ code: 'boom', message: 'x'.repeat(500) })
  })

  it('job.enqueued and cron.triggered: have the trace id of a valid traceparent only', () => {
    const carry = { ...jobRow().carry, traceparent: `00-${TRACE}-b7ad6b7169203331-01` }
    const job = jobRow({ carry })
    expect(dataOf({ type: 'job.enqueued', job })).toMatchObject({ trace_id: TRACE })
    const cron = { name: 'nightly', expression: '0 0 * * *', jobType: 't', queue: 'q' }
    const tick = dataOf({ type: 'cron.triggered', cron, scheduledAt: 0, job })
    expect(tick).toMatchObject({ trace_id: TRACE })
    // A native client may write anything into `x-ojs-trace-id`.
    const odd = jobRow({ carry: { traceparent: TRACE } })
    expect(dataOf({ type: 'job.enqueued', job: odd })).not.toHaveProperty('trace_id')
  })

  it('workflow.started: has the number of steps; workflow.step_completed: the step and the rest', () => {
    const workflow = workflowRow({ total: 3, open: 2 })
    const head = { workflow_id: 'w', workflow_name: 'told', state: 'running' }
    expect(dataOf({ type: 'workflow.started', workflow })).toEqual({ ...head, total_steps: 3 })
    const job = jobRow({ startedAt: 1_000, completedAt: 1_040 })
    const step = endedStep({ job })
    expect(dataOf({ type: 'workflow.step_completed', workflow, step })).toEqual({
      ...head,
      step_id: 's',
      step_type: 't',
      job_id: job.id,
      duration_ms: 40,
      steps_remaining: 2,
    })
    const neverRan = endedStep({ job: jobRow({ completedAt: 1_040 }) })
    const data = dataOf({ type: 'workflow.step_completed', workflow, step: neverRan })
    expect(data).toMatchObject({ duration_ms: 0 })
  })

  it('workflow.completed: has the duration; workflow.failed: the failed step and its error too', () => {
    const workflow = workflowRow({ state: 'failed', createdAt: 1_000, endedAt: 3_500 })
    const completed = dataOf({ type: 'workflow.completed', workflow })
    expect(completed).toMatchObject({ duration_ms: 2_500 })
    const failed = (state: JobState, error: string | null) => {
      const step = { id: 's', type: 't', state, error }
      return dataOf({ type: 'workflow.failed', workflow, step })
    }
    const about = { duration_ms: 2_500, failed_step_id: 's', failed_step_type: 't' }
    const error = JSON.stringify(failure)
    expect(failed('discarded', error)).toMatchObject({ ...about, error: { code: 'boom' } })
    expect(failed('cancelled', null)).toMatchObject({ ...about, error: { code: 'cancelled' } })
    const unknown = dataOf({ type: 'workflow.failed', workflow, step: null })
    expect(unknown).toEqual(completed)
  })
})

it('EventRing lists ticks of cron entries with the name of the entry as subject', () => {
  const ring = new EventRing(9, { now: () => 0, wall: () => 0 }, () => 'x')
  const cron = { name: 'nightly', expression: '0 0 * * *', jobType: 't', queue: 'q' }
  ring.onJobEvent({ type: 'cron.triggered', cron, scheduledAt: 0, job: jobRow({ id: 'j' }) })
  ring.onJobEvent({ type: 'cron.skipped', cron, scheduledAt: 1, reason: 'queue_paused' })
  const missed = { reason: 'missed', count: 7, hasMore: false } as const
  ring.onJobEvent({ type: 'cron.skipped', cron, scheduledAt: 2, ...missed })
  const { events } = ring.list({ ...ANY, queues: new Set(['q']), after: null, limit: 9 })
  const data = { cron_name: 'nightly', cron_expr: '0 0 * * *', job_type: 't', queue: 'q' }
  expect(events.map(({ subject, data }) => [subject, data])).toEqual([
    ['nightly', { ...data, job_id: 'j', scheduled_at: '1970-01-01T00:00:00.000Z' }],
    ['nightly', { ...data, reason: 'queue_paused', scheduled_at: '1970-01-01T00:00:00.001Z' }],
    [
      'nightly',
      {
        ...{ ...data, scheduled_at: '1970-01-01T00:00:00.002Z' },
        ...{ reason: 'missed', count: 7, has_more: false },
      },
    ],
  ])
})
