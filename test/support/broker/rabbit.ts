import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { managementRequest } from '../../../scripts/broker/management-api.mjs'
import type { PrivateBrokerOptions } from '../../../scripts/broker/node-settings.mjs'
import { PrivateBroker } from '../../../scripts/broker/private-broker.mjs'
import { findRabbitmqSbin } from '../../../scripts/broker/rabbitmq-package.mjs'
import { removeFolder } from '../../../scripts/process/remove-folder.mjs'
import { testVariables } from '../../../scripts/test/environment.mjs'
import { forAll } from '../time/late.ts'

/** Whether the installed RabbitMQ has this version or a later one. */
export function isRabbitmqFrom(major: number, minor: number): boolean {
  const [, ...found] = /rabbitmq_server-(\d+)\.(\d+)/.exec(findRabbitmqSbin() ?? '') ?? []
  const [itsMajor = 0, itsMinor = 0] = found.map(Number)
  return itsMajor > major || (itsMajor === major && itsMinor >= minor)
}

/** A virtual host of its own on a node, which isolates one test file from all others. */
export interface Vhost {
  readonly name: string
  /** With a user who can do everything in this virtual host and nothing in another. */
  readonly url: string
  /** The queue as the management API shows it, or undefined. Its message counts lag by seconds. */
  queue(name: string): Promise<Record<string, unknown> | undefined>
  deleteQueue(name: string): Promise<void>
  /** The names of its exchanges, including RabbitMQ's own. */
  exchanges(): Promise<string[]>
  /** Limits the number of queues; null: no limit. Existing queues stay. */
  limitQueues(count: number | null): Promise<void>
  /** Limits the number of connections; null: no limit. */
  limitConnections(count: number | null): Promise<void>
  /** Limits the channels of its user, on all connections together; null: no limit. */
  limitChannels(count: number | null): Promise<void>
  /** As `rabbitmqctl set_policy`, for queues. */
  setPolicy(name: string, pattern: string, definition: object): Promise<void>
  /** Closes every connection into this vhost, as an operator would. */
  closeConnections(): Promise<void>
  /** Deletes the vhost with all its queues; connections into it are closed by the broker. */
  drop(): Promise<void>
}

type NodeOptions = Omit<PrivateBrokerOptions, 'sbin' | 'dir' | 'isDisposable'>

/** A broker of the test's own, whose folder is removed when it stops. */
export class PrivateNode extends PrivateBroker {
  constructor(options: NodeOptions) {
    const sbin = process.env[testVariables.sbin] ?? findRabbitmqSbin()
    if (!sbin) throw new Error('rabbitmq-server is not installed; `npm test` installs it')
    const dir = mkdtempSync(join(tmpdir(), 'ojs-rabbitmq-node-'))
    super({ ...options, sbin, dir, isDisposable: true })
  }

  /** Needs the plugin `rabbitmq_management`. */
  createVhost(): Promise<Vhost> {
    return createVhostOn(this.port, this.managementPort)
  }

  override async stop(): Promise<void> {
    await super.stop()
    await removeFolder(this.dir)
  }
}

/**
 * Starts a RabbitMQ node of the caller's own, for tests that kill, restart or configure it; that takes about
 * 5 s. Every other test shares one node: see `createVhost`.
 */
export function startPrivateNode(options: NodeOptions = {}): Promise<PrivateNode> {
  return new PrivateNode(options).start()
}

/** A vhost for all tests of the file or `describe` that calls this. */
export function vhostForAll(): Vhost {
  return forAll(createVhost, (vhost) => vhost.drop())
}

/** A new vhost on the node that `npm test` started for all test files. Drop it in the end. */
export function createVhost(): Promise<Vhost> {
  return createVhostOn(
    Number(new URL(sharedAmqpUrl()).port),
    Number(process.env[testVariables.managementPort]),
  )
}

/** URL of the shared node's default virtual host `/ojs`. Prefer `createVhost`: all tests share this one. */
function sharedAmqpUrl(): string {
  const url = process.env[testVariables.amqpUrl]
  if (!url) throw new Error('no RabbitMQ node here: run `npm test -- --project … <file>` instead')
  return url
}

let created = 0

async function createVhostOn(port: number, managementPort: number | undefined): Promise<Vhost> {
  if (!managementPort) throw new Error('vhosts are created with the plugin rabbitmq_management')
  created += 1
  const name = `test-${process.pid}-${Date.now().toString(36)}-${created}`
  const call = (method: Method, path: string, body?: unknown) =>
    management(managementPort, method, path, body)
  const limit = async (what: string, count: number | null, of: 'vhost' | 'user' = 'vhost') => {
    const path = `/${of}-limits/${name}/${what}`
    if (count === null) await call('DELETE', path)
    else await call('PUT', path, { value: count })
  }
  await call('PUT', `/vhosts/${name}`, {})
  // With a user of its own, by whom its connections are found without waiting for the management plugin's
  // list of connections, which lags by up to 5 s.
  await call('PUT', `/users/${name}`, { password: 'test', tags: 'administrator' })
  await call('PUT', `/permissions/${name}/${name}`, { configure: '.*', write: '.*', read: '.*' })
  return {
    name,
    url: `amqp://${name}:test@127.0.0.1:${port}/${name}`,
    queue: async (queue) => {
      const text = await call('GET', `/queues/${name}/${encodeURIComponent(queue)}`)
      return text === undefined ? undefined : JSON.parse(text)
    },
    exchanges: async () => {
      const found = JSON.parse((await call('GET', `/exchanges/${name}`)) ?? '[]')
      return found.map((exchange: { name: string }) => exchange.name)
    },
    deleteQueue: async (queue) => {
      await call('DELETE', `/queues/${name}/${encodeURIComponent(queue)}`)
    },
    limitQueues: (count) => limit('max-queues', count),
    limitConnections: (count) => limit('max-connections', count),
    limitChannels: (count) => limit('max-channels', count, 'user'),
    setPolicy: async (policy, pattern, definition) => {
      const body = { pattern, definition, 'apply-to': 'queues' }
      await call('PUT', `/policies/${name}/${policy}`, body)
    },
    closeConnections: async () => {
      const close = () => call('DELETE', `/connections/username/${name}`)
      // RabbitMQ answers 500 when one of the connections goes while it is being closed.
      await close().catch(close)
    },
    drop: async () => {
      await call('DELETE', `/vhosts/${name}`)
      await call('DELETE', `/users/${name}`)
    },
  }
}

type Method = Parameters<typeof managementRequest>[1]

/** The text of the answer; undefined for 404. */
async function management(
  port: number,
  method: Method,
  path: string,
  body?: unknown,
): Promise<string | undefined> {
  const { status, text } = await managementRequest(port, method, path, body)
  if (status === 404) return undefined
  if (status >= 300) throw new Error(`management API: ${method} ${path}: ${status} ${text}`)
  return text
}

/** The URL of a new user with only these rights in the virtual host, who is deleted after the test. */
export async function limitedUser(
  vhost: Vhost,
  rights: Record<'configure' | 'write' | 'read', string>,
): Promise<string> {
  const port = Number(process.env[testVariables.managementPort])
  const url = new URL(vhost.url)
  url.username = `limited-${vhost.name}`
  url.password = 'pw'
  await managementRequest(port, 'PUT', `/users/${url.username}`, { password: 'pw', tags: '' })
  await managementRequest(port, 'PUT', `/permissions/${vhost.name}/${url.username}`, rights)
  onTestFinished(
    async () => void (await managementRequest(port, 'DELETE', `/users/${url.username}`)),
  )
  return url.href
}
