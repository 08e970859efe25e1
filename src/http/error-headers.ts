import type { OjsError } from '../errors.ts'

/** The headers that belong to an error: `Retry-After`, on every 429 and 503 (seed 001 §18.2). */
export function errorHeaders(error: OjsError): string[] {
  const isTemporary = error.status === 429 || error.status === 503
  const seconds = error.retryAfterSeconds ?? (isTemporary ? 1 : undefined)
  return seconds === undefined ? [] : ['Retry-After', String(seconds)]
}
