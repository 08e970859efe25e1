import { MAX_DURATION_MS } from '../job/duration.ts'

// Members that several requests have, each as all of them check it.

/**
 * SQLite's drivers end a text at its first NUL, and write half a surrogate pair as U+FFFD: two ids that
 * differ there would be one, and what is read back would be neither.
 */
export const storable = '^[^\\u0000\\p{Cs}]*$'

export const id = { type: 'string', minLength: 1, maxLength: 255, pattern: storable } as const
export const label = { type: ['string', 'null'], maxLength: 255 } as const
export const count = { type: ['integer', 'null'], minimum: 0 } as const
export const leaseMs = { type: ['integer', 'null'], minimum: 1, maximum: MAX_DURATION_MS } as const
export const queueName = { type: 'string', minLength: 1, maxLength: 128 } as const

/** Present and a text: an explicit null is as good as absent. */
function names(member: 'code' | 'type') {
  return { required: [member], properties: { [member]: { type: 'string' } } }
}

// The texts have no upper bound here, and the message may be empty, as that of `new Error()` is: a
// failure report that is refused for its message leaves the job waiting for its lease.
// `job/failure.ts` cuts what is kept; the body has its own limit.
export const nackError = {
  type: 'object',
  required: ['message'],
  properties: {
    message: { type: 'string' },
    code: { type: ['string', 'null'], minLength: 1 },
    type: { type: ['string', 'null'], minLength: 1 },
    retryable: { type: ['boolean', 'null'] },
    details: { type: ['object', 'null'] },
  },
  anyOf: [names('code'), names('type')],
}

/** Jobs of one heartbeat, and events of one report. */
export const MAX_IDS = 1000
