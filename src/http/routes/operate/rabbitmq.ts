/** RabbitMQ as it is: the server, its connections, its queues beside what we would declare. */
import { timestamp } from '../../../job/document.ts'
import { snakeCase } from '../../../job/values/snake-case.ts'
import {
  brokerQueues,
  jobMessage,
  type OutgoingView,
  type QueueView,
  type ServerReport,
  serverReport,
} from '../../../operations/rabbitmq.ts'
import { mayReadPayloads } from '../../access/roles.ts'
import { adminPageOf, pagination } from '../../message/page.ts'
import { answer } from '../../message/respond.ts'
import {
  GET_JOB_MESSAGE,
  GET_RABBITMQ,
  LIST_RABBITMQ_QUEUES,
} from '../../openapi/operate/rabbitmq.ts'
import { type Endpoint, pathParameter } from '../../route.ts'
import type { Door } from '../route-deps.ts'

/** RabbitMQ (not part of OJS's documents). */
export function rabbitmqRoutes({ deps }: Pick<Door, 'deps'>): Endpoint[] {
  return [
    {
      method: 'GET',
      path: '/ojs/v1/admin/rabbitmq',
      about: GET_RABBITMQ,
      access: ['operator'],
      async handle(_request, response) {
        answer(response, 200, JSON.stringify(serverDocument(await serverReport(deps))))
      },
    },
    {
      method: 'GET',
      path: '/ojs/v1/admin/rabbitmq/queues',
      about: LIST_RABBITMQ_QUEUES,
      access: ['operator'],
      async handle(request, response) {
        const page = adminPageOf(request)
        // RabbitMQ knows whole pages only.
        const offset = page.limit === 0 ? 0 : Math.floor(page.offset / page.limit) * page.limit
        const { queues, total } = await brokerQueues(deps, { limit: page.limit, offset })
        const items = queues.map(queueDocument)
        const told = pagination({ ...page, offset }, total)
        answer(response, 200, JSON.stringify({ items, pagination: told }))
      },
    },
    {
      method: 'GET',
      path: '/ojs/v1/admin/jobs/:id/message',
      about: GET_JOB_MESSAGE,
      access: ['operator', 'reader'],
      scoping: 'job',
      async handle(request, response) {
        const message = await jobMessage(deps, pathParameter(request, 'id'))
        const body = messageDocument(message, mayReadPayloads(request.admission))
        answer(response, 200, JSON.stringify(body))
      },
    },
  ]
}

/** What only some may read: the body, the text of the error, and headers that a producer chose. */
function messageDocument(message: OutgoingView, mayRead: boolean): object {
  const { exchange, routingKey, properties, headers, body, bytes } = message
  const isOpen = (name: string) => name.startsWith('x-ojs-') && name !== 'x-ojs-error-message'
  const open = Object.entries(headers).filter(([name]) => mayRead || isOpen(name))
  return {
    exchange,
    routing_key: routingKey,
    properties,
    headers: Object.fromEntries(open),
    bytes,
    ...(mayRead ? { body } : { payload_withheld: true }),
  }
}

function serverDocument(report: ServerReport): object {
  const { status, virtualHost, version, own, management, details, warnings } = report
  return {
    status: status.state,
    ...(status.state !== 'up' && { reason: status.reason }),
    virtual_host: virtualHost,
    version,
    gateway_connections: own.map(({ name, isUp, channels, reason }) => ({
      name,
      up: isUp,
      channels,
      ...(reason !== null && { reason }),
    })),
    management: management.state.replace('-', '_'),
    ...(management.state === 'unavailable' && { management_error: management.message }),
    ...(details !== null && detailMembers(details)),
    warnings,
  }
}

function detailMembers(details: NonNullable<ServerReport['details']>): object {
  const { clusterName, erlangVersion, nodes, connections, channels, policies } = details
  return {
    ...(clusterName !== null && { cluster_name: clusterName }),
    ...(erlangVersion !== null && { erlang_version: erlangVersion }),
    ...listMember('nodes', nodes, ({ isRunning, hasMemoryAlarm, hasDiskAlarm, ...node }) => ({
      ...named(node),
      running: isRunning,
      memory_alarm: hasMemoryAlarm,
      disk_alarm: hasDiskAlarm,
    })),
    ...listMember('connections', connections, ({ connectedAt, ...connection }) => ({
      ...named(connection),
      ...(connectedAt !== null && { connected_at: timestamp(connectedAt) }),
    })),
    ...listMember('channels', channels, named),
    ...listMember('policies', policies, named),
  }
}

/** Absent: the user may not read it. */
function listMember<T>(
  name: string,
  list: { items: readonly T[]; total: number } | null,
  document: (item: T) => object,
): object {
  if (list === null) return {}
  return { [name]: { items: list.items.map(document), total: list.total } }
}

/** Its members in the style of the API, without those that are unknown. */
function named(view: object): object {
  const members = Object.entries(view).filter(([, value]) => value !== null)
  return Object.fromEntries(members.map(([name, value]) => [snakeCase(name), value]))
}

function queueDocument({ differing, exists, ...view }: QueueView): object {
  return { ...named(view), exists, differing }
}
