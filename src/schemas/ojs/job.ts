/** Seed 003, as printed there. */
export const JOB_SCHEMA = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  $id: 'https://openjobspec.org/schemas/v1/job.schema.json',
  title: 'OJS Job Envelope',
  description: 'An Open Job Spec job envelope in JSON wire format.',
  type: 'object',
  required: ['specversion', 'id', 'type', 'queue', 'args'],
  properties: {
    specversion: {
      type: 'string',
      const: '1.0',
      description: 'OJS specification version.',
    },
    id: {
      type: 'string',
      pattern: '^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$',
      description: 'UUIDv7 job identifier.',
    },
    type: {
      type: 'string',
      minLength: 1,
      pattern: '^[a-zA-Z][a-zA-Z0-9_]*(\\.[a-zA-Z][a-zA-Z0-9_]*)*$',
      description: 'Dot-namespaced job type.',
    },
    queue: {
      type: 'string',
      pattern: '^[a-z0-9][a-z0-9\\-\\.]*$',
      description: 'Target queue name.',
    },
    args: {
      type: 'array',
      description: 'Positional arguments. JSON-native types only.',
    },
    meta: {
      type: 'object',
      description: 'Extensible key-value metadata.',
      additionalProperties: true,
    },
    priority: {
      type: 'integer',
      description: 'Job priority. Higher = higher priority.',
    },
    timeout: {
      type: 'integer',
      minimum: 1,
      description: 'Max execution time in seconds.',
    },
    scheduled_at: {
      type: 'string',
      format: 'date-time',
      description: 'Earliest execution time (RFC 3339).',
    },
    expires_at: {
      type: 'string',
      format: 'date-time',
      description: 'Expiration deadline (RFC 3339).',
    },
    retry: {
      $ref: 'https://openjobspec.org/schemas/v1/retry-policy.schema.json',
    },
    unique: {
      $ref: 'https://openjobspec.org/schemas/v1/unique-policy.schema.json',
    },
    visibility_timeout: {
      type: 'integer',
      minimum: 1,
      description: 'Reservation period in seconds.',
    },
  },
  additionalProperties: true,
} as const
