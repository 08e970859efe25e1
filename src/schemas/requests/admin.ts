/** The bodies of the admin API; unlike elsewhere, a member that nobody knows is refused. */
import { storable } from './shared-members.ts'
import { parser } from './validator.ts'

/** A misspelt member of these may mean that far more is changed than was wanted. */
const strict = { type: 'object', additionalProperties: false } as const

export interface DirectiveRequest {
  directive: 'quiet' | 'resume' | 'terminate'
}

export const DIRECTIVE_SCHEMA = {
  ...strict,
  required: ['directive'],
  properties: { directive: { enum: ['quiet', 'resume', 'terminate'] } },
} as const

export interface MaintenanceRequest {
  enabled: boolean
  reason?: string | null
  /** Seconds, or a duration; for both names. */
  estimated_duration?: number | string | null
  duration?: number | string | null
}

const duration = { type: ['integer', 'string', 'null'], minimum: 0 } as const

export const MAINTENANCE_SCHEMA = {
  ...strict,
  required: ['enabled'],
  properties: {
    enabled: { type: 'boolean' },
    reason: { type: ['string', 'null'], maxLength: 1_000, pattern: storable },
    estimated_duration: duration,
    duration,
  },
} as const

export const parseMaintenance = parser<MaintenanceRequest>(MAINTENANCE_SCHEMA)
export const parseDirective = parser<DirectiveRequest>(DIRECTIVE_SCHEMA)
