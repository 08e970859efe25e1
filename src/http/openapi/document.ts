/** The OpenAPI document of the routes: what each says of itself, and what is true of all. */
import { OJS_MEDIA_TYPE } from '../../job/document.ts'
import { type Access, rolesOf } from '../access/roles.ts'
import { type Description, TAGS } from './description.ts'
import { ERROR, ERRORS, type ErrorStatus } from './errors.ts'
import { INTEGER, type Schema, TEXT, untold } from './schema.ts'

/** The part of a route that the document tells. */
export interface Described {
  method: string
  /** With `:name` for parameters. */
  path: string
  access?: Access
  about: Description
}

export interface Facts {
  /** Of this gateway. */
  version: string
  /** Whether API keys are configured: else no endpoint asks for one. */
  needsKeys: boolean
}

const INTRODUCTION = `A job system by the Open Job Spec (OJS) on RabbitMQ.

An object may get further members in a later version; the required ones stay. A time is RFC 3339 in UTC. In a request
it may be relative to now (\`+PT5S\`), and a member that is \`null\` counts as absent.`

const KEYS =
  'An API key. The roles of a key: `producer`, `worker`, `reader`, `operator`, and `admin`, which may call everything.'

/**
 * Makes the document (OpenAPI 3.1). Schemas with a `title` become components; it throws if two different ones
 * have the same title, or two endpoints the same id.
 */
export function openApiDocument(routes: readonly Described[], facts: Facts): object {
  const components = new Components()
  refuseTwins(routes.map(({ about }) => about.id))
  const paths: Record<string, Record<string, object>> = {}
  for (const route of routes) {
    const path = route.path.replace(/:(\w+)/g, '{$1}')
    const operation = operationOf(route, facts, components)
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operation }
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'ojs-rabbitmq',
      version: facts.version,
      description: INTRODUCTION,
      license: { name: 'Apache 2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/', description: 'The gateway that serves this document.' }],
    tags: TAGS.map((name) => ({ name })),
    paths,
    components: {
      securitySchemes: { apiKey: { type: 'http', scheme: 'bearer', description: KEYS } },
      parameters: { IdempotencyKey: IDEMPOTENCY_KEY },
      responses: Object.fromEntries([
        ['Error', errorResponse('Any other error.', components)],
        ...Object.values(ERRORS).map(([name, meaning]) => [
          name,
          errorResponse(meaning, components),
        ]),
      ]),
      schemas: components.schemas,
    },
  }
}

const IDEMPOTENCY_KEY = {
  name: 'Idempotency-Key',
  in: 'header',
  description: 'The same request again within 24 hours gets the first answer again.',
  schema: { ...TEXT, maxLength: 256 },
}

function refuseTwins(ids: readonly string[]): void {
  const twin = ids.find((id, place) => ids.indexOf(id) !== place)
  if (twin !== undefined) throw new Error(`bug: two endpoints with the id ${twin}`)
}

function operationOf(route: Described, { needsKeys }: Facts, components: Components): object {
  const { about, access } = route
  const { id, tag, summary, description, body, isBodyOptional, isDeprecated } = about
  const parameters = parametersOf(route, components)
  return {
    operationId: id,
    tags: [tag],
    summary,
    ...(description !== undefined && { description }),
    ...(parameters.length > 0 && { parameters }),
    ...(body !== undefined && {
      requestBody: { required: isBodyOptional !== true, content: bodyOf(components.refer(body)) },
    }),
    responses: responsesOf(route, components),
    ...(isDeprecated && { deprecated: true }),
    security: securityOf(access, needsKeys),
  }
}

function parametersOf({ path, about }: Described, components: Components): object[] {
  const inPath = [...path.matchAll(/:(\w+)/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: TEXT,
  }))
  const inQuery = Object.entries(about.query ?? {}).map(([name, { description, ...schema }]) => ({
    name,
    in: 'query',
    ...(description !== undefined && { description }),
    schema: components.refer(schema),
  }))
  const inHeader = about.isIdempotent ? [{ $ref: '#/components/parameters/IdempotencyKey' }] : []
  return [...inPath, ...inQuery, ...inHeader]
}

function bodyOf(schema: Schema): object {
  return { 'application/json': { schema }, [OJS_MEDIA_TYPE]: { schema } }
}

function responsesOf(route: Described, components: Components): object {
  const { answers } = route.about
  const told = Object.entries(answers).map(([status, schema]) => [
    status,
    responseOf(schema, components),
  ])
  const errors = errorsOf(route)
    .filter((status) => !(status in answers))
    .map((status) => [status, { $ref: `#/components/responses/${ERRORS[status][0]}` }])
  return {
    ...Object.fromEntries([...told, ...errors]),
    default: { $ref: '#/components/responses/Error' },
  }
}

function responseOf(schema: Schema | null, components: Components): object {
  if (schema === null) return { description: 'Without a body.' }
  const { contentMediaType, ...content } = schema
  const { description = 'Done.' } = content
  const type = typeof contentMediaType === 'string' ? contentMediaType : OJS_MEDIA_TYPE
  return { description, content: { [type]: { schema: components.refer(untold(content)) } } }
}

/** The errors that an endpoint names, and those that follow from what it takes. */
function errorsOf({ path, access, about }: Described): ErrorStatus[] {
  const { errors = [], body, query } = about
  const isOpen = access === 'anybody'
  const found = new Set<ErrorStatus>([
    ...errors,
    ...((body ?? query) ? ([400] as const) : []),
    ...(isOpen ? [] : ([401, 403, 429, 503] as const)),
    ...(path.includes(':') ? ([404] as const) : []),
    ...(body === undefined ? [] : ([413, 415] as const)),
  ])
  return [...found].sort((a, b) => a - b)
}

function errorResponse(description: string, components: Components): object {
  return {
    description,
    headers: { 'Retry-After': { description: 'Seconds, with 429 and 503.', schema: INTEGER } },
    content: { [OJS_MEDIA_TYPE]: { schema: components.refer(ERROR) } },
  }
}

/** Any of these roles; a gateway without keys asks for none. */
function securityOf(access: Access | undefined, needsKeys: boolean): object[] {
  if (access === 'anybody') return []
  const keys = rolesOf(access).map((role) => ({ apiKey: [role] }))
  return needsKeys ? keys : [{}, ...keys]
}

/** The schemas with names. */
class Components {
  readonly schemas: Record<string, Schema> = {}
  readonly #sources = new Map<string, string>()

  /** The schema with a reference in the place of each schema that has a title. */
  refer(schema: Schema): Schema {
    const { title } = schema
    if (typeof title !== 'string') return this.#membersOf(schema)
    const text = JSON.stringify(schema)
    const known = this.#sources.get(title)
    if (known === undefined) {
      this.#sources.set(title, text)
      this.schemas[title] = this.#membersOf(schema)
    } else if (known !== text) throw new Error(`bug: two schemas with the title ${title}`)
    return { $ref: `#/components/schemas/${title}` }
  }

  #membersOf(schema: Schema): Schema {
    return Object.fromEntries(
      Object.entries(schema).map(([keyword, value]) => [keyword, this.#valueOf(keyword, value)]),
    )
  }

  #valueOf(keyword: string, value: unknown): unknown {
    if (VALUES.has(keyword)) return value
    if (Array.isArray(value)) return value.map((item: unknown) => this.#valueOf('', item))
    return typeof value === 'object' && value !== null ? this.refer(value as Schema) : value
  }
}

/** Keywords whose values are no schemas. */
const VALUES: ReadonlySet<string> = new Set(['const', 'default', 'enum', 'examples', 'required'])
