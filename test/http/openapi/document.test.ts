import { Validator } from '@seriousme/openapi-schema-validator'
import { expect, test } from 'vitest'
import { openApiDocument } from '../../../src/http/openapi/document.ts'
import type { Door } from '../../../src/http/routes/route-deps.ts'
import { routesOf } from '../../../src/http/server.ts'
import { MAINTENANCE_SCHEMA } from '../../../src/schemas/requests/admin.ts'
import { PROGRESS_SCHEMA } from '../../../src/schemas/requests/progress.ts'
import { PUSH_SCHEMA } from '../../../src/schemas/requests/push.ts'
import { REGISTER_SCHEMA } from '../../../src/schemas/requests/register.ts'
import {
  ACK_SCHEMA,
  FETCH_SCHEMA,
  HEARTBEAT_SCHEMA,
  NACK_SCHEMA,
} from '../../../src/schemas/requests/workers.ts'
import { openDoor } from '../door.ts'
import { request } from '../raw-client.ts'

// biome-ignore lint/suspicious/noExplicitAny: read as a client would, member by member
type Json = any

const ROUTES = routesOf({} as unknown as Door)
const documentOf = (routes = ROUTES, needsKeys = true): Json =>
  JSON.parse(JSON.stringify(openApiDocument(routes, { version: '1.2.3', needsKeys })))
const whole = documentOf()

const named = ROUTES.map((route) => [`${route.method} ${route.path}`, route] as const)
const operationOf = ({ method, path }: (typeof ROUTES)[number], document = whole): Json =>
  document.paths[path.replace(/:(\w+)/g, '{$1}')]?.[method.toLowerCase()]

test('the document passes a validator of OpenAPI 3.1', async () => {
  const validator = new Validator()
  const { valid, errors } = await validator.validate(structuredClone(whole))
  expect(errors).toBeUndefined()
  expect([valid, validator.version]).toEqual([true, '3.1'])
})

test.each(named)('%s is described: `about` in its route (CONTRIBUTING.md)', (_name, route) => {
  const { about } = route
  expect(about?.summary, 'a summary').toBeTruthy()
  const operation = operationOf(route)
  expect(operation.operationId).toBe(about.id)
  expect(operation.summary).toBe(about.summary)
  expect(whole.tags.map(({ name }: Json) => name)).toContain(operation.tags[0])
  expect(Object.keys(about.answers).length, 'answers').toBeGreaterThan(0)
  for (const status of Object.keys(about.answers)) {
    expect(operation.responses[status].description).toBeTruthy()
  }
  expect(operation.responses.default).toBeDefined()
})

/** It reads no body. */
const BODILESS = ['resumeRetention']

test.each(named.filter(([name]) => !/^(GET|DELETE)/.test(name)))(
  '%s has the schema of its body',
  (_name, route) => {
    const { id, body } = route.about
    expect(body === undefined).toBe(BODILESS.includes(id))
    const { requestBody } = operationOf(route)
    for (const type of body ? ['application/json', 'application/openjobspec+json'] : []) {
      expect(requestBody.content[type].schema).toEqual(expect.any(Object))
    }
  },
)

/** With the components in the places of their references. */
function inlined(schema: Json): Json {
  if (Array.isArray(schema)) return schema.map(inlined)
  if (typeof schema !== 'object' || schema === null) return schema
  if (schema.$ref !== undefined) {
    return inlined(whole.components.schemas[schema.$ref.split('/').at(-1)])
  }
  return Object.fromEntries(Object.entries(schema).map(([name, value]) => [name, inlined(value)]))
}

test.each([
  ['POST /ojs/v1/jobs', PUSH_SCHEMA],
  ['POST /ojs/v1/workers/fetch', FETCH_SCHEMA],
  ['POST /ojs/v1/workers/ack', ACK_SCHEMA],
  ['POST /ojs/v1/workers/nack', NACK_SCHEMA],
  ['POST /ojs/v1/workers/heartbeat', HEARTBEAT_SCHEMA],
  ['POST /ojs/v1/workers/progress', PROGRESS_SCHEMA],
  ['POST /ojs/v1/schemas', REGISTER_SCHEMA],
  ['POST /ojs/v1/admin/system/maintenance', MAINTENANCE_SCHEMA],
])('the body of %s is the schema that its parser compiles', (name, schema) => {
  const route = ROUTES.find(({ method, path }) => `${method} ${path}` === name)
  if (route === undefined) throw new Error(`no route ${name}`)
  expect(route.about.body).toBe(schema)
  const { content } = operationOf(route).requestBody
  expect(inlined(content['application/json'].schema)).toEqual(JSON.parse(JSON.stringify(schema)))
})

test.each(named)(
  '%s names its path parameters, the roles of keys, and its errors',
  (_name, route) => {
    const { parameters = [], security, responses } = operationOf(route)
    const inPath = parameters.filter((each: Json) => each.in === 'path')
    const wanted = [...route.path.matchAll(/:(\w+)/g)].map(([, name]) => name)
    expect(inPath.map(({ name }: Json) => name)).toEqual(wanted)
    const { access = [] } = route
    const roles = access === 'anybody' ? [] : [...access, 'admin']
    expect(security).toEqual(roles.map((role) => ({ apiKey: [role] })))
    expect('401' in responses).toBe(roles.length > 0)
    expect('404' in responses || wanted.length === 0).toBe(true)
    const open = operationOf(route, documentOf(ROUTES, false)).security
    expect(open).toEqual(roles.length === 0 ? [] : [{}, ...security])
  },
)

test('an endpoint that will go says so', () => {
  const [first, ...others] = ROUTES
  if (first === undefined) throw new Error('no routes')
  const going = { ...first, about: { ...first.about, isDeprecated: true as const } }
  expect(operationOf(going, documentOf([going, ...others])).deprecated).toBe(true)
  expect(operationOf(first).deprecated).toBeUndefined()
})

test('two ids and two schemas of one name are refused', () => {
  const [first] = ROUTES
  if (first === undefined) throw new Error('no routes')
  const as = (id: string, title: string, type: string) => ({
    ...first,
    path: `/${id}${type}`,
    about: { ...first.about, id, answers: { 200: { title, type } } },
  })
  expect(() => documentOf([as('a', 'A', 'object'), as('a', 'B', 'array')])).toThrow('the id a')
  expect(() => documentOf([as('a', 'A', 'object'), as('b', 'A', 'array')])).toThrow('the title A')
})

test('GET /ojs/v1/openapi.json answers it to anybody, and 304 to who has it', async () => {
  const door = await openDoor()
  const ask = (headers: Record<string, string> = {}) =>
    door.ask(request('GET', '/ojs/v1/openapi.json', headers))
  const { status, headers, body } = await ask()
  expect([status, headers['content-type']]).toEqual([200, 'application/json'])
  expect(JSON.parse(body)).toEqual(documentOf(ROUTES, false))
  const tag = headers['etag'] ?? ''
  expect(await ask({ 'If-None-Match': `"other", W/${tag}` })).toMatchObject({
    status: 304,
    body: '',
  })
  expect((await ask({ 'If-None-Match': '"other"' })).status).toBe(200)
})

test('a route without `about` makes these tests red: it is required, and so is its summary', () => {
  const bare = ROUTES.map((route) => ({ ...route, about: undefined }))
  expect(() => openApiDocument(bare as never, { version: '1', needsKeys: true })).toThrow()
})

test('the document has no other operations than the routes', () => {
  const operations = Object.values<object>(whole.paths).flatMap((path) => Object.keys(path))
  expect(operations).toHaveLength(ROUTES.length)
})
