/** Seed 003, as printed there. */
export const ERROR_SCHEMA = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  $id: 'https://openjobspec.org/schemas/v1/error.schema.json',
  title: 'OJS Error',
  type: 'object',
  required: ['code', 'message', 'retryable'],
  properties: {
    code: {
      type: 'string',
      description: 'Machine-readable error code.',
    },
    message: {
      type: 'string',
      description: 'Human-readable error description.',
    },
    retryable: {
      type: 'boolean',
      description: 'Whether the client should retry.',
    },
    details: {
      type: 'object',
      description: 'Additional structured error information.',
    },
    request_id: {
      type: 'string',
      description: 'Correlation ID for the failed request.',
    },
  },
} as const
