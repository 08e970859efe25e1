const milliseconds = { type: 'integer', minimum: 1 } as const
const instant = { type: 'string', format: 'date-time' } as const

/** Named by seed 003, which does not print it: written from seed 001 §9.1 and §9.2. */
export const BATCH_REQUEST_SCHEMA = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  $id: 'https://openjobspec.org/schemas/v1/batch-request.schema.json',
  title: 'OJS Batch Request',
  description: 'The body of POST /ojs/v1/jobs/batch: all of the jobs are enqueued, or none.',
  type: 'object',
  required: ['jobs'],
  properties: {
    jobs: {
      type: 'array',
      minItems: 1,
      maxItems: 1000,
      items: { $ref: '#/$defs/job' },
    },
  },
  additionalProperties: true,
  $defs: {
    job: {
      type: 'object',
      required: ['type', 'args'],
      properties: {
        type: {
          type: 'string',
          minLength: 1,
          pattern: '^[a-zA-Z][a-zA-Z0-9_]*(\\.[a-zA-Z][a-zA-Z0-9_]*)*$',
          description: 'Dot-namespaced job type.',
        },
        args: {
          type: 'array',
          description: 'Positional arguments. JSON-native types only.',
        },
        meta: { type: 'object', description: 'Extensible key-value metadata.' },
        schema: { type: 'string', description: 'URI of a registered schema for args.' },
        options: { $ref: '#/$defs/options' },
      },
      additionalProperties: true,
    },
    options: {
      type: 'object',
      properties: {
        queue: { type: 'string', pattern: '^[a-z0-9][a-z0-9\\-\\.]*$', default: 'default' },
        priority: { type: 'integer', default: 0 },
        timeout_ms: { type: 'integer', minimum: 0, default: 30000 },
        delay_until: instant,
        expires_at: instant,
        retry: {
          type: 'object',
          description: 'A retry policy; intervals also in milliseconds.',
        },
        unique: { $ref: 'https://openjobspec.org/schemas/v1/unique-policy.schema.json' },
        tags: { type: 'array', items: { type: 'string' }, default: [] },
        visibility_timeout_ms: { ...milliseconds, default: 30000 },
        pending: { type: 'boolean', default: false },
      },
      additionalProperties: true,
    },
  },
} as const
