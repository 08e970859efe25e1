import { describe, expect, it } from 'vitest'
import { toDefinition, withTick } from '../../../src/job/cron/entry.ts'
import { toNewJob } from '../../../src/job/envelope.ts'
import { parseCron, parsePush } from '../../../src/schemas/requests/validator.ts'

const TICK = Date.parse('2026-02-12T10:30:00.000Z')
const ENTRY = { name: 'nightly', cron: '0 2 * * *' }

/** The document of the job that this cron entry makes at its tick. */
function jobOf(members: object): Record<string, unknown> {
  const job = 'job_template' in members ? {} : { type: 'report.build' }
  const { name, template } = toDefinition(parseCron({ ...ENTRY, ...job, ...members }))
  const request = withTick({ name, template: parsePush(template) }, TICK)
  const times = { now: TICK, wall: TICK, timeoutMs: 30_000 }
  return JSON.parse(toNewJob(request, { newId: () => 'x', ...times, prefix: '' }).envelope)
}

describe('the job of a tick', () => {
  it.each<[object]>([
    [{ meta: { a: 1 } }],
    [{ metadata: { a: 1 } }],
    [{ options: { metadata: { a: 1 } } }],
    [{ meta: { a: 1 }, metadata: { a: 2 } }],
    [{ options: { metadata: { a: 1 } }, meta: { a: 2 } }],
    [{ options: { meta: { a: 1 }, metadata: { a: 2 } }, meta: { a: 3 } }],
  ])('has the meta that a PUSH of the template would have: %j', (members) => {
    expect(jobOf(members)['meta']).toEqual({
      a: 1,
      cron_name: 'nightly',
      cron_triggered_at: '2026-02-12T10:30:00.000Z',
    })
  })

  it.each([
    ['id', { id: 'x' }],
    ['job_template.id', { job_template: { type: 'a', id: 'x' } }],
  ])('always gets an id of its own, so the template may have none: %s', (field, members) => {
    const refused = expect.objectContaining({ status: 400, details: { field } })
    expect(() => jobOf(members)).toThrow(refused)
  })

  it('has the retry policy of the entry, as retry or retry_policy', () => {
    expect(jobOf({ retry: { max_attempts: 7 } })).toMatchObject({ max_attempts: 7 })
    expect(jobOf({ retry_policy: { max_attempts: 7 } })).toMatchObject({ max_attempts: 7 })
  })
})
