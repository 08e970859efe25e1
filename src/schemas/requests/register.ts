/** The schema of `POST /schemas`. */
import { jobType } from './push.ts'
import { storable } from './shared-members.ts'
import { parser } from './validator.ts'

/** POST /schemas (seed 001 §15.2). */
export interface RegisterRequest {
  uri: string
  type: string
  version: number | string
  schema: Record<string, unknown>
}

export const REGISTER_SCHEMA = {
  title: 'RegisterSchemaRequest',
  type: 'object',
  required: ['uri', 'type', 'version', 'schema'],
  properties: {
    // RFC 3986: a scheme, and no character that has to be encoded. The length limit is that of a job's
    // `schema`.
    uri: {
      type: 'string',
      minLength: 1,
      maxLength: 2048,
      pattern: '^[a-zA-Z][a-zA-Z0-9+.-]*:[^\\s\\p{Cs}\\u0000-\\u0020<>"{}|\\\\^`]+$',
    },
    type: jobType,
    version: {
      type: ['integer', 'string'],
      minimum: 1,
      maximum: Number.MAX_SAFE_INTEGER,
      minLength: 1,
      maxLength: 255,
      pattern: storable,
    },
    schema: { type: 'object' },
  },
}

export const parseRegister = parser<RegisterRequest>(REGISTER_SCHEMA)
