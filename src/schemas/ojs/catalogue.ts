import { BATCH_REQUEST_SCHEMA } from './batch-request.ts'
import { ERROR_SCHEMA } from './error.ts'
import { EVENT_SCHEMA } from './event.ts'
import { JOB_SCHEMA } from './job.ts'
import { RETRY_POLICY_SCHEMA } from './retry-policy.ts'
import { UNIQUE_POLICY_SCHEMA } from './unique-policy.ts'

interface OjsSchema {
  uri: string
  type: string
  version: number
  /** JSON text. */
  content: string
  createdAt: number
}

/** The documents have no date of their own, so they get this fixed one. */
const CREATED_AT = Date.UTC(2026, 0, 1)

/**
 * The six schemas of OJS itself (seed 003), in its order. They describe documents and not `args`, so the args
 * of a job that names one are not validated.
 */
export const OJS_SCHEMAS: readonly OjsSchema[] = [
  entry('ojs.job', JOB_SCHEMA),
  entry('ojs.retry_policy', RETRY_POLICY_SCHEMA),
  entry('ojs.unique_policy', UNIQUE_POLICY_SCHEMA),
  entry('ojs.error', ERROR_SCHEMA),
  entry('ojs.event', EVENT_SCHEMA),
  entry('ojs.batch_request', BATCH_REQUEST_SCHEMA),
]

export function ojsSchema(uri: string): OjsSchema | null {
  return OJS_SCHEMAS.find((schema) => schema.uri === uri) ?? null
}

function entry(type: string, schema: { readonly $id: string }): OjsSchema {
  const content = JSON.stringify(schema)
  return { uri: schema.$id, type, version: 1, content, createdAt: CREATED_AT }
}
