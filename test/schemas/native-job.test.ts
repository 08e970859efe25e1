import { describe, expect, it } from 'vitest'
import type { NewJob } from '../../src/job/job.ts'
import { nativeJob } from '../../src/schemas/native-job.ts'

const ID = '019539a4-b68c-7def-8000-1a2b3c4d5e6f'
const NOW = Date.parse('2026-02-12T10:30:00.000Z')
const SENT = Date.parse('2026-02-12T10:00:00.000Z')

/** A message as a native producer may send it. */
function read(
  body: object,
  properties: { timestamp?: number; priority?: number } = {},
  headers: Record<string, unknown> = {},
  maxAttempts: number | null = null,
): NewJob {
  const content = Buffer.from(JSON.stringify({ id: ID, type: 'a', args: [], ...body }))
  const context = { newId: () => ID, now: NOW, wall: NOW, timeoutMs: 30_000, prefix: '' }
  const from = { id: ID, queue: 'q', maxAttempts, carry: () => ({}) }
  return nativeJob({ ...from, message: { content, headers, properties } }, context)
}

describe('a native message', () => {
  it.each<[object, number | undefined, number]>([
    [{}, undefined, 0],
    [{}, 7, 7],
    [{}, 255, 9],
    [{ priority: -20 }, 7, -20],
    [{ options: { priority: 50 } }, 7, 50],
  ])('has the priority of its body %j, else that of its property %s: %s', (body, sent, is) => {
    expect(read(body, sent === undefined ? {} : { priority: sent }).priority).toBe(is)
  })

  it.each<[object, number | null, number]>([
    [{}, null, 3],
    [{ max_attempts: 7 }, null, 7],
    [{ max_attempts: 7 }, 5, 5],
    [{ max_attempts: 7, retry: { max_attempts: 4 } }, 5, 4],
    [{ max_attempts: '7' }, null, 3],
    [{ max_attempts: -1 }, null, 3],
    [{ max_attempts: 2 ** 31 }, null, 3],
  ])('may be tried as often as %j and the header %s say: %s', (body, header, times) => {
    expect(read(body, {}, {}, header).maxAttempts).toBe(times)
  })

  it.each<[string, object, Record<string, unknown>, number | undefined, number]>([
    ['body', { created_at: '2026-02-12T09:00:00Z' }, {}, 1, SENT - 3_600_000],
    ['header', {}, { 'x-ojs-created-at': '2026-02-12T10:00:00Z' }, 1, SENT],
    ['property, in seconds', {}, { 'x-ojs-created-at': 'soon' }, SENT / 1000, SENT],
    ['arrival, where the property is in microseconds', {}, {}, SENT * 1000, NOW],
    ['arrival, where nobody says', {}, {}, undefined, NOW],
  ])('was created when it says so: %s', (_, body, headers, timestamp, at) => {
    const properties = timestamp === undefined ? {} : { timestamp }
    expect(read(body, properties, headers).createdAt).toBe(at)
  })
})
