export const FETCH_SCHEMA = {
  type: 'object',
  required: ['queues'],
  properties: {
    queues: {
      type: 'array',
      minItems: 1,
      maxItems: 100,
      items: { type: 'string', minLength: 1, maxLength: 128 },
    },
    count: { type: ['integer', 'null'] },
    worker_id: { type: ['string', 'null'], minLength: 1, maxLength: 255 },
    visibility_timeout_ms: { type: ['integer', 'null'], minimum: 1, maximum: 315_360_000_000 },
    wait_ms: { type: ['integer', 'null'] },
  },
} as const

export const ACK_SCHEMA = {
  type: 'object',
  required: ['job_id'],
  properties: {
    job_id: { type: 'string', minLength: 1, maxLength: 255 },
    worker_id: { type: ['string', 'null'], minLength: 1, maxLength: 255 },
    attempt: { type: ['integer', 'null'], minimum: 1 },
  },
} as const
