/** The body of a sign-in: an API key. */
import { parser } from './validator.ts'

export interface SessionRequest {
  key: string
}

/** A key of ours has 47 characters. */
export const SESSION_SCHEMA = {
  type: 'object',
  additionalProperties: false,
  required: ['key'],
  properties: { key: { type: 'string', minLength: 1, maxLength: 200 } },
} as const

export const parseSession = parser<SessionRequest>(SESSION_SCHEMA)
