/** What a route says of itself, for the OpenAPI document. */
import type { ErrorStatus } from './errors.ts'
import type { Schema } from './schema.ts'

/** The groups of endpoints, in the order in which readers see them. */
export const TAGS = [
  'jobs',
  'workers',
  'queues',
  'dead letters',
  'cron',
  'workflows',
  'schemas',
  'events',
  'admin',
  'system',
] as const

export interface Description {
  /** Its `operationId`: what a client generator names the function. */
  id: string
  tag: (typeof TAGS)[number]
  /** Half a line. */
  summary: string
  /** More, where the summary is not enough. Markdown. */
  description?: string
  /** Query parameters by name; their schemas' `description` is the parameter's. */
  query?: Readonly<Record<string, Schema>>
  /** The body: the very schema that the validator compiles. */
  body?: Schema
  /** The body may be missing. */
  isBodyOptional?: true
  /** It honors an `Idempotency-Key` header. */
  isIdempotent?: true
  /** The body of each answer by its status; null: none. `contentMediaType` where it is not OJS's JSON. */
  answers: Readonly<Record<number, Schema | null>>
  /** Errors that only this endpoint has; those that come with a body, a key or a path are added to them. */
  errors?: readonly ErrorStatus[]
  /** It will go, and what to use instead is in `description`. */
  isDeprecated?: true
}

/** The same under one of several paths, the first of which is the one to use. */
export function under(path: string, paths: readonly string[], about: Description): Description {
  const place = paths.indexOf(path)
  if (place === 0) return about
  const description = `The same as \`${paths[0]}\`.`
  return { ...about, id: `${about.id}${place + 1}`, description }
}
