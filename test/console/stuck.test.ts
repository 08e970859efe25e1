import { expect, test } from 'vitest'
import type { JobItem, StatsPoint } from '../../src/console/api/openapi.ts'
import {
  limitMs,
  longestByWorker,
  mayBeStuck,
  stuckOf,
  usualIn,
} from '../../src/console/pages/workers/stuck.ts'

const START = Date.parse('2026-01-01T12:00:00.000Z')
const MINUTE = 60_000
const HOUR = 60 * MINUTE

function running(worker: string, queue: string, agoMs: number): JobItem {
  const at = new Date(START - agoMs).toISOString()
  return {
    ...{ id: `${worker} ${agoMs}`, type: 'image.resize', queue, state: 'active', priority: 0 },
    ...{ attempt: 1, max_attempts: 3, tags: [], created_at: at, enqueued_at: at },
    ...{ started_at: at, worker_id: worker },
  }
}

const point = (p99?: number): StatsPoint => ({
  ...{ timestamp: '', processed: 0, completed: 0, failed: 0, retried: 0, enqueued: 0 },
  ...(p99 !== undefined && { duration_p99_ms: p99 }),
})

test('the usual is the longest of the periods that know one', () => {
  expect(usualIn([point(20), point(), point(700)])).toBe(700)
  expect(usualIn([point()])).toBeNull()
})

test('a job may run ten times as long as usual, a minute in any case, an hour where nothing is known', () => {
  expect(limitMs(2 * MINUTE)).toBe(20 * MINUTE)
  expect(limitMs(5)).toBe(MINUTE)
  expect(limitMs(null)).toBe(HOUR)
})

test('of each worker the job counts that began first', () => {
  const jobs = [running('a', 'q', 5), running('a', 'q', 9), running('b', 'q', 1)]
  const { started_at: _, ...unstarted } = running('c', 'q', 3)
  const longest = longestByWorker([...jobs, unstarted])
  expect([...longest].map(([id, job]) => [id, job.id])).toEqual([
    ['a', 'a 9'],
    ['b', 'b 1'],
  ])
})

test('who is above the limit of the queue is stuck, and nobody of whose queue nothing is told yet', () => {
  const usual = new Map([
    ['quick', 12_000],
    ['new', null],
  ])
  const jobs = [
    running('in time', 'quick', 2 * MINUTE),
    running('late', 'quick', 2 * MINUTE + 1),
    running('in time, too', 'new', HOUR),
    running('late, too', 'new', HOUR + 1),
    running('nobody knows', 'other', 9 * HOUR),
  ]
  const stuck = stuckOf(longestByWorker(jobs), usual, START)
  expect(stuck.map(({ id, usual: known }) => [id, known])).toEqual([
    ['late', 12_000],
    ['late, too', null],
  ])
  expect(jobs.every((job) => mayBeStuck(job, START))).toBe(true)
  expect(mayBeStuck(running('a', 'quick', MINUTE), START)).toBe(false)
})
