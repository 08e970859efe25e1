import { describe, expect, it } from 'vitest'
import { changedRegistration, isSwitch, readChange } from '../../../src/job/cron/change.ts'
import { type CronEntry, toDefinition } from '../../../src/job/cron/entry.ts'
import { parseCron, parsePush } from '../../../src/schemas/requests/validator.ts'

const FACTS = { seq: 1, nextRunAt: null, lastRunAt: null, lastJobId: null, runCount: 0 }

/** A disabled entry in which no member has its default. `job`: beside the schedule or in `job_template`. */
function entryOf(job: object): CronEntry {
  const times = { cron: '0 2 * * *', timezone: 'Europe/Berlin', overlap_policy: 'allow' }
  const body = { name: 'nightly', ...times, enabled: false, description: 'old', ...job }
  const definition = toDefinition(parseCron(body))
  const template = parsePush(definition.template)
  return { ...definition, template, ...FACTS, queued: [], createdAt: 0 }
}

const JOB = {
  ...{ type: 'report.build', args: ['a'], schema: 'urn:a', meta: { a: 1 }, priority: 3 },
  options: { queue: 'mails', retry: { max_attempts: 7 }, tags: ['eu'] },
}
const ENTRY = entryOf(JOB)

function changed(body: Record<string, unknown>, entry = ENTRY): object {
  const definition = toDefinition(parseCron(changedRegistration(entry, readChange(body))))
  return { ...definition, template: parsePush(definition.template) }
}

/** Where each member of a change may stand. */
const PLACES = [
  ...['cron', 'expression', 'timezone', 'overlap_policy', 'enabled'],
  ...['type', 'args', 'schema', 'meta', 'metadata', 'priority', 'queue', 'retry', 'retry_policy'],
  ...['tags', 'options', 'options.queue', 'options.meta', 'options.retry', 'options.tags'],
  ...['job_template', 'job_template.type', 'job_template.args', 'job_template.options'],
  ...['job_template.meta', 'job_template.options.queue', 'job_template.options.retry'],
]

function nullAt(place: string): Record<string, unknown> {
  const nested = place.split('.').reduceRight<unknown>((value, name) => ({ [name]: value }), null)
  return nested as Record<string, unknown>
}

describe('null in a change of a cron entry', () => {
  const { description: _, ...before } = changed({ description: 'new' }) as Record<string, unknown>

  it.each(PLACES)('counts as absent: %s', (place) => {
    const body = { description: 'new', ...nullAt(place) }
    expect(changed(body)).toEqual({ ...before, description: 'new' })
  })

  it.each([...PLACES, 'description'])('alone changes nothing, which is refused: %s', (place) => {
    expect(() => readChange(nullAt(place))).toThrow('The body changes nothing.')
  })

  it('leaves the description', () => {
    expect(changed({ priority: 4, description: null })).toMatchObject({ description: 'old' })
  })

  it('beside the other spelling of the expression does not hide it', () => {
    expect(changed({ cron: null, expression: '5 2 * * *' })).toMatchObject({
      expression: '5 2 * * *',
    })
  })

  it('keeps a pause a pause', () => {
    expect(isSwitch(readChange({ enabled: false, timezone: null, options: null }))).toBe(true)
  })

  it('is kept inside a value', () => {
    expect(changed({ args: [null], meta: { a: null } })).toMatchObject({
      template: { args: [null], options: { meta: { a: null } } },
    })
  })
})

describe('a change of a cron entry', () => {
  it('keeps members of its job that only the worker knows', () => {
    const entry = entryOf({ job_template: { ...JOB, paused: true, region: 'eu' } })
    expect(changed({ priority: 4 }, entry)).toMatchObject({
      template: { paused: true, region: 'eu', type: 'report.build', options: { priority: 4 } },
    })
  })
})
