/** Looks at RabbitMQ for people: over AMQP what everybody may ask, by the management API the rest. */
import type { Clock } from '../clock.ts'
import type { JobRow } from '../job/job.ts'
import { snakeCase } from '../job/values/snake-case.ts'
import type { Logger } from '../logger.ts'
import type { Connection } from './connection/connection.ts'
import { withScratchChannel } from './connection/temporary-channel.ts'
import { type Body, isObject, type ManagementApi } from './management-api.ts'
import { askServer, listed, numberIn, textIn } from './management-views.ts'
import { outgoingOrNull } from './messages/owed-message.ts'
import type {
  Depth,
  Inspection,
  OutgoingView,
  QueueUse,
  QueueView,
  ServerView,
} from './monitoring/inspection.ts'
import type { Names } from './names.ts'
import { lookFor } from './topology/entity.ts'
import type { QueueKind } from './topology/queue-arguments.ts'
import type { QueueEntity, Topology } from './topology/topology.ts'

/** However many people look, RabbitMQ is asked this often. */
const KEPT_MS = 3_000
const MAX_PAGES = 30
const MAX_LOOKS = 1_000
const MAX_NAMES_LENGTH = 4_000
const COLUMNS =
  'name,type,arguments,messages_ready,messages_unacknowledged,consumers,policy,node,state'

interface InspectorDeps {
  api: ManagementApi
  names: Names
  topology: Topology
  /** The gateway's own, and the one among them that declares. */
  connections: readonly Connection[]
  declare: Connection
  virtualHost: string
  clock: Clock
  logger: Logger
  /** OJS queues that the gateway knows, and the retry queues that it has declared. */
  knownQueues(): Iterable<string>
  retryQueues(): readonly { queue: string; delayMs: number }[]
  /** Unsettled deliveries of a queue in this process. */
  held(queue: string): number
}

interface Expected {
  use: QueueUse
  queue: string | null
  entity: QueueEntity
}

type Page = Parameters<Inspection['queues']>[0]
type Listing = Awaited<ReturnType<Inspection['queues']>>

export class Inspector implements Inspection {
  readonly #deps: InspectorDeps
  /** Whole pages, and single looks. */
  readonly #pages: Fresh
  readonly #looks: Fresh

  constructor(deps: InspectorDeps) {
    this.#deps = deps
    this.#pages = new Fresh(() => deps.clock.now(), MAX_PAGES)
    this.#looks = new Fresh(() => deps.clock.now(), MAX_LOOKS)
  }

  server(): Promise<ServerView> {
    return this.#pages.get('server', async () => {
      const { api, connections, declare, virtualHost } = this.#deps
      const own = connections.map(({ name, isUp, channelsActive, downReason, blockedReason }) => ({
        name,
        isUp,
        channels: channelsActive,
        reason: isUp ? blockedReason : downReason,
      }))
      return { virtualHost, version: declare.serverVersion, own, ...(await askServer(api)) }
    })
  }

  queues({ limit, offset }: Page): Promise<Listing> {
    const number = limit === 0 ? 0 : Math.floor(offset / limit)
    return this.#pages.get(`queues ${limit} ${number}`, async () => {
      const begin = number * limit
      return (await this.#listed(number + 1, limit)) ?? (await this.#looked(begin, limit))
    })
  }

  async depths(queues: readonly string[]): Promise<ReadonlyMap<string, Depth>> {
    const unacknowledged = await this.#pages.get(`depths ${queues.join()}`, () =>
      this.#unacknowledged(queues).catch(() => new Map<string, number>()),
    )
    const found = await withScratchChannel(this.#deps.declare, async (scratch) => {
      const depths = new Map<string, Depth>()
      for (const queue of queues) {
        const name = this.#deps.names.jobQueue(queue)
        const look = await this.#looks.get(name, () => lookFor(scratch, { entity: 'queue', name }))
        if (look.presence !== 'exists') continue
        const held = this.#deps.held(queue)
        const { ready, consumers } = look
        depths.set(queue, {
          ready,
          consumers,
          held,
          unacknowledged: unacknowledged.get(name) ?? null,
        })
      }
      return depths
    }).catch(() => new Map<string, Depth>())
    return found
  }

  messageOf(row: JobRow): OutgoingView | null {
    const message = outgoingOrNull(row, this.#deps, this.#deps.names)
    if (message === null) return null
    const { exchange, routingKey, content, options } = message
    const { headers, mandatory: _mandatory, persistent, ...others } = options
    const properties = { ...others, deliveryMode: persistent === true ? 2 : 1 }
    const named = Object.entries(properties).map(([name, value]) => [snakeCase(name), value])
    return {
      exchange,
      routingKey,
      properties: Object.fromEntries(named),
      headers: Object.fromEntries(
        Object.entries(headers).map(([name, value]) => [name, plain(value)]),
      ),
      body: content.toString(),
      bytes: content.length,
    }
  }

  /** Null: the management API does not tell. */
  async #listed(page: number, limit: number): Promise<Listing | null> {
    const { api } = this.#deps
    if (!api.isConfigured || limit === 0) return null
    const query = `page=${page}&page_size=${limit}&sort=name&columns=${COLUMNS}`
    const answer = await api
      .ask('GET', `queues/${api.virtualHost}?${query}`)
      .catch(() => ({ status: 0, body: {}, list: [] }))
    const expected = this.#expected()
    const list = listed(answer, (queue) => viewOf(queue, expected))
    return list && { queues: list.items, total: list.total }
  }

  /** Those that the gateway would declare, looked for one by one. */
  async #looked(offset: number, limit: number): Promise<Listing> {
    const all = [...this.#expected().values()].sort((one, other) =>
      one.entity.name < other.entity.name ? -1 : 1,
    )
    const shown = all.slice(offset, offset + limit)
    const queues = await withScratchChannel(this.#deps.declare, async (scratch) => {
      const views: QueueView[] = []
      for (const expected of shown) {
        const { presence, ready, consumers } = await lookFor(scratch, expected.entity)
        const isTold = presence === 'exists' && expected.entity.kind !== 'owner'
        const counts = { ready: isTold ? ready : null, consumers: isTold ? consumers : null }
        views.push({ ...unseen(expected), ...counts, exists: presence !== 'missing' })
      }
      return views
    }).catch(() => shown.map(unseen))
    return { queues, total: all.length }
  }

  async #unacknowledged(queues: readonly string[]): Promise<Map<string, number>> {
    const { api, names } = this.#deps
    const pattern = `^(${queues.map((queue) => names.jobQueue(queue).replaceAll('.', '\\.')).join('|')})$`
    if (!api.isConfigured || queues.length === 0 || pattern.length > MAX_NAMES_LENGTH) {
      return new Map()
    }
    const query = `page=1&page_size=100&use_regex=true&name=${encodeURIComponent(pattern)}`
    const columns = 'columns=name,messages_unacknowledged'
    const answer = await api.ask('GET', `queues/${api.virtualHost}?${query}&${columns}`)
    const counts = listed(answer, (queue): [string, number] => [
      textIn(queue, 'name') ?? '',
      numberIn(queue, 'messages_unacknowledged') ?? 0,
    ])
    return new Map(counts?.items)
  }

  /** By name: every queue that the gateway would declare. */
  #expected(): Map<string, Expected> {
    const { topology, declare, knownQueues, retryQueues } = this.#deps
    const version = declare.serverVersion
    const found = new Map<string, Expected>()
    const add = (queue: string | null, entities: readonly QueueEntity[]) => {
      for (const entity of entities) {
        found.set(entity.name, { use: queue === null ? 'system' : USE[entity.kind], queue, entity })
      }
    }
    add(null, [...topology.base(version).filter(isQueue), topology.owner(version)])
    for (const queue of knownQueues()) add(queue, topology.ofQueue(queue, version))
    for (const { queue, delayMs } of retryQueues()) {
      add(queue, [topology.retryQueue(queue, delayMs, version)])
    }
    return found
  }
}

/** Answers for a few seconds, by question: one request at a time for each, and none while an answer is fresh. */
class Fresh {
  readonly #now: () => number
  readonly #max: number
  readonly #kept = new Map<string, { at: number; answer: Promise<unknown> }>()

  constructor(now: () => number, max: number) {
    this.#now = now
    this.#max = max
  }

  get<T>(question: string, ask: () => Promise<T>): Promise<T> {
    const now = this.#now()
    const kept = this.#kept.get(question)
    if (kept !== undefined && now - kept.at < KEPT_MS) return kept.answer as Promise<T>
    if (this.#kept.size >= this.#max) this.#kept.clear()
    const answer = ask()
    this.#kept.set(question, { at: now, answer })
    answer.catch(() => this.#kept.delete(question))
    return answer
  }
}

/** Without amqplib's note of which AMQP type a value is sent as. */
function plain(value: unknown): unknown {
  return isObject(value) && '!' in value ? value['value'] : value
}

const USE: Readonly<Record<QueueKind, QueueUse>> = {
  job: 'job',
  dlx: 'dead_letters',
  control: 'control',
  rung: 'retry',
  due: 'system',
  'dead-letters': 'system',
  owner: 'system',
}

function isQueue(entity: { entity: string }): entity is QueueEntity {
  return entity.entity === 'queue'
}

/** What is known of a queue without a look at it. */
function unseen({ use, queue, entity }: Expected): QueueView {
  const { name, arguments: expected } = entity
  const unknown = { ready: null, unacknowledged: null, consumers: null, policy: null }
  const nowhere = { node: null, state: null, arguments: null }
  return {
    ...{ name, use, queue, type: null, ...unknown, ...nowhere, exists: true, expected },
    differing: [],
  }
}

function viewOf(found: Body, all: ReadonlyMap<string, Expected>): QueueView {
  const name = textIn(found, 'name') ?? ''
  const type = textIn(found, 'type')
  const given = isObject(found['arguments']) ? found['arguments'] : {}
  const { use = 'other', queue = null, entity = null } = all.get(name) ?? {}
  return {
    ...{ name, use, queue, type, exists: true },
    ready: numberIn(found, 'messages_ready'),
    unacknowledged: numberIn(found, 'messages_unacknowledged'),
    consumers: numberIn(found, 'consumers'),
    policy: textIn(found, 'policy'),
    node: textIn(found, 'node'),
    state: textIn(found, 'state'),
    arguments: given,
    expected: entity?.arguments ?? null,
    differing:
      entity === null ? [] : differing(entity.arguments, { ...given, 'x-queue-type': type }),
  }
}

/** A queue that was declared without a type has one all the same, so `given` has it. */
function differing(expected: Body, given: Body): string[] {
  const names = new Set([...Object.keys(expected), ...Object.keys(given)])
  return [...names].filter((name) => expected[name] !== given[name])
}
