import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { Route } from '../../src/http/route.ts'
import type { Door } from '../../src/http/routes/route-deps.ts'
import { routesOf } from '../../src/http/server.ts'
import { JOB_STATES } from '../../src/job/job.ts'
import { BACKOFF_STRATEGIES } from '../../src/job/request.ts'
import { CONFLICT_NAMES } from '../../src/job/unique.ts'
import { CRON_SCHEMA } from '../../src/schemas/requests/cron.ts'
import { CHECKPOINT_SCHEMA, PROGRESS_SCHEMA } from '../../src/schemas/requests/progress.ts'
import { PUSH_SCHEMA } from '../../src/schemas/requests/push.ts'
import { nackError } from '../../src/schemas/requests/shared-members.ts'
import {
  ACK_SCHEMA,
  FETCH_SCHEMA,
  HEARTBEAT_SCHEMA,
  NACK_SCHEMA,
  SETTLE_ITEM_SCHEMA,
  SETTLE_SCHEMA,
} from '../../src/schemas/requests/workers.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const read = (file: string) => readFileSync(resolve(ROOT, file), 'utf8')
const page = read('docs/reference/http.md')

function role({ access = ['admin'] }: Route): string {
  return access === 'anybody' ? access : [...(access.length > 0 ? access : ['admin'])].join(', ')
}

test('docs/reference/http.md lists each endpoint with its roles, and no others', () => {
  const served = routesOf({} as unknown as Door).map(
    (route) => `${route.method} ${route.path}: ${role(route)}`,
  )
  const rows = [...page.matchAll(/^\| `((?:GET|POST|PUT|PATCH|DELETE) \S+)` \| ([\w, ]+) \|/gm)]
  const listed = rows.map(([, endpoint, roles]) => `${endpoint}: ${roles}`)
  expect(listed).toHaveLength(served.length)
  expect(new Set(listed)).toEqual(new Set(served))
})

/** The names in the first column of the tables below a heading. */
function members(heading: string): string[] {
  const section = page.split(/^## /m).find((text) => text.startsWith(`${heading}\n`)) ?? ''
  const cells = [...section.matchAll(/^\| (.+?) \|/gm)].map(([, cell = '']) => cell)
  return cells.flatMap((cell) => [...cell.matchAll(/`(\w+)`/g)].map(([, name = '']) => name))
}

const { options } = PUSH_SCHEMA.properties
const OPTIONS = options.properties
const named = (schema: { properties: object }) => Object.keys(schema.properties)

describe('docs/reference/http.md names each member that the schemas of requests have:', () => {
  const { retry, unique, ...others } = OPTIONS
  test.each([
    ['A job', [...Object.keys(others), 'type', 'args', 'id', 'specversion', 'schema', 'options']],
    ['A job', [...named(retry), ...named(unique), 'retry', 'unique']],
    ['FETCH', named(FETCH_SCHEMA)],
    ['ACK', [...named(ACK_SCHEMA), 'result']],
    ['NACK', named(NACK_SCHEMA)],
    ['Many at once', named(SETTLE_SCHEMA)],
    ['Many at once', named(SETTLE_ITEM_SCHEMA)],
    ['Heartbeat', named(HEARTBEAT_SCHEMA)],
    ['Progress', named(PROGRESS_SCHEMA).filter((name) => name !== 'job_id')],
    ['Checkpoint', named(CHECKPOINT_SCHEMA).filter((name) => name !== 'job_id')],
    ['A cron entry', named(CRON_SCHEMA).filter((name) => name !== 'job_template')],
    ['A workflow', ['name', 'options', 'steps', 'type', 'jobs', 'callbacks']],
    ['A schema', ['uri', 'type', 'version', 'schema']],
  ])('in the section %s: %j', (heading, wanted) => {
    expect(members(heading)).toEqual(expect.arrayContaining(wanted))
  })

  test.each([...Object.keys(nackError.properties), 'job_template', 'depends_on'])(
    'anywhere: %s',
    (name) => {
      expect(page).toContain(`\`${name}`)
    },
  )

  test('anywhere: each value of an enum', () => {
    const words = [
      ...BACKOFF_STRATEGIES,
      ...CONFLICT_NAMES,
      ...CRON_SCHEMA.properties.overlap_policy.enum,
    ]
    for (const word of words) if (word !== null) expect(page).toContain(`\`${word}\``)
  })
})

test('docs/reference/http.md lists each type of event, and no others', () => {
  const kinds = ['src/telemetry/event-data.ts', 'src/telemetry/workflow-events.ts']
    .flatMap((file) => [...read(file).matchAll(/case '([a-z_]+(?:\.[a-z_]+)+)':/g)])
    .map(([, type = '']) => type)
  const [, list = ''] = /^(Events are [\s\S]+?)\n\n/m.exec(page) ?? []
  const listed = [...list.matchAll(/`([a-z_]+(?:\.[a-z_]+)+)`/g)].map(([, type = '']) => type)
  expect(new Set(listed)).toEqual(new Set(kinds))
})

/** The part of the page below a heading of either depth. */
const below = (heading: string) =>
  page.split(/^###? /m).find((text) => text.startsWith(`${heading}\n`)) ?? ''

test('docs/reference/http.md lists each error code with its usual status, and no others', () => {
  const table = read('src/errors.ts').split('} as const')[0] ?? ''
  const codes = [...table.matchAll(/^ {2}(\w+): \{\s+status: (\d+)/gm)]
  expect(codes.length).toBeGreaterThan(10)
  const rows = [...below('Errors').matchAll(/^\| (`.+?) \| ([\d,; ]+) \|/gm)]
  const listed = rows.flatMap(([, names = '', statuses = '']) =>
    [...names.matchAll(/`(\w+)`/g)].map(([, name = '']) => [name, statuses] as const),
  )
  expect(new Set(listed.map(([name]) => name))).toEqual(new Set(codes.map(([, name]) => name)))
  for (const [, name, status] of codes) expect(new Map(listed).get(name ?? '')).toContain(status)
})

test('docs/reference/http.md names each member of a job, each state, and the name of each list', () => {
  const document = read('src/job/document.ts')
  const members = [...document.matchAll(/[,{]"(\w+)":/g)].map(([, name = '']) => name)
  expect(members).toContain('retry_delay_ms')
  const lists = ['queues', 'jobs', 'cron_jobs', 'workflows', 'schemas', 'events', 'items']
  const answers = below('What comes back')
  for (const name of [...members, ...JOB_STATES, ...lists]) expect(answers).toContain(`\`${name}\``)
})
