/** `topology/topology.json`, expanded to the entities that we declare. */
import { readFileSync } from 'node:fs'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import { messageOf } from '../../errors.ts'
import { createNames, withPrefix } from '../names.ts'
import {
  type QueueArguments,
  type QueueKind,
  type QueueLimits,
  type QueueProfile,
  queueArguments,
} from './queue-arguments.ts'

/**
 * `ttl`: `ojs.exchange.delayed` routes to the gateway. `plugin`: the exchange delays messages itself and
 * routes to the job queues; `delay-plugin.ts` declares it.
 */
export type DelayMode = 'ttl' | 'plugin'

export interface TopologyOptions {
  /** `''`, or e.g. `tenant1` for `tenant1.ojs.queue.email`. */
  prefix: string
  queueType: QueueProfile
  /** How `ojs.exchange.delayed` works: `ttl`, a topic exchange of ours, or `plugin`. */
  delayMode: DelayMode
  /** Whether events are published to `ojs.exchange.events`; default: no. */
  eventsExchange?: boolean
  /** Null: the shipped file. */
  topologyPath: string | null
}

interface ExchangeEntity {
  entity: 'exchange'
  name: string
  type: string
}

export interface QueueEntity {
  entity: 'queue'
  kind: QueueKind
  name: string
  arguments: QueueArguments
  bindings: readonly Route[]
}

interface Route {
  exchange: string
  key: string
}

export type Entity = ExchangeEntity | QueueEntity

/** Every expected entity, in the order in which they must be declared. */
export interface Topology {
  /** Exchanges and system queues except the owner queue, and the control queue of `default`. */
  base(serverVersion: string): readonly Entity[]
  /** The queues that belong to one OJS queue, its job queue included. */
  ofQueue(queue: string, serverVersion: string): readonly QueueEntity[]
  /** The TTL queue that holds retries of one OJS queue for `delayMs` (seed 002 §8.2). */
  retryQueue(queue: string, delayMs: number, serverVersion: string): QueueEntity
  /** True when the file has settings for this OJS queue. */
  hasSettings(queue: string): boolean
  /** True when the queue's consumers are said to acknowledge messages without reporting jobs. */
  hasPlainConsumers(queue: string): boolean
  /** The exclusive queue that `ownership.ts` declares on its own connection. */
  owner(serverVersion: string): QueueEntity
}

interface QueueTemplate {
  kind: QueueKind
  name: string
  deadLetter?: Route
  bindings?: Route[]
}

interface QueueSettings extends QueueLimits {
  type?: QueueProfile
  plainConsumers?: boolean
}

interface TopologyFile {
  exchanges: { name: string; type: string }[]
  system: QueueTemplate[]
  perQueue: QueueTemplate[]
  rung: QueueTemplate
  queues: Record<string, QueueSettings>
}

// The same depth from src/broker and from dist/broker.
const FOLDER = new URL('../../../topology/', import.meta.url)

// No meta-schema check: the schema is our own file, and a test checks it. Compiling the meta-schema here took
// a tenth of the gateway's start.
const ajv = new Ajv2020({
  allErrors: true,
  strict: true,
  strictRequired: false,
  meta: false,
  validateSchema: false,
})
let isTopology: ValidateFunction<TopologyFile> | undefined

/** Throws when the file cannot be read or does not match the schema. */
export function loadTopology(options: TopologyOptions): Topology {
  const { prefix, queueType, topologyPath, delayMode } = options
  const file = topologyPath ?? new URL('topology.json', FOLDER)
  const content = contentOf(file)
  isTopology ??= ajv.compile<TopologyFile>(readSchema())
  if (!isTopology(content)) {
    throw new Error(`${file} is not a valid topology: ${ajv.errorsText(isTopology.errors)}`)
  }
  const lacking = lackingIn(content)
  if (lacking !== null)
    throw new Error(`${file} is not a topology for this gateway: it lacks ${lacking}`)
  const given = options.eventsExchange ? withEvents(content) : content
  return createTopology(delayMode === 'plugin' ? delaying(given) : given, prefix, queueType)
}

function readSchema(): object {
  return JSON.parse(readFileSync(new URL('topology.schema.json', FOLDER), 'utf8'))
}

/** Adds to the error which file it is and what for: `JSON.parse` names no file, the system no purpose. */
function contentOf(file: string | URL): unknown {
  try {
    return JSON.parse(readFileSync(file, 'utf8'))
  } catch (cause) {
    const reason = messageOf(cause)
    throw new Error(`The topology file '${file}' cannot be read: ${reason}`, { cause })
  }
}

const NAMES = createNames('')
const NEEDED_EXCHANGES: readonly TopologyFile['exchanges'][number][] = [
  { name: NAMES.exchange.direct, type: 'direct' },
  { name: NAMES.exchange.dlx, type: 'direct' },
  { name: NAMES.exchange.retry, type: 'direct' },
  { name: NAMES.exchange.delayed, type: 'topic' },
]
const NEEDED_QUEUES: readonly Pick<QueueTemplate, 'kind' | 'name'>[] = [
  { kind: 'dead-letters', name: NAMES.deadLetters },
  { kind: 'due', name: NAMES.due },
  { kind: 'dlx', name: NAMES.dueDeadLetters },
  { kind: 'owner', name: NAMES.owner },
  { kind: 'dlx', name: NAMES.dlxQueue('{queue}') },
  { kind: 'job', name: NAMES.jobQueue('{queue}') },
  { kind: 'control', name: NAMES.controlQueue('{queue}') },
  { kind: 'rung', name: NAMES.retryQueue('{queue}', '{ms}') },
]

/**
 * The first entity missing from the file that the code uses by name; null: none. An entity with another name
 * would be declared and filled, but not found by the code: each job would get a new message again and again.
 */
function lackingIn({ exchanges, system, perQueue, rung }: TopologyFile): string | null {
  const exchange = NEEDED_EXCHANGES.find(
    ({ name, type }) => !exchanges.some((given) => given.name === name && given.type === type),
  )
  if (exchange) return `exchange '${exchange.name}' of type ${exchange.type}`
  const templates = [...system, ...perQueue, rung]
  const queue = NEEDED_QUEUES.find(
    ({ kind, name }) => !templates.some((given) => given.kind === kind && given.name === name),
  )
  return queue ? `queue '${queue.name}' of kind ${queue.kind}` : null
}

/** The exchange of events is no part of the file: without the setting nothing is ever published to it. */
function withEvents(file: TopologyFile): TopologyFile {
  const { events } = NAMES.exchange
  if (file.exchanges.some(({ name }) => name === events)) return file
  return { ...file, exchanges: [...file.exchanges, { name: events, type: 'topic' }] }
}

const DELAYED = NAMES.exchange.delayed

/** For the plugin: its exchange is declared elsewhere, and each job queue is bound to it by its OJS name. */
function delaying(file: TopologyFile): TopologyFile {
  const bindings = (template: QueueTemplate) =>
    template.bindings?.filter((to) => to.exchange !== DELAYED) ?? []
  return {
    ...file,
    exchanges: file.exchanges.filter(({ name }) => name !== DELAYED),
    system: file.system.map((template) => ({ ...template, bindings: bindings(template) })),
    perQueue: file.perQueue.map((template) => {
      const more = template.kind === 'job' ? [{ exchange: DELAYED, key: '{queue}' }] : []
      return { ...template, bindings: [...bindings(template), ...more] }
    }),
  }
}

function createTopology(file: TopologyFile, prefix: string, profile: QueueProfile): Topology {
  const owner = file.system.find((template) => template.kind === 'owner')
  if (!owner) throw new Error('the topology has no queue of kind owner')
  const shared = file.system.filter((template) => template !== owner)
  const expand = (template: QueueTemplate, version: string, queue = '', ttlMs?: number) => {
    const { kind, name, deadLetter, bindings = [] } = template
    const settings = file.queues[queue] ?? {}
    // A key that is an OJS queue name stays as it is, even one that begins like an entity name.
    // `job/queue-name.ts` refuses such names, so the two cannot be confused here.
    const named = (text: string) =>
      withPrefix(prefix, text.replaceAll('{queue}', queue).replaceAll('{ms}', `${ttlMs ?? ''}`))
    const route = ({ exchange, key }: Route) => ({ exchange: named(exchange), key: named(key) })
    const entity: QueueEntity = {
      entity: 'queue',
      kind,
      name: named(name),
      arguments: queueArguments(kind, settings.type ?? typeOf(kind, settings, profile), version, {
        ...(deadLetter && { deadLetter: route(deadLetter) }),
        ...(ttlMs !== undefined && { ttlMs }),
        ...(kind === 'job' && { limits: settings }),
      }),
      bindings: bindings.map(route),
    }
    return entity
  }
  return {
    base: (version) => [
      ...file.exchanges.map(
        ({ name, type }): ExchangeEntity => ({
          entity: 'exchange',
          name: withPrefix(prefix, name),
          type,
        }),
      ),
      ...shared.map((template) => expand(template, version)),
      // These exist whether or not `default` has jobs (docs/architecture.md §5).
      ...file.perQueue
        .filter(({ kind }) => kind === 'control' || kind === 'dead-letters')
        .map((template) => expand(template, version, 'default')),
    ],
    ofQueue: (queue, version) => file.perQueue.map((template) => expand(template, version, queue)),
    retryQueue: (queue, delayMs, version) => expand(file.rung, version, queue, delayMs),
    hasPlainConsumers: (queue) => file.queues[queue]?.plainConsumers === true,
    hasSettings: (queue) => Object.hasOwn(file.queues, queue),
    owner: (version) => expand(owner, version),
  }
}

/**
 * Makes a limited job queue quorum. A classic queue with a limit loses jobs when RabbitMQ starts (3.10.8):
 * what its consumers held returns and exceeds its length, and RabbitMQ drops the head before it reads that it
 * is to reject instead. What it drops then, or a TTL expires, reaches none of our quorum dead letter queues,
 * which have no leader yet. `drop-head` asks for that loss, and the type stays.
 */
function typeOf(kind: QueueKind, limits: QueueLimits, profile: QueueProfile): QueueProfile {
  const { maxLength, maxLengthBytes, messageTtlMs, overflow } = limits
  const isLimited = (maxLength ?? maxLengthBytes ?? messageTtlMs) !== undefined
  return kind === 'job' && isLimited && overflow !== 'drop-head' ? 'quorum' : profile
}
