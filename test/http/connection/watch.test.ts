import { beforeEach, expect, test, vi } from 'vitest'
import { notFound, unavailable } from '../../../src/errors.ts'
import type { EventStream, StreamEvent } from '../../../src/http/connection/event-stream.ts'
import { type Look, Watch } from '../../../src/http/connection/watch.ts'
import { EventRing } from '../../../src/telemetry/event-ring.ts'
import { uuid7 } from '../../../src/uuid.ts'
import { jobRow } from '../job-rows.ts'

const SOME: Look = { events: [{ data: 'some' }], isOver: false }
/** More than this later, it has looked a second time after an event. */
const LATER_MS = 1_001

beforeEach(() => {
  vi.useFakeTimers()
  return () => vi.useRealTimers()
})

/** The watch of job `a`, whose looks find `found` in turn. */
function watching(...found: (Look | Error)[]) {
  const ring = new EventRing(10, { now: () => 0, wall: () => 0 }, uuid7)
  const look = vi.fn(async () => {
    const next = found.shift() ?? SOME
    if (next instanceof Error) throw next
    return next
  })
  const sent: StreamEvent[] = []
  const stream = { isReady: true, send: (one: StreamEvent) => sent.push(one), end: vi.fn() }
  const watch = new Watch({ isMeant: ({ jobId }) => jobId === 'a', look }, ring.end)
  const advance = async (ms = 0) => {
    await vi.advanceTimersByTimeAsync(ms)
    watch.advance(stream as unknown as EventStream, ring)
    await vi.advanceTimersByTimeAsync(0)
    return look.mock.calls.length
  }
  const tell = (id: string, count = 1) => {
    for (let i = 0; i < count; i++) ring.onJobEvent({ type: 'job.completed', job: jobRow({ id }) })
  }
  return { advance, tell, stream, sent }
}

test('looks after an event of its job, once more a second later, and not without one', async () => {
  const { advance, tell, sent } = watching()
  expect(await advance(LATER_MS)).toBe(0)
  tell('b')
  expect(await advance(LATER_MS)).toBe(0)
  tell('a', 3)
  expect(await advance()).toBe(1)
  expect(await advance(LATER_MS - 100)).toBe(1)
  expect(await advance(LATER_MS)).toBe(2)
  expect(await advance(LATER_MS)).toBe(2)
  expect(sent).toEqual([...SOME.events, ...SOME.events])
})

test('looks if events are gone that may have been of its job', async () => {
  const { advance, tell } = watching()
  tell('b', 11)
  expect(await advance()).toBe(1)
})

test('looks only while its client reads', async () => {
  const { advance, tell, stream } = watching()
  stream.isReady = false
  tell('a')
  expect(await advance()).toBe(0)
  expect(await advance(LATER_MS)).toBe(0)
  stream.isReady = true
  expect(await advance()).toBe(1)
})

test('looks again a second after a look that failed', async () => {
  const { advance, tell, stream } = watching(SOME, unavailable('Not now.', 'ledger'))
  tell('a')
  expect(await advance()).toBe(1)
  expect(await advance(LATER_MS)).toBe(2)
  expect(await advance(LATER_MS)).toBe(3)
  expect(stream.end).not.toHaveBeenCalled()
})

test.each([
  ['it is over', { ...SOME, isOver: true }],
  ['the job is gone', notFound('job', 'a')],
])('ends the stream when %s', async (_, found) => {
  const { advance, tell, stream } = watching(found)
  tell('a')
  await advance()
  expect(stream.end).toHaveBeenCalledOnce()
})
