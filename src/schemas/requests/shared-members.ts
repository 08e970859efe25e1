/** Schemas of members that several requests share: ids, leases, errors. */
import { MAX_DURATION_MS } from '../../job/values/duration.ts'

// Schemas of members that several requests share.

/**
 * SQLite's drivers end a text at its first NUL and write half a surrogate pair as U+FFFD. Two ids that differ
 * only there would become one, and neither would be read back as it was.
 */
export const storable = '^[^\\u0000\\p{Cs}]*$'

export const id = { type: 'string', minLength: 1, maxLength: 255, pattern: storable } as const
export const label = { type: ['string', 'null'], maxLength: 255 } as const
export const count = { type: ['integer', 'null'], minimum: 0 } as const
export const leaseMs = { type: ['integer', 'null'], minimum: 1, maximum: MAX_DURATION_MS } as const
/** The same in seconds, or as a duration. */
export const lease = {
  type: ['integer', 'string', 'null'],
  minimum: 1,
  maximum: MAX_DURATION_MS / 1000,
} as const
export const queueName = { type: 'string', minLength: 1, maxLength: 128 } as const

/** The member is present and a string; an explicit null counts as absent. */
function hasText(member: 'code' | 'type') {
  return { required: [member], properties: { [member]: { type: 'string' } } }
}

// The texts have no upper bound here, and the message may be empty, as that of `new Error()` is: if a failure
// report were refused for its message, its job would wait for the end of its lease. `job/retry/failure.ts` cuts
// what is kept, and the body has a limit of its own.
export const nackError = {
  title: 'ReportedError',
  type: 'object',
  required: ['message'],
  properties: {
    message: { type: 'string' },
    code: { type: ['string', 'null'], minLength: 1 },
    type: { type: ['string', 'null'], minLength: 1 },
    retryable: { type: ['boolean', 'null'] },
    details: { type: ['object', 'null'] },
    backtrace: {},
  },
  anyOf: [hasText('code'), hasText('type')],
}

/** Stands for every worker in a directive, so that none may be called so. */
export const ALL_WORKERS = '*'

/** The most jobs in a heartbeat or a settle request, and events in a report. */
export const MAX_IDS = 1000
