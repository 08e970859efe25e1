import { expect, it } from 'vitest'
import { OJSClient } from '../../src/sdk/index.ts'
import { fetchOne, freshQueue, gatewayForAll } from './harness.ts'

const { gateway } = gatewayForAll()

const SCHEMAS = '/ojs/v1/schemas'
const DRAFT = 'https://json-schema.org/draft/2020-12/schema'
const JOB_SCHEMA = 'https://openjobspec.org/schemas/v1/job.schema.json'

/** Seed 001 §15.2, as printed there. */
const EMAIL = {
  type: 'email.send',
  version: 1,
  schema: {
    $schema: DRAFT,
    type: 'array',
    prefixItems: [
      { type: 'string', format: 'email', description: 'Recipient email address' },
      {
        type: 'string',
        enum: ['welcome', 'password_reset', 'invoice'],
        description: 'Email template name',
      },
      {
        type: 'object',
        description: 'Template variables',
        properties: { locale: { type: 'string' } },
      },
    ],
    minItems: 2,
    maxItems: 3,
  },
}

let count = 0
function freshUri(): string {
  count += 1
  return `urn:ojs:schema:test/${count}:v1`
}

const at = (uri: string) => `${SCHEMAS}/${encodeURIComponent(uri)}`

async function register(over: object = {}): Promise<string> {
  const uri = freshUri()
  const answer = await gateway.request('POST', SCHEMAS, { uri, ...EMAIL, ...over })
  expect(answer.status, JSON.stringify(answer.body)).toBe(201)
  return uri
}

it('the schema of seed 001 §15.2 can be registered, read and listed', async () => {
  const uri = freshUri()
  const { status, body } = await gateway.request('POST', SCHEMAS, { uri, ...EMAIL })
  const createdAt = body.schema.created_at
  expect({ status, body }).toEqual({
    status: 201,
    body: { schema: { uri, type: 'email.send', version: 1, created_at: createdAt } },
  })
  expect(Math.abs(Date.now() - Date.parse(createdAt))).toBeLessThan(60_000)

  expect((await gateway.request('GET', at(uri))).body).toEqual({
    schema: { uri, ...EMAIL, created_at: createdAt },
  })
  const list = (await gateway.request('GET', `${SCHEMAS}?limit=1`)).body
  expect(list).toEqual({
    schemas: [expect.objectContaining({ type: 'email.send' })],
    pagination: { total: 7, limit: 1, offset: 0, has_more: true },
  })
})

it('registering an equal schema again answers 200, and another with the same uri 409', async () => {
  const uri = await register()
  const again = await gateway.request('POST', SCHEMAS, { uri, ...EMAIL })
  expect([again.status, again.body.schema.uri]).toEqual([200, uri])
  const { $schema, ...rest } = EMAIL.schema
  const turned = { uri, ...EMAIL, schema: { ...rest, $schema } }
  expect((await gateway.request('POST', SCHEMAS, turned)).status).toBe(200)

  for (const over of [{ version: 2 }, { type: 'email.post' }, { schema: { type: 'array' } }]) {
    const { status, body } = await gateway.request('POST', SCHEMAS, { uri, ...EMAIL, ...over })
    expect([status, body.error.code, body.error.details.uri]).toEqual([409, 'duplicate', uri])
  }
})

it.each([
  [{ schema: { $schema: 'http://json-schema.org/draft-07/schema#' } }, /draft 2020-12/],
  [{ schema: { type: 'text' } }, /type must be/],
  [{ schema: { items: [{}] } }, /items must be/],
  [{ schema: { $ref: 'https://example.com/other.json' } }, /must stay inside/],
  [{ schema: { prefixItems: [{ pattern: '(?=a)b' }] } }, /the pattern '\(\?=a\)b' cannot be used/],
])('the registration of %j is refused, with the reason', async (over, reason) => {
  const uri = freshUri()
  const { status, body } = await gateway.request('POST', SCHEMAS, { uri, ...EMAIL, ...over })
  expect([status, body.error.code, body.error.retryable]).toEqual([400, 'invalid_request', false])
  expect(body.error.message).toBe('The provided JSON Schema is not valid draft 2020-12.')
  expect(body.error.details.schema_error).toMatch(reason)
  expect((await gateway.request('GET', at(uri))).status).toBe(404)
})

it.each([
  ['uri', { uri: 'no uri' }],
  ['type', { type: '1st' }],
  ['version', { version: '' }],
  ['schema', { schema: true }],
])('a registration with an invalid %s is refused with 400', async (field, over) => {
  const body = { uri: freshUri(), ...EMAIL, ...over }
  const answer = await gateway.request('POST', SCHEMAS, body)
  expect([answer.status, answer.body.error.details.field]).toEqual([400, field])
})

it('a schema that is too large is refused with 413', async () => {
  const schema = { description: 'x'.repeat(262_144) }
  const answer = await gateway.request('POST', SCHEMAS, { uri: freshUri(), ...EMAIL, schema })
  expect([answer.status, answer.body.error.details.field]).toEqual([413, 'schema'])
})

it('a uri of more than 2,048 bytes is refused, and one of as many is kept', async () => {
  const uri = `urn:${'é'.repeat(1_022)}`
  const long = await gateway.request('POST', SCHEMAS, { ...EMAIL, uri: `${uri}e` })
  expect([long.status, long.body.error.details]).toEqual([
    400,
    { field: 'uri', actual_bytes: 2_049, max_bytes: 2_048 },
  ])
  await register({ uri })
  expect((await gateway.request('GET', at(uri))).body.schema.uri).toBe(uri)
  expect((await gateway.request('DELETE', at(uri))).status).toBe(200)
})

it('GET and DELETE of an unregistered uri answer 404', async () => {
  const uri = freshUri()
  for (const method of ['GET', 'DELETE']) {
    const { status, body } = await gateway.request(method, at(uri))
    expect([status, body.error.code]).toEqual([404, 'not_found'])
    expect(body.error.details).toEqual({ resource_type: 'schema', resource_id: uri })
  }
})

it('PUSH validates the args of a job against its schema', async () => {
  const schema = await register()
  const queue = freshQueue()
  const push = (args: unknown[]) => gateway.push(queue, { type: 'email.send', args, schema })
  const good = await push(['user@example.com', 'welcome'])
  expect([good.status, good.body.job.schema]).toEqual([201, schema])
  const { status, body } = await push(['user@example.com', 'goodbye'])
  expect([status, body.error.code, body.error.retryable]).toEqual([400, 'schema_validation', false])
  expect(body.error.details).toEqual({
    field: 'args',
    schema,
    validation_errors: [
      {
        path: 'args[1]',
        message: 'must be equal to one of the allowed values',
        schema_path: '#/prefixItems/1/enum',
      },
    ],
  })
  expect((await fetchOne(gateway, queue)).id).toBe(good.body.job.id)
  expect(await gateway.fetch([queue], { count: 9 })).toEqual([])
})

it('a batch validates the args of each job against its own schema', async () => {
  const schema = await register()
  const queue = freshQueue()
  const job = { type: 'email.send', args: ['a@example.com', 'welcome'], options: { queue } }
  const batch = (jobs: object[]) => gateway.request('POST', '/ojs/v1/jobs/batch', { jobs })
  const wrong = { ...job, schema, args: ['a@example.com'] }
  const { status, body } = await batch([job, { ...job, schema }, wrong])
  expect([status, body.error.code, body.error.details.index]).toEqual([400, 'schema_validation', 2])
  expect(body.error.details.validation_errors).toHaveLength(1)
  expect(await gateway.fetch([queue], { count: 9 })).toEqual([])
  expect((await batch([job, { ...job, schema }])).status).toBe(201)
})

it('the registration of a cron job validates its args against its schema', async () => {
  const schema = await register()
  const cron = (args: unknown[]) => {
    const entry = { name: freshQueue(), cron: '0 0 1 1 *', type: 'email.send', args, schema }
    return gateway.request('POST', '/ojs/v1/cron', entry)
  }
  const { status, body } = await cron(['a@example.com', 'goodbye'])
  expect([status, body.error.code]).toEqual([400, 'schema_validation'])
  expect(body.error.details.validation_errors).toHaveLength(1)
  expect((await cron(['a@example.com', 'welcome'])).status).toBe(201)
})

it('a workflow validates the args of all steps before any of them starts', async () => {
  const schema = await register()
  const queue = freshQueue()
  const step = (args: unknown[]) => ({ type: 'email.send', args, schema, options: { queue } })
  const chain = (...steps: object[]) =>
    gateway.request('POST', '/ojs/v1/workflows', { type: 'chain', name: 'mails', steps })
  const good = step(['a@example.com', 'welcome'])
  const { status, body } = await chain(good, step(['a@example.com', 'goodbye']))
  expect([status, body.error.code]).toEqual([400, 'schema_validation'])
  expect(body.error.details.validation_errors).toHaveLength(1)
  expect(await gateway.fetch([queue])).toEqual([])
  expect((await chain(good, good)).status).toBe(201)
})

it('a validation that would cost too much is refused as too_costly', async () => {
  const pair = (i: number) => ({ allOf: [{ $ref: `#/$defs/d${i}` }, { $ref: `#/$defs/d${i}` }] })
  const $defs = Object.fromEntries(
    Array.from({ length: 40 }, (_, i) => [`d${i}`, i === 0 ? true : pair(i - 1)]),
  )
  const schema = await register({ schema: { items: pair(39), $defs } })
  const { status, body } = await gateway.push(freshQueue(), { schema, args: [1] })
  expect([status, body.error.code]).toEqual([400, 'schema_validation'])
  expect(body.error.details).toEqual({ field: 'args', schema, reason: 'too_costly' })
  expect((await gateway.push(freshQueue(), { schema, args: [] })).status).toBe(201)
})

it('the validations of one request share a budget, and are refused as too_costly beyond it', async () => {
  const pair = (i: number) => ({ allOf: [{ $ref: `#/$defs/d${i}` }, { $ref: `#/$defs/d${i}` }] })
  const $defs = Object.fromEntries(
    Array.from({ length: 19 }, (_, i) => [`d${i}`, i === 0 ? true : pair(i - 1)]),
  )
  // One validation takes more than half of the budget of a request.
  const schema = await register({ schema: { items: pair(18), $defs } })
  const job = { type: 'test.job', args: [1], schema, options: { queue: freshQueue() } }
  expect((await gateway.request('POST', '/ojs/v1/jobs/batch', { jobs: [job] })).status).toBe(201)
  for (const [path, body] of [
    ['jobs/batch', { jobs: [job, job] }],
    ['workflows', { type: 'group', jobs: [job, job] }],
  ] as const) {
    const refused = await gateway.request('POST', `/ojs/v1/${path}`, body)
    expect([path, refused.status]).toEqual([path, 400])
    expect(refused.body.error.details).toMatchObject({ schema, reason: 'too_costly' })
  }
})

it.each(['%', '%zz', '%00', 'urn:a%2', '..%2F..', '__proto__'])(
  'GET and DELETE of the odd path %s answer 400 or 404',
  async (path) => {
    for (const method of ['GET', 'DELETE']) {
      const { status, body } = await gateway.request(method, `${SCHEMAS}/${path}`)
      expect([400, 404]).toContain(status)
      expect(body.error.request_id).toBeDefined()
    }
  },
)

it('deleting a schema keeps its jobs and ends the validation; another may take its uri', async () => {
  const schema = await register()
  const queue = freshQueue()
  const job = await gateway.push(queue, { args: ['a@example.com', 'welcome'], schema })
  const { status, body } = await gateway.request('DELETE', at(schema))
  expect([status, body]).toEqual([200, { deleted: true, uri: schema }])
  expect((await gateway.get(job.body.job.id)).body.job.schema).toBe(schema)
  expect((await gateway.push(queue, { args: [], schema })).status).toBe(201)

  // A new schema with the same uri is used instead of the compiled old one.
  const other = { uri: schema, ...EMAIL, version: 2, schema: { maxItems: 0 } }
  expect((await gateway.request('POST', SCHEMAS, other)).status).toBe(201)
  expect((await gateway.push(queue, { args: [], schema })).status).toBe(201)
  const full = await gateway.push(queue, { args: ['a@example.com', 'welcome'], schema })
  expect([full.status, full.body.error.code]).toEqual([400, 'schema_validation'])
})

it('PUSH accepts and keeps an unregistered schema uri without OJS_SCHEMA_STRICT', async () => {
  const schema = freshUri()
  const answer = await gateway.push(freshQueue(), { schema })
  expect([answer.status, answer.body.job.schema]).toEqual([201, schema])
})

it('the built-in schemas of OJS can be read, but not deleted or replaced', async () => {
  const { body } = await gateway.request('GET', `${SCHEMAS}?limit=100`)
  const own = body.schemas.slice(-6).map(({ uri }: { uri: string }) => uri)
  expect(own[0]).toBe(JOB_SCHEMA)
  for (const uri of own) {
    const { status, body } = await gateway.request('GET', at(uri))
    expect([status, body.schema.schema.$id, body.schema.schema.$schema]).toEqual([200, uri, DRAFT])
    const gone = await gateway.request('DELETE', at(uri))
    expect([gone.status, gone.body.error.details.reason]).toEqual([409, 'built_in'])
    const { schema, type, version } = body.schema
    const same = await gateway.request('POST', SCHEMAS, { uri, type, version, schema })
    expect(same.status).toBe(200)
    const other = await gateway.request('POST', SCHEMAS, { ...EMAIL, uri })
    expect([other.status, other.body.error.code]).toEqual([409, 'duplicate'])
  }
})

it('the SDK can register, get, list and delete a schema', async () => {
  const { schemas } = new OJSClient({ url: gateway.url })
  const uri = freshUri()
  const registered = await schemas.register({ uri, ...EMAIL })
  expect(registered).toMatchObject({ uri, type: 'email.send', version: 1 })
  expect((await schemas.get(uri)).schema).toEqual(EMAIL.schema)
  expect((await schemas.list({ limit: 100 })).schemas.map((schema) => schema.uri)).toContain(uri)
  expect(await schemas.delete(uri)).toEqual({ deleted: true, uri })
})

it('schemas survive a restart, and OJS_SCHEMA_STRICT then refuses unregistered ones', async () => {
  const schema = await register()
  await gateway.restart({ OJS_SCHEMA_STRICT: '1' })
  const queue = freshQueue()
  const args = ['a@example.com', 'welcome']
  expect((await gateway.push(queue, { args, schema })).status).toBe(201)
  const wrong = await gateway.push(queue, { args: [], schema })
  expect([wrong.status, wrong.body.error.code]).toEqual([400, 'schema_validation'])
  const unknown = await gateway.push(queue, { schema: freshUri() })
  expect([unknown.status, unknown.body.error.code]).toEqual([400, 'invalid_request'])
  expect(unknown.body.error.details.field).toBe('schema')
  expect((await gateway.push(queue)).status).toBe(201)
})

it('the jobs of a batch and of a workflow may name any number of schemas', async () => {
  const queue = freshQueue()
  const large = { prefixItems: Array(400).fill({ type: 'integer' }) }
  const uris: string[] = []
  for (let i = 0; i < 6; i++) uris.push(await register({ schema: large }))
  const jobs = (bad?: number) =>
    [...uris, ...uris].map((schema, i) => ({
      ...{ type: 'email.send', schema, args: i === bad ? ['text'] : [i] },
      options: { queue },
    }))
  const steps = jobs(8).map((job, i) => ({ id: `s${i}`, ...job }))
  const refused = await gateway.request('POST', '/ojs/v1/jobs/batch', { jobs: jobs(7) })
  expect(refused).toMatchObject({ status: 400, body: { error: { details: { index: 7 } } } })
  const pushed = await gateway.request('POST', '/ojs/v1/jobs/batch', { jobs: jobs() })
  expect(pushed.status).toBe(201)
  const workflow = await gateway.request('POST', '/ojs/v1/workflows', { name: 'a', steps })
  expect(workflow).toMatchObject({ status: 400, body: { error: { details: { step: 's8' } } } })
})

it('at most 10,000 schemas can be registered', async () => {
  const last = await register()
  await gateway.stop()
  await gateway.ledger.rows(
    `INSERT INTO schemas (uri, type, version, content, created_at)
      WITH RECURSIVE n(i) AS (SELECT (SELECT COUNT(*) FROM schemas) UNION ALL SELECT i + 1 FROM n WHERE i < 9999)
      SELECT 'urn:planted:' || i, 'a', 1, 'true', 0 FROM n`,
    `INSERT INTO schemas (registration, uri, type, version, content, created_at)
      SELECT -i, 'urn:planted:' || i, 'a', 1, 'true', 0
      FROM generate_series((SELECT count(*) FROM schemas), 9999) i`,
  )
  await gateway.restart()
  const post = (uri: string) => gateway.request('POST', SCHEMAS, { uri, ...EMAIL })
  const refused = await post(freshUri())
  expect(refused.status).toBe(422)
  expect(refused.body.error).toMatchObject({
    code: 'unsupported',
    details: { reason: 'too_many_schemas', max_schemas: 10_000 },
  })
  expect((await post(last)).status).toBe(200)
  expect((await gateway.request('DELETE', at(last))).status).toBe(200)
  expect((await post(freshUri())).status).toBe(201)
})
