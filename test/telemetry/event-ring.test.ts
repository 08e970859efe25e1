import { describe, expect, it } from 'vitest'
import { freshRow } from '../../src/job/job.ts'
import { EventRing } from '../../src/telemetry/event-ring.ts'
import { newJob } from '../support/jobs.ts'

const ANY = { types: new Set<string>(), queues: new Set<string>() }

/** Events `1`, `2`, … of jobs in queue `q`, the even ones in queue `even`. */
function ringOf(capacity: number, count: number): EventRing {
  let ids = 0
  const newId = () => String(++ids)
  const ring = new EventRing(capacity, { now: () => 0, wall: () => 0 }, newId)
  for (let i = 1; i <= count; i++) {
    const job = newJob({ queue: i % 2 === 0 ? 'even' : 'q' })
    const row = freshRow(job, { generation: 0, outbox: 1, enqueuedAt: 0 })
    ring.onJobEvent({ type: i % 3 === 0 ? 'job.expired' : 'job.enqueued', job: row })
  }
  return ring
}

function ids(ring: EventRing, query: { after?: string; limit?: number } = {}): string[] {
  const page = ring.list({ ...ANY, after: null, limit: 100, ...query })
  return page.events.map(({ id }) => id)
}

describe('the event ring', () => {
  it('keeps the newest, in order', () => {
    expect(ids(ringOf(3, 2))).toEqual(['evt_1', 'evt_2'])
    expect(ids(ringOf(3, 3))).toEqual(['evt_1', 'evt_2', 'evt_3'])
    expect(ids(ringOf(3, 8))).toEqual(['evt_6', 'evt_7', 'evt_8'])
  })

  it('pages from a cursor on', () => {
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

  it('says so when events after the cursor are gone', () => {
    const ring = ringOf(3, 8)
    expect(ring.list({ ...ANY, after: 'evt_2', limit: 9 })).toMatchObject({ gap: true })
    expect(ids(ring, { after: 'evt_2' })).toEqual(['evt_6', 'evt_7', 'evt_8'])
    expect(ring.list({ ...ANY, after: 'evt_6', limit: 9 })).toMatchObject({ gap: false })
  })

  it('filters by type and by queue, and its cursor passes what does not match', () => {
    const ring = ringOf(10, 7)
    const expired = ring.list({ ...ANY, types: new Set(['job.expired']), after: null, limit: 9 })
    expect(expired.events.map(({ id }) => id)).toEqual(['evt_3', 'evt_6'])
    expect(expired.cursor).toBe('evt_7')
    const even = ring.list({ ...ANY, queues: new Set(['even']), after: null, limit: 2 })
    expect(even.events.map(({ id }) => id)).toEqual(['evt_2', 'evt_4'])
    expect(even).toMatchObject({ cursor: 'evt_4', has_more: true })
  })

  it('is empty before the first event', () => {
    expect(ringOf(3, 0).list({ ...ANY, after: null, limit: 9 })).toEqual({
      events: [],
      cursor: null,
      has_more: false,
      gap: false,
    })
  })
})
