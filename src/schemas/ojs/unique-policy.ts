/** Seed 003, as printed there. */
export const UNIQUE_POLICY_SCHEMA = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  $id: 'https://openjobspec.org/schemas/v1/unique-policy.schema.json',
  title: 'OJS Unique Policy',
  type: 'object',
  properties: {
    key: {
      type: 'array',
      items: {
        type: 'string',
      },
      description: 'Fields from args to include in uniqueness hash.',
    },
    period: {
      type: 'string',
      description: 'ISO 8601 duration for uniqueness window.',
    },
    on_conflict: {
      type: 'string',
      enum: ['reject', 'replace', 'ignore'],
      default: 'reject',
      description: 'Behavior when a duplicate is detected.',
    },
    states: {
      type: 'array',
      items: {
        type: 'string',
        enum: ['scheduled', 'available', 'pending', 'active', 'retryable'],
      },
      description: 'States to consider when checking uniqueness.',
    },
  },
  additionalProperties: false,
} as const
