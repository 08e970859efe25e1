/** Makes parsers from our request schemas; a refusal names the field (seed 001 §9.1). */
import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js'
import { echoed, invalidField, OjsError } from '../../errors.ts'
import { refuseMisplaced, refuseTwins, twinsOf } from '../../job/members.ts'
import { withExtras } from '../../job/policy-extras.ts'
import type {
  AckRequest,
  BatchRequest,
  CronRequest,
  FetchRequest,
  HeartbeatRequest,
  NackRequest,
  PushRequest,
  SettleItem,
  SettleRequest,
  TriggerRequest,
} from '../../job/request.ts'
import { jsonTypeName } from '../../job/values/json-value.ts'
import { fieldOf } from '../json/field-path.ts'
import { CRON_SCHEMA, TRIGGER_SCHEMA } from './cron.ts'
import { BATCH_SCHEMA, PUSH_SCHEMA } from './push.ts'
import { ALL_WORKERS } from './shared-members.ts'
import {
  ACK_SCHEMA,
  FETCH_SCHEMA,
  HEARTBEAT_SCHEMA,
  NACK_SCHEMA,
  SETTLE_ITEM_SCHEMA,
  SETTLE_SCHEMA,
} from './workers.ts'

// `allErrors` stays off: the client gets the first error only, and a hostile body cannot make the validator
// collect a million of them. Our own schemas are not validated at run time: compiling the meta-schema for
// that would take a fifth of the gateway's start.
const ajv = new Ajv2020({
  strict: true,
  allowUnionTypes: true,
  verbose: true,
  meta: false,
  validateSchema: false,
})

const parseWhole = parser<PushRequest>(PUSH_SCHEMA)
/** Parses the body of a job message, whoever wrote it. */
export const parseJobMessage = (body: unknown): PushRequest => parseWhole(withExtras(body))
/** Also parses a job's own document. Refuses settings that would have no effect. */
export const parsePush = (body: unknown): PushRequest => {
  const request = parseJobMessage(body)
  refuseMisplaced(request)
  return request
}
export const parseBatch = parser<BatchRequest>(BATCH_SCHEMA)
export const parseCron = parser<CronRequest>(CRON_SCHEMA)
export const parseTrigger = parser<TriggerRequest>(TRIGGER_SCHEMA)
export const parseFetch = ofWorker(workersParser<FetchRequest>(FETCH_SCHEMA))
export const parseAck = workersParser<AckRequest>(ACK_SCHEMA)
export const parseNack = workersParser<NackRequest>(NACK_SCHEMA)
export const parseSettle = workersParser<SettleRequest>(SETTLE_SCHEMA)
export const parseSettleItem = parser<SettleItem>(SETTLE_ITEM_SCHEMA)
export const parseHeartbeat = ofWorker(workersParser<HeartbeatRequest>(HEARTBEAT_SCHEMA))

/**
 * Makes a function that returns its argument typed, or throws `OjsError` 400 with the name of the field. The
 * schema is compiled at the first call, since most processes need few of them.
 */
export function parser<T>(schema: object): (body: unknown) => T {
  let validate: ValidateFunction<T> | undefined
  return (body) => {
    validate ??= ajv.compile<T>(schema)
    if (validate(body)) return body
    throw explain(validate.errors?.[0])
  }
}

/** As `parser`, for the requests of workers: also refuses members in camelCase, which would be ignored. */
export function workersParser<T>(schema: { properties: object }): (body: unknown) => T {
  const parse = parser<T>(schema)
  const twins = twinsOf(Object.keys(schema.properties))
  return (body) => {
    refuseTwins(body, twins)
    return parse(body)
  }
}

/** Refuses the name of all workers (`ALL_WORKERS`): a directive to one that is called so would be one to all. */
export function ofWorker<T extends { worker_id?: string | null }>(
  parse: (body: unknown) => T,
): (body: unknown) => T {
  return (body) => {
    const request = parse(body)
    if (request.worker_id !== ALL_WORKERS) return request
    const message = `The 'worker_id' field must not be '${ALL_WORKERS}', which means all workers.`
    throw invalidField('worker_id', message, { received: ALL_WORKERS })
  }
}

/** Makes a function that checks its argument, for parts that are skipped when they are invalid. */
export function checker<T>(schema: object): (value: unknown) => value is T {
  let validate: ValidateFunction<T> | undefined
  return (value) => {
    validate ??= ajv.compile<T>(schema)
    return validate(value)
  }
}

/**
 * Converts Ajv's first error to the seed's error (seed 001 §9.1: field, expected, received). For `anyOf`,
 * Ajv's first error is that of the first branch.
 */
function explain(error: ErrorObject | undefined): OjsError {
  if (!error) return new OjsError('invalid_request', 'The request is not valid.')
  const at = fieldOf(error.instancePath)
  if (error.keyword === 'required' || error.keyword === 'additionalProperties') {
    return aboutMember(error, at)
  }
  const field = at || 'body'
  const received: unknown = error.data
  if (error.keyword === 'type') {
    const expected = expectedType(error)
    return invalidField(field, `The '${field}' field must be ${withArticle(expected)}.`, {
      expected,
      received: jsonTypeName(received),
    })
  }
  const allowed = error.keyword === 'enum' ? allowedIn(error) : undefined
  const rule = allowed ? `must be one of ${allowed.join(', ')}` : (error.message ?? 'is not valid')
  return invalidField(field, `The '${field}' field ${rule}.`, {
    validation: error.keyword,
    ...(allowed && { expected: allowed }),
    ...(typeof received === 'string' && { received: echoed(received) }),
    ...(typeof received === 'number' && { received }),
  })
}

function aboutMember(error: ErrorObject, at: string): OjsError {
  const missing = error.keyword === 'required'
  const name: string = missing
    ? error.params['missingProperty']
    : error.params['additionalProperty']
  const field = at === '' ? name : `${at}.${name}`
  return missing
    ? invalidField(field, `The '${field}' field is required.`, { validation: 'required' })
    : invalidField(field, `The '${field}' field is not known.`, { validation: 'unknown' })
}

/** The allowed values, which Ajv's own message does not name. */
function allowedIn({ params }: ErrorObject): unknown[] {
  const values: unknown[] = params['allowedValues']
  return values.filter((value) => value !== null)
}

function expectedType({ params }: ErrorObject): string {
  const types: unknown = params['type']
  const list = Array.isArray(types) ? types : [types]
  return list.filter((type) => type !== 'null').join(' or ')
}

function withArticle(type: string): string {
  if (type === 'array' || type === 'object') return `a JSON ${type}`
  return /^[aeiou]/.test(type) ? `an ${type}` : `a ${type}`
}
