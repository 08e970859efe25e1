import { expect, onTestFinished, test, vi } from 'vitest'
import type { Running } from '../../src/worker/dispatcher.ts'
import { Heartbeat, type HeartbeatDeps } from '../../src/worker/heartbeat.ts'

// biome-ignore lint/suspicious/noExplicitAny: bodies are read as a gateway would, member by member
type Json = any

/** The heartbeat of a worker that runs the given jobs by queue. Records what it sends, in order. */
function heartbeatOf(
  running: Record<string, (string | Running)[]>,
  given: { queues?: string[]; leaseMs?: number; intervalMs?: number } = {},
) {
  const { queues = ['q'], leaseMs = Number.POSITIVE_INFINITY, intervalMs = 5_000 } = given
  const told: { queue: string; type: string; body: Json }[] = []
  const order: string[] = []
  const deps = {
    link: {
      clock: { now: () => Date.now() },
      tell: async (queue: string, type: string, body: string) => {
        order.push('beat')
        told.push({ queue, type, body: JSON.parse(body) })
      },
    },
    dispatcher: {
      running: () =>
        new Map(
          Object.entries(running).map(([queue, jobs]) => [
            queue,
            jobs.map((job) => (typeof job === 'string' ? { id: job, generation: 0 } : job)),
          ]),
        ),
      shortestLeaseMs: () => leaseMs,
    },
    reporter: { flush: () => order.push('reports') },
    sink: { state: () => 'running' },
    options: { workerId: 'w', queues, concurrency: 10 },
    intervalMs,
    version: undefined,
    onBeat: () => {},
  } as unknown as HeartbeatDeps
  return { heartbeat: new Heartbeat(deps), told, order }
}

const ids = (count: number) => Array.from({ length: count }, (_, i) => `id-${i}`)

test('Heartbeat flushes the reports first, then names all running jobs, at most a thousand per message', () => {
  const { heartbeat, told, order } = heartbeatOf({ q: ids(2_001), other: ['a'] })
  heartbeat.beat()
  expect(order[0]).toBe('reports')
  expect(told.map(({ queue, body }) => [queue, body.job_ids.length])).toEqual([
    ['q', 1_000],
    ['q', 1_000],
    ['q', 1],
    ['other', 1],
  ])
  expect(told.flatMap(({ body }) => body.job_ids)).toEqual([...ids(2_001), 'a'])
  expect(told.some(({ body }) => 'generations' in body)).toBe(false)
})

test('Heartbeat names the generations of jobs that were retried by hand', () => {
  const { heartbeat, told } = heartbeatOf({ q: ['a', { id: 'b', generation: 2 }] })
  heartbeat.beat()
  expect(told).toMatchObject([{ body: { job_ids: ['a', 'b'], generations: { b: 2 } } }])
})

test('Heartbeat names at most a hundred queues, also when no job runs', () => {
  const { heartbeat, told } = heartbeatOf({}, { queues: ids(101) })
  heartbeat.beat()
  expect(told).toMatchObject([{ queue: 'id-0', body: { job_ids: [], queues: ids(100) } }])
})

test('Heartbeat is sent three times per shortest lease, until stop()', () => {
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
  const { heartbeat, told } = heartbeatOf({ q: ['a'] }, { leaseMs: 3_000 })
  heartbeat.start()
  vi.advanceTimersByTime(3_000)
  expect(told.length).toBeGreaterThanOrEqual(3)
  heartbeat.stop()
  vi.advanceTimersByTime(3_000)
  expect(told.length).toBeLessThan(5)
})
