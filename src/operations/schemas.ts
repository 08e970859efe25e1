/** Registers, lists and deletes JSON Schemas for `args`. */
import { isDeepStrictEqual } from 'node:util'
import { invalidField, notFound, OjsError } from '../errors.ts'
import { utf8Bytes } from '../job/values/limits.ts'
import type { KeyedRequest, Remembered } from '../ledger/idempotency.ts'
import type { SchemaRecord, SchemaSummary } from '../ledger/schemas.ts'
import { compileArgsSchema } from '../schemas/args/args-schema.ts'
import { SchemaFault } from '../schemas/args/formats.ts'
import { OJS_SCHEMAS, ojsSchema } from '../schemas/ojs/catalogue.ts'
import { parseRegister, type RegisterRequest } from '../schemas/requests/register.ts'
import type { Deps, RequestContext } from './deps.ts'
import { once, rememberedResource } from './enqueue/idempotency.ts'

const MAX_SCHEMAS = 10_000
/** Of an entry in an index of PostgreSQL, which takes no more than 2,704; and encoded it fits into a request line. */
const MAX_URI_BYTES = 2048
const MAX_SCHEMA_BYTES = 262_144

/**
 * Registers a JSON Schema for `args` (seed 001 §15.2). Posting the same schema again succeeds with `isNew`
 * false. Throws 400 for what is no schema of draft 2020-12 or is too costly, 409 when the uri has another
 * schema, 413, 422 when there are too many schemas, 503.
 */
export function registerSchema(
  deps: Deps,
  body: unknown,
  context: RequestContext,
): Promise<RegisteredSchema> {
  return once(
    deps,
    { endpoint: 'schemas', body, context },
    ({ request }) => registerNew(deps, body, request),
    (remembered, request) => replayed(deps, body, remembered, request),
  )
}

export interface RegisteredSchema {
  schema: SchemaSummary
  isNew: boolean
  /** True: this is the answer to an earlier request with the same `Idempotency-Key`. */
  isReplay?: boolean
}

async function registerNew(
  deps: Deps,
  body: unknown,
  keyed: KeyedRequest | undefined,
): Promise<RegisteredSchema> {
  const request = parseRegister(body)
  checkUri(request.uri)
  const own = ojsSchema(request.uri)
  if (own) return { schema: sameOrConflict(own, request), isNew: false }
  const content = JSON.stringify(request.schema)
  checkSize(content)
  checkSchema(request.schema)
  const { uri, type, version } = request
  const schema: SchemaRecord = { uri, type, version, content, createdAt: deps.clock.now() }
  const inserted = await deps.ledger.schemas.insert(schema, MAX_SCHEMAS, keyed)
  switch (inserted.outcome) {
    case 'inserted':
      return { schema, isNew: true }
    case 'taken':
      return { schema: sameOrConflict(inserted.existing, request), isNew: false }
    case 'full':
      throw tooMany()
    case 'remembered':
      return await replayed(deps, body, inserted.remembered, keyed)
  }
}

async function replayed(
  { ledger }: Pick<Deps, 'ledger'>,
  body: unknown,
  remembered: Remembered,
  request: KeyedRequest | undefined,
): Promise<RegisteredSchema> {
  // The uri may be that of another schema by now. A schema never changes, so the same content is the same schema,
  // whoever has registered it anew.
  const find = async (uri: string) => {
    const present = await ledger.read.schemas.find(uri)
    return present !== null && isSame(present, parseRegister(body)) ? present : null
  }
  const schema = await rememberedResource('schema', remembered, request, find)
  return { schema, isNew: true, isReplay: true }
}

/** Lists the schemas of clients, oldest first, then the six of OJS itself (seed 003). A pure read. */
export async function listSchemas(
  { ledger }: Pick<Deps, 'ledger'>,
  { limit, offset }: { limit: number; offset: number },
): Promise<{ schemas: readonly SchemaSummary[]; total: number }> {
  const { schemas, total } = await ledger.read.schemas.list(limit, offset)
  const from = Math.max(0, offset - total)
  const own = OJS_SCHEMAS.slice(from, from + limit - schemas.length)
  return { schemas: [...schemas, ...own], total: total + OJS_SCHEMAS.length }
}

/** Returns a schema of OJS itself or of a client. Throws 404. */
export async function getSchema(
  { ledger }: Pick<Deps, 'ledger'>,
  uri: string,
): Promise<SchemaRecord> {
  const schema = ojsSchema(uri) ?? (await ledger.read.schemas.find(uri))
  if (schema === null) throw notFound('schema', uri)
  return schema
}

/**
 * Deletes a schema; jobs that name it are not affected (seed 001 §15.4). Throws 404, 503; 409 for a schema
 * of OJS itself, which cannot be deleted (seed 001 §16.2 has no 403).
 */
export async function deleteSchema({ ledger }: Pick<Deps, 'ledger'>, uri: string): Promise<void> {
  if (ojsSchema(uri)) {
    throw new OjsError(
      'invalid_request',
      `The schema '${uri}' is part of OJS and cannot be deleted.`,
      {
        status: 409,
        details: { resource_type: 'schema', resource_id: uri, reason: 'built_in' },
      },
    )
  }
  if (!(await ledger.schemas.delete(uri))) throw notFound('schema', uri)
}

function isSame(existing: SchemaRecord, request: RegisterRequest): boolean {
  return (
    existing.type === request.type &&
    String(existing.version) === String(request.version) &&
    isDeepStrictEqual(JSON.parse(existing.content), request.schema)
  )
}

function sameOrConflict(existing: SchemaRecord, request: RegisterRequest): SchemaSummary {
  if (isSame(existing, request)) return { ...existing, version: request.version }
  const { uri, type, version } = existing
  throw new OjsError('duplicate', `Another schema is registered as '${uri}'.`, {
    details: { field: 'uri', uri, existing_type: type, existing_version: version },
  })
}

function checkUri(uri: string): void {
  const bytes = utf8Bytes(uri)
  if (bytes <= MAX_URI_BYTES) return
  throw invalidField('uri', `The 'uri' field is longer than ${MAX_URI_BYTES} bytes in UTF-8.`, {
    actual_bytes: bytes,
    max_bytes: MAX_URI_BYTES,
  })
}

function checkSize(content: string): void {
  const bytes = Buffer.byteLength(content)
  if (bytes <= MAX_SCHEMA_BYTES) return
  throw new OjsError('invalid_request', `The schema is larger than ${MAX_SCHEMA_BYTES} bytes.`, {
    status: 413,
    details: { field: 'schema', actual_bytes: bytes, max_bytes: MAX_SCHEMA_BYTES },
  })
}

function checkSchema(document: Record<string, unknown>): void {
  try {
    compileArgsSchema(document)
  } catch (error) {
    if (!(error instanceof SchemaFault)) throw error
    throw invalidField('schema', 'The provided JSON Schema is not valid draft 2020-12.', {
      schema_error: error.message,
    })
  }
}

function tooMany(): OjsError {
  return new OjsError(
    'unsupported',
    `This server keeps at most ${MAX_SCHEMAS} schemas; delete some first.`,
    {
      details: { reason: 'too_many_schemas', max_schemas: MAX_SCHEMAS },
    },
  )
}
