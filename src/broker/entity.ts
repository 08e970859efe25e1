import { type ChannelFailure, classify, type Difference, differenceIn } from './amqp-error.ts'
import type { BrokerWarning, EnsureOutcome, Presence } from './broker.ts'
import type { ScratchChannel } from './scratch-channel.ts'
import type { Entity, ExchangeEntity, QueueEntity } from './topology.ts'
import { typeDifference } from './type-difference.ts'

/** What one entity is, after we have looked and perhaps declared. */
export type EntityState =
  /** There, and as we would declare it. */
  | { state: 'ready' }
  /** There, but different, or not to be checked by us; used as it is. */
  | { state: 'kept'; warning: BrokerWarning }
  | { state: 'missing' }
  | { state: 'unavailable'; reason: string }
  /** There, but the node of the cluster that has it is down. */
  | { state: 'away'; warning: BrokerWarning }
  | { state: 'access-refused'; warning: BrokerWarning }

/** Of a queue: how many messages are ready, and how many consumers it has; 0 where nobody knows. */
interface Look {
  presence: Presence
  ready: number
  consumers: number
  /** Set where the queue is there, and the node of the cluster that has it is down. */
  away?: BrokerWarning
}

/** Passive declare: the way to ask without changing anything. */
export async function lookFor(
  scratch: ScratchChannel,
  entity: Pick<Entity, 'entity' | 'name'>,
): Promise<Look> {
  try {
    if (entity.entity === 'exchange') {
      await scratch.run((channel) => channel.checkExchange(entity.name))
      return { presence: 'exists', ready: 0, consumers: 0 }
    }
    const reply = await scratch.run((channel) => channel.checkQueue(entity.name))
    return { presence: 'exists', ready: reply.messageCount, consumers: reply.consumerCount }
  } catch (error) {
    const failure = classify(error)
    const look = { presence: presenceIn(failure), ready: 0, consumers: 0 }
    return failure.kind === 'home-node-down' ? { ...look, away: away(entity, failure.text) } : look
  }
}

/** One of the exchanges that is not there; null while all are, or nobody knows. */
export async function missingExchange(
  scratch: ScratchChannel,
  entities: readonly Entity[],
): Promise<string | null> {
  for (const entity of entities) {
    if (entity.entity !== 'exchange') continue
    const { presence } = await lookFor(scratch, entity)
    if (presence === 'missing') return entity.name
  }
  return null
}

function presenceIn({ kind }: ChannelFailure): Presence {
  switch (kind) {
    case 'not-found':
      return 'missing'
    // Nobody may look into an exclusive or forbidden queue, but it is there.
    case 'locked':
    case 'access-refused':
    case 'limit-reached':
    case 'differs':
      return 'exists'
    case 'home-node-down':
    case 'unavailable':
      return 'unavailable'
  }
}

/**
 * Active declare and bindings. What exists with other arguments is kept and used, never deleted or
 * declared anew (seed 002 §10.1, 406); the bindings are asserted in any case, but for a rung's.
 */
export async function declare(scratch: ScratchChannel, entity: Entity): Promise<EntityState> {
  const state = await compareOrCreate(scratch, entity)
  if (entity.entity === 'exchange' || (state.state !== 'ready' && state.state !== 'kept')) {
    return state
  }
  // We never publish to a rung that is not ours (architecture §3), so nothing may lead there.
  if (entity.kind === 'rung' && state.state === 'kept') return state
  for (const binding of entity.bindings) {
    try {
      await scratch.run((channel) => channel.bindQueue(entity.name, binding.exchange, binding.key))
    } catch (error) {
      return afterFailure(entity, error, `bind to ${binding.exchange} by '${binding.key}'`)
    }
  }
  return state
}

/** Creates the entity when it is missing, without bindings; else only compares. */
export async function compareOrCreate(
  scratch: ScratchChannel,
  entity: Entity,
): Promise<EntityState> {
  try {
    if (entity.entity === 'exchange') await declareExchange(scratch, entity)
    else await declareQueue(scratch, entity)
    return { state: 'ready' }
  } catch (error) {
    return afterFailure(entity, error, 'declare')
  }
}

async function declareExchange(scratch: ScratchChannel, entity: ExchangeEntity): Promise<void> {
  await scratch.run((channel) => channel.assertExchange(entity.name, entity.type))
}

async function declareQueue(scratch: ScratchChannel, entity: QueueEntity): Promise<void> {
  const { durable, exclusive } = entity
  await scratch.run((channel) =>
    channel.assertQueue(entity.name, { durable, exclusive, arguments: entity.arguments }),
  )
}

function afterFailure(entity: Entity, error: unknown, action: string): EntityState {
  const failure = classify(error)
  switch (failure.kind) {
    case 'differs':
      return { state: 'kept', warning: differs(entity, failure.text) }
    case 'access-refused':
    case 'limit-reached':
    case 'locked':
      return { state: 'access-refused', warning: refused(entity, action, failure.text) }
    case 'not-found':
      return { state: 'unavailable', reason: failure.kind }
    case 'home-node-down':
      return { state: 'away', warning: away(entity, failure.text) }
    case 'unavailable':
      return { state: 'unavailable', reason: failure.text }
  }
}

function differs(entity: Entity, text: string): BrokerWarning {
  const difference = differenceIn(text)
  const says = difference ? saysOf(entity, difference) : text
  return {
    code: `${entity.entity}_differs`,
    message: `${entity.entity} '${entity.name}' is kept as it is: ${says}.`,
    details: {
      entity: entity.name,
      ...(difference ?? { reason: text }),
      ...(entity.entity === 'queue' && { ours: entity.arguments }),
    },
  }
}

/** RabbitMQ names one argument: that the type is another one has to be seen in it. */
function saysOf(entity: Entity, difference: Difference): string {
  const { argument, actual, expected } = difference
  const named = `'${argument}' is ${actual}, expected ${expected}`
  const wanted = entity.entity === 'queue' ? entity.arguments['x-queue-type'] : undefined
  const type = typeDifference(wanted, difference)
  return type === null ? named : `${type} (${named})`
}

function refused(entity: Entity, action: string, text: string): BrokerWarning {
  return {
    code: 'access_refused',
    message: `RabbitMQ refuses to ${action} ${entity.entity} '${entity.name}': ${text}`,
    details: { entity: entity.name, action, reason: text },
  }
}

/** A classic queue lives on one node of a cluster. */
function away({ name }: Pick<Entity, 'name'>, reason: string): BrokerWarning {
  return {
    code: 'queue_away',
    message: `queue '${name}' cannot be used now: ${reason}`,
    details: { entity: name, reason },
  }
}

/** The warning for an entity that is not there and that we may not declare. */
export function missing(entity: Pick<Entity, 'entity' | 'name'>): BrokerWarning {
  return {
    code: `${entity.entity}_missing`,
    message: `${entity.entity} '${entity.name}' does not exist.`,
    details: { entity: entity.name },
  }
}

/** What that is to who needs the entity. */
export function outcomeOf(state: EntityState): EnsureOutcome {
  switch (state.state) {
    case 'ready':
    case 'kept':
      return 'ready'
    case 'access-refused':
    case 'missing':
    case 'unavailable':
      return state.state
    case 'away':
      return 'unavailable'
  }
}
