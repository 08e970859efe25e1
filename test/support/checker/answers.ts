import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import { openApiDocument } from '../../../src/http/openapi/document.ts'
import type { Door } from '../../../src/http/routes/route-deps.ts'
import { routesOf } from '../../../src/http/server.ts'
import { FORMATS } from '../../../src/schemas/args/formats.ts'

// biome-ignore lint/suspicious/noExplicitAny: the document is read as a client would, member by member
type Json = any

/** Has members of its own beside those that its producer chose. */
const OPEN = ['Job', 'CronJob']

/** The document that every gateway answers, made of the routes. */
const document: Json = JSON.parse(
  JSON.stringify(
    openApiDocument(routesOf({} as unknown as Door), { version: '', needsKeys: true }),
  ),
)

const ajv = new Ajv2020({ strict: false, allErrors: true, validateSchema: false, formats: FORMATS })
const validators = new Map<string, ValidateFunction>()

/** Every operation: its id, its method, and what matches its path. Literal paths come first. */
const OPERATIONS = Object.entries<Json>(document.paths)
  .sort(([a], [b]) => Number(a.includes('{')) - Number(b.includes('{')))
  .flatMap(([path, methods]) =>
    Object.entries<Json>(methods).map(([method, operation]) => ({
      id: String(operation.operationId),
      method: method.toUpperCase(),
      matches: new RegExp(`^${path.replace(/\./g, '\\.').replace(/\{\w+\}/g, '[^/]+')}$`),
      responses: operation.responses,
      parameters: new Set<string>((operation.parameters ?? []).map(({ name }: Json) => name)),
    })),
  )

export const OPERATION_IDS = OPERATIONS.map(({ id }) => id)

export interface GivenAnswer {
  method: string
  /** Perhaps with a query. */
  path: string
  status: number
  /** Parsed, or a text. */
  body: unknown
}

/**
 * Throws unless the OpenAPI document says of this answer what it is: the status, every member, and each one that
 * must be there; and of its request, if that succeeded, the parameters of the query. `isExact`: also of jobs, of which a test may have sent members that no schema knows. Returns the
 * id of the operation, or null for a path that the API does not have.
 */
export function assertDescribed(
  { method, path, status, body }: GivenAnswer,
  isExact = false,
): string | null {
  const [bare = '', query] = path.split('?')
  const operation = OPERATIONS.find((each) => each.method === method && each.matches.test(bare))
  if (operation === undefined) return null
  const { id, responses, parameters } = operation
  const unknown = [...new URLSearchParams(query).keys()].filter((name) => !isOne(name, parameters))
  if (unknown.length > 0 && status < 300) {
    throw new Error(`${id}: the parameters ${unknown} are not in the document`)
  }
  const named = responses[status] ?? (status >= 400 ? responses.default : undefined)
  if (named === undefined) throw new Error(`${id}: the status ${status} is not in the document`)
  const response = named.$ref === undefined ? named : follow(named.$ref)
  const [content] = Object.values<Json>(response.content ?? {})
  if (content === undefined) return id
  const validate = validatorOf(`${id} ${named.$ref ?? status} ${isExact}`, content.schema, isExact)
  if (validate(body)) return id
  const errors = validate.errors?.map(({ instancePath, message, params }) =>
    [instancePath, message, JSON.stringify(params)].join(' '),
  )
  const text = JSON.stringify(body).slice(0, 2_000)
  throw new Error(
    `${id}: the ${status} is not as the document says: ${errors?.join('; ')}\n${text}`,
  )
}

/** The names of some filters begin with `meta.` and end as the caller likes. */
function isOne(name: string, parameters: ReadonlySet<string>): boolean {
  return parameters.has(name) || (name.startsWith('meta.') && parameters.has('tag'))
}

function validatorOf(key: string, schema: Json, isExact: boolean): ValidateFunction {
  const known = validators.get(key)
  if (known !== undefined) return known
  const made = ajv.compile(exact(schema, isExact ? [] : OPEN))
  validators.set(key, made)
  return made
}

function follow(reference: string): Json {
  return reference
    .split('/')
    .slice(1)
    .reduce((place, name) => place[name], document)
}

/**
 * The schema with its references in place, which refuses the members that it does not list, except where the
 * component is `open`.
 */
function exact(schema: Json, open: readonly string[], isOpen = false): Json {
  if (Array.isArray(schema)) return schema.map((item) => exact(item, open))
  if (typeof schema !== 'object' || schema === null) return schema
  if (schema.$ref !== undefined) {
    const target = follow(schema.$ref)
    return exact(target, open, open.includes(target.title))
  }
  if (schema.allOf !== undefined) return exactOf(schema.allOf, open)
  const members = Object.fromEntries(
    Object.entries(schema).map(([keyword, value]) => [keyword, exact(value, open)]),
  )
  const isListed = schema.properties !== undefined && schema.additionalProperties === undefined
  return isListed && !isOpen ? { ...members, additionalProperties: false } : members
}

/** Of `allOf`: one object with the members of all of them. */
function exactOf(parts: Json[], open: readonly string[]): Json {
  const targets = parts.map((part) => (part.$ref === undefined ? part : follow(part.$ref)))
  const [first = {}, ...others] = targets
  if (others.length === 0) return exact(first, open, open.includes(first.title))
  const whole = {
    type: 'object',
    required: targets.flatMap(({ required = [] }) => required),
    properties: Object.assign({}, ...targets.map(({ properties }) => properties)),
  }
  return exact(
    whole,
    open,
    targets.some(({ title }) => open.includes(title)),
  )
}
