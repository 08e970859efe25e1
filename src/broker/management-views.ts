/** What the management API tells of a server, in the words of `monitoring/inspection.ts`. */
import { messageOf } from '../errors.ts'
import {
  type Answer,
  type Body,
  isObject,
  MAX_QUOTED,
  type ManagementApi,
} from './management-api.ts'
import type {
  ChannelView,
  ConnectionView,
  Listed,
  ManagementState,
  NodeView,
  PolicyView,
  ServerDetails,
} from './monitoring/inspection.ts'

/** Most connections, channels and policies that are shown: the largest page that RabbitMQ gives. */
const MAX_LISTED = 500
/** Longest text that is taken over: clients choose names. */
const MAX_TEXT = 512

const NODE =
  'name,running,mem_used,mem_limit,mem_alarm,disk_free,disk_free_limit,disk_free_alarm,uptime'
const CONNECTION =
  'name,user,user_provided_name,peer_host,peer_port,state,channels,connected_at,client_properties.product,client_properties.version,client_properties.connection_name'
const CHANNEL =
  'name,user,state,consumer_count,messages_unacknowledged,messages_unconfirmed,prefetch_count'

/** Everything but the queues. `details` is null if the API does not answer, or not this user. */
export async function askServer(
  api: ManagementApi,
): Promise<{ management: ManagementState; details: ServerDetails | null }> {
  if (!api.isConfigured) return { management: { state: 'not-configured' }, details: null }
  try {
    const overview = await api.ask('GET', 'overview?columns=cluster_name,erlang_version')
    const management = stateOf(overview)
    if (management.state !== 'connected') return { management, details: null }
    return { management, details: await detailsOf(api, overview.body) }
  } catch (error) {
    return { management: unavailable(error), details: null }
  }
}

async function detailsOf(api: ManagementApi, overview: Body): Promise<ServerDetails> {
  const page = `page=1&page_size=${MAX_LISTED}`
  const of = `vhosts/${api.virtualHost}`
  const [nodes, connections, channels, policies] = await Promise.all([
    api.ask('GET', `nodes?columns=${NODE}`),
    api.ask('GET', `${of}/connections?${page}&columns=${CONNECTION}`),
    api.ask('GET', `${of}/channels?${page}&columns=${CHANNEL}`),
    api.ask('GET', `policies/${api.virtualHost}`),
  ])
  return {
    clusterName: textIn(overview, 'cluster_name'),
    erlangVersion: textIn(overview, 'erlang_version'),
    nodes: listed(nodes, nodeOf),
    connections: listed(connections, connectionOf),
    channels: listed(channels, channelOf),
    policies: listed(policies, policyOf),
  }
}

function stateOf({ status, body }: Answer): ManagementState {
  if (status === 200) return { state: 'connected' }
  if (status === 401 || status === 403) return { state: 'denied' }
  const message = `${status} ${String(body['reason'] ?? '')}`.trim().slice(0, MAX_QUOTED)
  return { state: 'unavailable', message }
}

function unavailable(error: unknown): ManagementState {
  return { state: 'unavailable', message: messageOf(error).slice(0, MAX_QUOTED) }
}

/** RabbitMQ answers with a page (`items`) or, also to some requests for a page, with a whole list. */
export function listed<T>({ status, body, list }: Answer, view: (item: Body) => T): Listed<T> {
  if (status !== 200) return null
  const items = Array.isArray(body['items']) ? body['items'].filter(isObject) : list
  const total = numberIn(body, 'filtered_count') ?? items.length
  return { items: items.slice(0, MAX_LISTED).map(view), total }
}

function nodeOf(node: Body): NodeView {
  return {
    name: textIn(node, 'name') ?? '',
    isRunning: node['running'] === true,
    memoryUsed: numberIn(node, 'mem_used'),
    memoryLimit: numberIn(node, 'mem_limit'),
    hasMemoryAlarm: node['mem_alarm'] === true,
    diskFree: numberIn(node, 'disk_free'),
    diskLimit: numberIn(node, 'disk_free_limit'),
    hasDiskAlarm: node['disk_free_alarm'] === true,
    uptimeMs: numberIn(node, 'uptime'),
  }
}

function connectionOf(connection: Body): ConnectionView {
  const client = isObject(connection['client_properties']) ? connection['client_properties'] : {}
  const given = textIn(connection, 'user_provided_name') ?? textIn(client, 'connection_name')
  const host = textIn(connection, 'peer_host')
  const product = [textIn(client, 'product'), textIn(client, 'version')].filter(Boolean).join(' ')
  return {
    name: given ?? textIn(connection, 'name') ?? '',
    user: textIn(connection, 'user'),
    peer: host && `${host}:${numberIn(connection, 'peer_port')}`,
    state: textIn(connection, 'state'),
    channels: numberIn(connection, 'channels'),
    product: product || null,
    connectedAt: numberIn(connection, 'connected_at'),
  }
}

function channelOf(channel: Body): ChannelView {
  return {
    name: textIn(channel, 'name') ?? '',
    user: textIn(channel, 'user'),
    state: textIn(channel, 'state'),
    consumers: numberIn(channel, 'consumer_count'),
    unacknowledged: numberIn(channel, 'messages_unacknowledged'),
    unconfirmed: numberIn(channel, 'messages_unconfirmed'),
    prefetch: numberIn(channel, 'prefetch_count'),
  }
}

function policyOf(policy: Body): PolicyView {
  return {
    name: textIn(policy, 'name') ?? '',
    pattern: textIn(policy, 'pattern') ?? '',
    appliesTo: textIn(policy, 'apply-to') ?? '',
    definition: isObject(policy['definition']) ? policy['definition'] : {},
    priority: numberIn(policy, 'priority') ?? 0,
  }
}

export function textIn(body: Body, member: string): string | null {
  const value = body[member]
  return typeof value === 'string' && value !== '' ? value.slice(0, MAX_TEXT) : null
}

export function numberIn(body: Body, member: string): number | null {
  const value = body[member]
  return typeof value === 'number' && Number.isFinite(value) ? value : null
}
