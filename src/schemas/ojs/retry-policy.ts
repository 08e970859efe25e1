/** Seed 003, as printed there. */
export const RETRY_POLICY_SCHEMA = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  $id: 'https://openjobspec.org/schemas/v1/retry-policy.schema.json',
  title: 'OJS Retry Policy',
  type: 'object',
  properties: {
    max_attempts: {
      type: 'integer',
      minimum: 0,
      default: 3,
      description: 'Total attempts including initial execution.',
    },
    initial_interval: {
      type: 'string',
      default: 'PT1S',
      description: 'ISO 8601 duration before first retry.',
    },
    backoff_coefficient: {
      type: 'number',
      minimum: 1,
      default: 2,
      description: 'Multiplier for successive retry delays.',
    },
    max_interval: {
      type: 'string',
      default: 'PT5M',
      description: 'ISO 8601 duration cap on retry delay.',
    },
    jitter: {
      type: 'boolean',
      default: true,
      description: 'Add randomness to prevent thundering herd.',
    },
    non_retryable_errors: {
      type: 'array',
      items: {
        type: 'string',
      },
      default: [],
      description: 'Error types that skip retry entirely.',
    },
    on_exhaustion: {
      type: 'string',
      enum: ['discard', 'dead_letter'],
      default: 'discard',
      description: 'Action when all attempts are exhausted.',
    },
  },
  additionalProperties: false,
} as const
