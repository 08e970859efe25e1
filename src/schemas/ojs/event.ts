/** Named by seed 003, which does not print it: written from OJS events. */
export const EVENT_SCHEMA = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  $id: 'https://openjobspec.org/schemas/v1/event.schema.json',
  title: 'OJS Event',
  description: 'Something that has happened to a job, a queue, a worker or a workflow.',
  type: 'object',
  required: ['specversion', 'id', 'type', 'source', 'time', 'subject', 'data'],
  properties: {
    specversion: { type: 'string', const: '1.0', description: 'OJS specification version.' },
    id: {
      type: 'string',
      pattern: '^evt_[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$',
      description: 'Event identifier: evt_ and a UUIDv7.',
    },
    type: {
      type: 'string',
      pattern: '^[a-z][a-z0-9_]*(\\.[a-z][a-z0-9_]*)+$',
      description: 'Event type, e.g. job.completed.',
    },
    source: {
      type: 'string',
      pattern: '^ojs://',
      description: 'Emitter of the event: ojs://{service}/{component}/{instance}.',
    },
    time: {
      type: 'string',
      format: 'date-time',
      description: 'Time of the event (RFC 3339).',
    },
    subject: {
      type: 'string',
      minLength: 1,
      description: 'Id or name of the job, queue, worker, workflow or cron job concerned.',
    },
    datacontenttype: { type: 'string', description: 'Media type of data.' },
    data: { type: 'object', description: 'Facts about the event; the members depend on its type.' },
  },
  additionalProperties: true,
} as const
