/** Of `/admin/rabbitmq`. */
import type { Description } from '../description.ts'
import { ADMIN_PAGE, PAGINATION } from '../members.ts'
import {
  BOOLEAN,
  entity,
  INSTANT,
  INTEGER,
  list,
  MAP,
  object,
  oneOf,
  type Schema,
  TEXT,
  TRUE,
  told,
} from '../schema.ts'

/** The first 500, and how many there are. */
const some = (items: Schema) =>
  told('Absent: RabbitMQ does not tell.', object({ items: list(items), total: INTEGER }))

const NODE = entity('RabbitmqNode', {
  name: TEXT,
  running: BOOLEAN,
  'memory_used?': INTEGER,
  'memory_limit?': INTEGER,
  memory_alarm: BOOLEAN,
  'disk_free?': INTEGER,
  'disk_limit?': INTEGER,
  disk_alarm: BOOLEAN,
  'uptime_ms?': INTEGER,
})

const CONNECTION = entity('RabbitmqConnection', {
  name: TEXT,
  'user?': TEXT,
  'peer?': TEXT,
  'state?': TEXT,
  'channels?': INTEGER,
  'product?': told('Of its client library.'),
  'connected_at?': INSTANT,
})

const CHANNEL = entity('RabbitmqChannel', {
  name: TEXT,
  'user?': TEXT,
  'state?': TEXT,
  'consumers?': INTEGER,
  'unacknowledged?': INTEGER,
  'unconfirmed?': INTEGER,
  'prefetch?': INTEGER,
})

const POLICY = entity('RabbitmqPolicy', {
  name: TEXT,
  pattern: TEXT,
  applies_to: TEXT,
  definition: MAP,
  priority: INTEGER,
})

export const GET_RABBITMQ: Description = {
  id: 'getRabbitmq',
  tag: 'admin',
  summary: 'Read how RabbitMQ is: versions, alarms, connections, channels, policies',
  description:
    'What the gateway knows itself; with `OJS_MANAGEMENT_URL` also what RabbitMQ’s management API tells its user. At most some seconds old.',
  answers: {
    200: entity('Rabbitmq', {
      status: oneOf(['up', 'down', 'blocked', 'foreign']),
      'reason?': TEXT,
      virtual_host: TEXT,
      version: told('Empty while there is no connection.'),
      gateway_connections: list(
        object({
          name: TEXT,
          up: BOOLEAN,
          channels: INTEGER,
          'reason?': told('Why it is down or blocked.'),
        }),
      ),
      management: oneOf(['connected', 'not_configured', 'denied', 'unavailable']),
      'management_error?': TEXT,
      'cluster_name?': TEXT,
      'erlang_version?': TEXT,
      'nodes?': some(NODE),
      'connections?': some(CONNECTION),
      'channels?': some(CHANNEL),
      'policies?': some(POLICY),
      warnings: list(object({ code: TEXT, message: TEXT, 'details?': MAP })),
    }),
  },
}

export const LIST_RABBITMQ_QUEUES: Description = {
  id: 'listRabbitmqQueues',
  tag: 'admin',
  summary:
    'List RabbitMQ’s queues with their arguments, beside those that the gateway would give them',
  description:
    'With `OJS_MANAGEMENT_URL` all of the virtual host, else those that the gateway would declare. By name; an `offset` counts as the begin of its page.',
  query: { limit: ADMIN_PAGE.limit, offset: ADMIN_PAGE.offset },
  answers: {
    200: object({
      items: list(
        entity('RabbitmqQueue', {
          name: TEXT,
          use: oneOf(['job', 'dead_letters', 'control', 'retry', 'system', 'other']),
          'queue?': told('The OJS queue that it belongs to.'),
          'type?': TEXT,
          'ready?': INTEGER,
          'unacknowledged?': INTEGER,
          'consumers?': INTEGER,
          'policy?': TEXT,
          'node?': TEXT,
          'state?': TEXT,
          exists: told('False: the gateway would declare it, and it is not there.', BOOLEAN),
          'arguments?': told('As RabbitMQ has them.', MAP),
          'expected?': told('As the gateway would declare them; absent: it would not.', MAP),
          differing: told('The names of the arguments that differ.', list(TEXT)),
        }),
      ),
      pagination: PAGINATION,
    }),
  },
}

export const GET_JOB_MESSAGE: Description = {
  id: 'getJobMessage',
  tag: 'admin',
  summary: 'Read the AMQP message of a job’s next attempt, or of a dead letter’s copy',
  description: 'As the gateway would publish it now. Nothing is published.',
  answers: {
    200: entity('JobMessage', {
      exchange: TEXT,
      routing_key: TEXT,
      properties: MAP,
      headers: told('Without payload, those of OJS only.', MAP),
      bytes: told('Size of the body.', INTEGER),
      'body?': told('Its text.'),
      'payload_withheld?': told('The key may not read payloads.', TRUE),
    }),
  },
}
