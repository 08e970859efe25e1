/** The bodies of the admin API; unlike elsewhere, a member that nobody knows is refused. */
import { parser } from './validator.ts'

/** A misspelt member of these may mean that far more is changed than was wanted. */
const strict = { type: 'object', additionalProperties: false } as const

export interface DirectiveRequest {
  directive: 'quiet' | 'resume' | 'terminate'
}

const DIRECTIVE_SCHEMA = {
  ...strict,
  required: ['directive'],
  properties: { directive: { enum: ['quiet', 'resume', 'terminate'] } },
} as const

export const parseDirective = parser<DirectiveRequest>(DIRECTIVE_SCHEMA)
