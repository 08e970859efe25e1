import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { errorBody, notFound } from '../../src/errors.ts'
import { OJS_SCHEMAS, ojsSchema } from '../../src/schemas/ojs/catalogue.ts'
import { EventRing } from '../../src/telemetry/event-ring.ts'
import { uuid7 } from '../../src/uuid.ts'
import { jobRow } from '../http/job-rows.ts'
import { assertEnvelope, assertEnvelopes, ojsErrors } from '../support/checker/envelope.ts'

/** Seed 003, unchanged. */
const SEED = readFileSync(join(import.meta.dirname, 'seed-003.txt'), 'utf8')

// biome-ignore lint/suspicious/noExplicitAny: a document that others wrote
type Document = any

/** The JSON documents in it: each begins with a line that begins an object, and ends where it parses. */
function documents(): Document[] {
  const lines = SEED.split('\n')
  return lines.flatMap((line, from) => (line === '{' ? [documentAt(lines, from)] : []))
}

function documentAt(lines: readonly string[], from: number): Document {
  for (let to = from + 1; to < lines.length; to++) {
    if (lines[to] !== '}') continue
    try {
      return JSON.parse(lines.slice(from, to + 1).join('\n'))
    } catch {
      // The brace began an inner object, because the seed has lost its indentation.
    }
  }
  throw new Error(`line ${from + 1} of seed 003 starts no document`)
}

describe("OJS's own schemas", () => {
  it('are the six that seed 003 lists, under its URIs', () => {
    const listed = SEED.match(/https:\/\/openjobspec\.org\/schemas\/v1\/[\w-]+\.schema\.json\n/g)
    const uris = (listed ?? []).map((uri) => uri.trim())
    expect(uris).toHaveLength(6)
    expect(OJS_SCHEMAS.map(({ uri }) => uri)).toEqual(uris)
    for (const uri of uris) {
      expect(JSON.parse(ojsSchema(uri)?.content ?? '{}')).toMatchObject({
        $id: uri,
        $schema: 'https://json-schema.org/draft/2020-12/schema',
      })
    }
    expect(ojsSchema('urn:other')).toBeNull()
  })

  it('are equal to those that seed 003 prints', () => {
    const printed = documents().filter(({ $id }) => $id !== undefined)
    expect(printed).toHaveLength(4)
    for (const document of printed) {
      expect(JSON.parse(ojsSchema(document.$id)?.content ?? '{}')).toEqual(document)
    }
  })

  it('accept the valid and refuse the invalid examples of seed 003', () => {
    const examples = documents().filter(({ $id }) => $id === undefined)
    expect(examples.map((example) => ojsErrors('job', example).length === 0)).toEqual([
      ...[true, true, false, false],
    ])
  })

  it("describe the gateway's errors", () => {
    const body = JSON.parse(errorBody(notFound('job', 'x'), 'req_1'))
    expect(ojsErrors('error', body.error)).toEqual([])
    expect(ojsErrors('error', { code: 'x' })).toHaveLength(2)
  })

  it("describe the gateway's events", () => {
    const ring = new EventRing(10, { now: () => 0, wall: () => 0 }, uuid7)
    ring.onJobEvent({ type: 'job.enqueued', job: jobRow() })
    const query = { after: null, types: new Set<string>(), queues: new Set<string>(), limit: 1 }
    const [event] = ring.list(query).events
    expect(ojsErrors('event', event)).toEqual([])
    expect(ojsErrors('event', { ...event, id: 'x', time: 'now', data: [] })).toHaveLength(3)
  })

  it.each<[string, object, number]>([
    [
      "the seed's batch",
      {
        jobs: [{ type: 'email.send', args: [], options: { queue: 'email', tags: ['onboarding'] } }],
      },
      0,
    ],
    [
      'every option',
      {
        jobs: [
          {
            type: 'a',
            args: [],
            options: {
              delay_until: '2026-02-12T10:30:00Z',
              unique: { key: ['a'] },
              retry: { initial_interval_ms: 5 },
            },
          },
        ],
      },
      0,
    ],
    ['no jobs', { jobs: [] }, 1],
    ['no type', { jobs: [{ args: [] }] }, 1],
    ['args that are no array', { jobs: [{ type: 'a', args: {} }] }, 1],
    [
      'a closed unique policy',
      { jobs: [{ type: 'a', args: [], options: { unique: { keys: ['a'] } } }] },
      1,
    ],
  ])('describe a batch request with %s', (_, body, errors) => {
    expect(ojsErrors('batch-request', body)).toHaveLength(errors)
  })
})

describe('the envelope checks that other tests use', () => {
  const [job] = documents().filter(({ specversion }) => specversion !== undefined)

  it('recognise a valid envelope', () => {
    expect(() => assertEnvelope(job)).not.toThrow()
    expect(() => assertEnvelope({ ...job, type: 'a-b.c', vendor: 1 })).not.toThrow()
    expect(() => assertEnvelope({ ...job, retry: { backoff_strategy: 'linear' } })).toThrow()
    expect(() => assertEnvelope({ ...job, scheduled_at: 'soon' })).toThrow('/scheduled_at')
    expect(() => assertEnvelope(undefined)).toThrow("'args'")
  })

  it('find the jobs in an answer', () => {
    expect(assertEnvelopes('/ojs/v1/jobs/x', { job })).toBe(1)
    expect(assertEnvelopes('/ojs/v1/workers/fetch', { jobs: [job, job] })).toBe(2)
    expect(assertEnvelopes('/ojs/v1/workers/heartbeat', { job: {} })).toBe(0)
    expect(assertEnvelopes('/ojs/v1/jobs', { error: {} })).toBe(0)
    expect(() => assertEnvelopes('/ojs/v1/dead-letter?limit=1', { jobs: [{}] })).toThrow()
  })
})
