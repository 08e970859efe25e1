import { readFileSync } from 'node:fs'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import { messageOf } from '../errors.ts'
import { type QueueKind, type QueueLimits, type QueueProfile, queueArguments } from './arguments.ts'
import { createNames, withPrefix } from './names.ts'

/**
 * `ttl`: `ojs.exchange.delayed` leads to the gateway. `plugin`: it delays by itself and leads to the
 * job queues; `delay-plugin.ts` declares it.
 */
export type DelayMode = 'ttl' | 'plugin'

export interface ExchangeEntity {
  entity: 'exchange'
  name: string
  type: string
}

export interface QueueEntity {
  entity: 'queue'
  kind: QueueKind
  name: string
  durable: boolean
  exclusive: boolean
  arguments: Record<string, string | number>
  bindings: readonly { exchange: string; key: string }[]
}

export type Entity = ExchangeEntity | QueueEntity

/** Every expected entity, in the order in which they have to be declared. */
export interface Topology {
  /** Exchanges and system queues, without the owner's; the control queue of `default`. */
  base(serverVersion: string): readonly Entity[]
  /** What belongs to one OJS queue; its job queue is among them. */
  ofQueue(queue: string, serverVersion: string): readonly QueueEntity[]
  /** The TTL queue that holds retries of one OJS queue for `delayMs` (seed 002 §8.2). */
  rung(queue: string, delayMs: number, serverVersion: string): QueueEntity
  /** The exclusive queue that `owner.ts` declares on its own connection. */
  owner(serverVersion: string): QueueEntity
}

interface QueueTemplate {
  kind: QueueKind
  name: string
  deadLetter?: { exchange: string; key: string }
  bindings?: { exchange: string; key: string }[]
}

interface QueueSettings extends QueueLimits {
  type?: QueueProfile
}

interface TopologyFile {
  exchanges: { name: string; type: string }[]
  system: QueueTemplate[]
  perQueue: QueueTemplate[]
  rung: QueueTemplate
  queues: Record<string, QueueSettings>
}

// The same depth from src/broker and from dist/broker.
const FOLDER = new URL('../../topology/', import.meta.url)

// The schema is a file of ours: a test holds it against the meta-schema. To do so here, with one that
// is itself compiled for that, was a tenth of the gateway's start.
const ajv = new Ajv2020({
  allErrors: true,
  strict: true,
  strictRequired: false,
  meta: false,
  validateSchema: false,
})
let isTopology: ValidateFunction<TopologyFile> | undefined

/** Throws when the file cannot be read or does not match the schema. */
export function loadTopology(
  prefix: string,
  profile: QueueProfile,
  path: string | null,
  delayMode: DelayMode = 'ttl',
): Topology {
  const file = path ?? new URL('topology.json', FOLDER)
  const content = contentOf(file)
  isTopology ??= ajv.compile<TopologyFile>(readSchema())
  if (!isTopology(content)) {
    throw new Error(`${file} is no topology: ${ajv.errorsText(isTopology.errors)}`)
  }
  const lacking = lackingIn(content)
  if (lacking !== null)
    throw new Error(`${file} is no topology of this gateway: it has no ${lacking}`)
  return createTopology(delayMode === 'plugin' ? delaying(content) : content, prefix, profile)
}

function readSchema(): object {
  return JSON.parse(readFileSync(new URL('topology.schema.json', FOLDER), 'utf8'))
}

/** What `JSON.parse` says names no file, and what the system says not what the file was to be. */
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
  { kind: 'rung', name: 'ojs.queue.retry.{queue}.{ms}' },
]

/**
 * What the code works with by its name; null: all of it is there. Under another name it would be
 * declared, filled, and missed where it is looked for: each job would get a new message again and again.
 */
function lackingIn({ exchanges, system, perQueue, rung }: TopologyFile): string | null {
  const exchange = NEEDED_EXCHANGES.find(
    ({ name, type }) => !exchanges.some((one) => one.name === name && one.type === type),
  )
  if (exchange) return `exchange '${exchange.name}' of type ${exchange.type}`
  const templates = [...system, ...perQueue, rung]
  const queue = NEEDED_QUEUES.find(
    ({ kind, name }) => !templates.some((one) => one.kind === kind && one.name === name),
  )
  return queue ? `queue '${queue.name}' of kind ${queue.kind}` : null
}

const DELAYED = NAMES.exchange.delayed

/** The plugin's exchange is not ours to declare here; each job queue is bound to it by its name. */
function delaying(file: TopologyFile): TopologyFile {
  const bindings = (of: QueueTemplate) => of.bindings?.filter((to) => to.exchange !== DELAYED) ?? []
  return {
    ...file,
    exchanges: file.exchanges.filter(({ name }) => name !== DELAYED),
    system: file.system.map((one) => ({ ...one, bindings: bindings(one) })),
    perQueue: file.perQueue.map((one) => {
      const more = one.kind === 'job' ? [{ exchange: DELAYED, key: '{queue}' }] : []
      return { ...one, bindings: [...bindings(one), ...more] }
    }),
  }
}

function createTopology(file: TopologyFile, prefix: string, profile: QueueProfile): Topology {
  const owner = file.system.find((template) => template.kind === 'owner')
  if (!owner) throw new Error('the topology has no queue of kind owner')
  const shared = file.system.filter((template) => template !== owner)
  const expand = (template: QueueTemplate, version: string, queue = '', ttlMs?: number) => {
    const settings = file.queues[queue] ?? {}
    const place = { prefix, queue, ms: String(ttlMs ?? '') }
    return expandQueue(template, place, (kind, deadLetter) =>
      queueArguments(kind, settings.type ?? typeOf(kind, settings, profile), version, {
        ...deadLetter,
        ...(ttlMs !== undefined && { ttlMs }),
        ...(kind === 'job' && { limits: settings }),
      }),
    )
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
      // There whether or not anybody has jobs in `default` (architecture §5).
      ...file.perQueue
        .filter(({ kind }) => kind === 'control' || kind === 'dead-letters')
        .map((template) => expand(template, version, 'default')),
    ],
    ofQueue: (queue, version) => file.perQueue.map((template) => expand(template, version, queue)),
    rung: (queue, delayMs, version) => expand(file.rung, version, queue, delayMs),
    owner: (version) => expand(owner, version),
  }
}

/**
 * A classic queue with a limit loses jobs when RabbitMQ starts (3.10.8): what its consumers held comes
 * back to it beyond its length, and RabbitMQ drops the head before it reads that it is to reject
 * instead. What it drops then, or what a TTL ends, is a dead letter in none of our quorum queues: they
 * have no leader yet. `drop-head` is a wish to lose the oldest, and stays where it is.
 */
function typeOf(kind: QueueKind, limits: QueueLimits, profile: QueueProfile): QueueProfile {
  const { maxLength, maxLengthBytes, messageTtlMs, overflow } = limits
  const isLimited = (maxLength ?? maxLengthBytes ?? messageTtlMs) !== undefined
  return kind === 'job' && isLimited && overflow !== 'drop-head' ? 'quorum' : profile
}

type ArgumentsOf = (
  kind: QueueKind,
  deadLetter: { deadLetterExchange?: string; deadLetterKey?: string },
) => Record<string, string | number>

function expandQueue(
  template: QueueTemplate,
  { prefix, queue, ms }: { prefix: string; queue: string; ms: string },
  argumentsOf: ArgumentsOf,
): QueueEntity {
  const named = (text: string) =>
    withPrefix(prefix, text.replaceAll('{queue}', queue).replaceAll('{ms}', ms))
  // A key that is an OJS queue name stays as it is, even one that begins like an entity name;
  // those are refused by job/queue-name.ts, so the two cannot be confused here.
  const { kind, deadLetter, bindings = [] } = template
  return {
    entity: 'queue',
    kind,
    name: named(template.name),
    // The owner's queue is a lock: it must vanish with its connection.
    durable: kind !== 'owner',
    exclusive: kind === 'owner',
    arguments: argumentsOf(
      kind,
      deadLetter
        ? { deadLetterExchange: named(deadLetter.exchange), deadLetterKey: named(deadLetter.key) }
        : {},
    ),
    bindings: bindings.map(({ exchange, key }) => ({ exchange: named(exchange), key: named(key) })),
  }
}
