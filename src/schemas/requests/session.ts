/** The body of a sign-in: an API key, or what a provider has led back with. */
import { parser } from './validator.ts'

export type SessionRequest = { key: string } | { callback: string }

/** A key of ours has 47 characters; codes of providers have up to some thousand. */
export const SESSION_SCHEMA = {
  title: 'SessionRequest',
  type: 'object',
  additionalProperties: false,
  minProperties: 1,
  maxProperties: 1,
  properties: {
    key: { type: 'string', minLength: 1, maxLength: 200 },
    callback: {
      type: 'string',
      minLength: 1,
      maxLength: 8_000,
      description:
        'The query that the OpenID Connect provider added to the address of the console.',
    },
  },
} as const

export const parseSession = parser<SessionRequest>(SESSION_SCHEMA)
