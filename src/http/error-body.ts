import type { OjsError } from '../errors.ts'

const DOCS_URL = 'https://openjobspec.org/schemas/v1/error.schema.json'

/**
 * The error body of seed 001 §16.1. `type`, `hint` and `docs_url` are additions that the public
 * suite reads (conformance.md S10, S11).
 */
export function errorBody(error: OjsError, requestId: string): string {
  return JSON.stringify({
    error: {
      code: error.code,
      type: error.type,
      message: error.message,
      retryable: error.retryable,
      details: error.details,
      ...(error.status === 404 && { hint: hintFor(error), docs_url: DOCS_URL }),
      request_id: requestId,
    },
  })
}

/** The headers that belong to an error: `Retry-After`, on every 429 and 503 (seed 001 §18.2). */
export function errorHeaders(error: OjsError): string[] {
  const isTemporary = error.status === 429 || error.status === 503
  const seconds = error.retryAfterSeconds ?? (isTemporary ? 1 : undefined)
  return seconds === undefined ? [] : ['Retry-After', String(seconds)]
}

const HINTS: Readonly<Record<string, string>> = {
  job: 'Check the id, and that this gateway is the one that took the job.',
  queue: 'Check the name. Queues come into being with their first job or by configuration.',
  route: 'Check method and path; paths are case-sensitive and end without a slash.',
}

function hintFor(error: OjsError): string {
  const type = error.details?.['resource_type']
  return (typeof type === 'string' && HINTS[type]) || 'Check the identifier.'
}
