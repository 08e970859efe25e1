/** The error of every answer that is none, and what each status means. */
import { ERROR_CODE_NAMES } from '../../errors.ts'
import { ERROR_SCHEMA } from '../../schemas/ojs/error.ts'
import { entity, object, oneOf, TEXT } from './schema.ts'

const PROPERTIES = ERROR_SCHEMA.properties

/** What is wrong, in the gateway's words (seed 001 §16). */
export const ERROR_MEMBERS = object({
  code: oneOf(ERROR_CODE_NAMES),
  message: PROPERTIES.message,
  retryable: PROPERTIES.retryable,
  request_id: PROPERTIES.request_id,
  'details?': { ...PROPERTIES.details, additionalProperties: true },
  'type?': TEXT,
  'hint?': TEXT,
  'docs_url?': TEXT,
})

/** OJS's error. */
export const ERROR = entity('Error', { error: ERROR_MEMBERS })

/** Errors by status: the name of the component, and when a client gets it. */
export const ERRORS = {
  400: ['BadRequest', 'The request is malformed; `details.field` names the member.'],
  401: ['Unauthenticated', 'The API key is missing or not known.'],
  403: ['Forbidden', 'This API key, or this web page, may not do it.'],
  404: ['NotFound', 'There is no such resource.'],
  408: ['TimedOut', 'What was waited for did not happen in time.'],
  409: ['Conflict', 'The state of the resource forbids it, or another one has the identity.'],
  410: ['Gone', 'It was there, and is not kept any more.'],
  413: ['TooLarge', 'The body is too large, or has too many values.'],
  415: ['UnsupportedMediaType', 'The body is not JSON, or in an unknown coding.'],
  422: ['Unprocessable', 'The request is well-formed, and cannot be carried out.'],
  429: ['TooManyRequests', 'A limit is reached: try again after `Retry-After` seconds.'],
  503: ['Unavailable', 'RabbitMQ or the ledger cannot take it now: try again after `Retry-After`.'],
} as const satisfies Record<number, readonly [name: string, meaning: string]>

export type ErrorStatus = keyof typeof ERRORS
