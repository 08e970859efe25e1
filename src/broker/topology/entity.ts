/** Looks for one entity, declares it, compares it: passive and active declares. */
import type { BrokerWarning, EnsureOutcome, Presence } from '../broker.ts'
import {
  type ChannelFailure,
  classify,
  type Difference,
  differenceIn,
} from '../connection/channel-error.ts'
import type { ScratchChannel } from '../connection/temporary-channel.ts'
import type { QueueProfile } from './queue-arguments.ts'
import type { Entity } from './topology.ts'

/** State of one entity after a look and perhaps a declare. */
export type EntityState =
  /** Exists as we would declare it. */
  | { state: 'ready' }
  /** Exists, but differs or cannot be checked by us; used as it is. */
  | { state: 'kept'; warning: BrokerWarning }
  /** A job queue that exists, but can drop messages without a trace. */
  | { state: 'lossy'; warning: BrokerWarning }
  | { state: 'missing' }
  | { state: 'unavailable'; reason: string }
  /** Exists, but the cluster node that holds it is down. */
  | { state: 'away'; warning: BrokerWarning }
  | { state: 'access-refused'; warning: BrokerWarning }

/** For queues: numbers of ready messages and of consumers; 0 when unknown. */
interface Look {
  presence: Presence
  ready: number
  consumers: number
  /** Set when the queue exists, but the cluster node that holds it is down. */
  away?: BrokerWarning
}

/** Looks for the entity by a passive declare, which changes nothing. */
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

function presenceIn({ kind }: ChannelFailure): Presence {
  switch (kind) {
    case 'not-found':
      return 'missing'
    // RabbitMQ does not let us look into an exclusive or forbidden queue, but the queue exists.
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
 * Declares the entity actively, with its bindings. One that exists with other arguments is kept and used,
 * never deleted or redeclared (seed 002 §10.1, 406). Bindings are asserted in any case, except those of a
 * differing retry queue.
 */
export async function declare(scratch: ScratchChannel, entity: Entity): Promise<EntityState> {
  const state = await compareOrCreate(scratch, entity)
  if (entity.entity === 'exchange' || (state.state !== 'ready' && state.state !== 'kept')) {
    return state
  }
  // We never publish to a retry queue whose arguments are not ours (docs/architecture.md §3), so nothing may
  // lead there.
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

/** Creates the entity without bindings when it is missing; else only compares its arguments. */
export async function compareOrCreate(
  scratch: ScratchChannel,
  entity: Entity,
): Promise<EntityState> {
  try {
    await scratch.run(async (channel) => {
      const { name } = entity
      if (entity.entity === 'exchange') await channel.assertExchange(name, entity.type)
      else await channel.assertQueue(name, { arguments: entity.arguments })
    })
    return { state: 'ready' }
  } catch (error) {
    return afterFailure(entity, error, 'declare')
  }
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
    message: `${entity.entity} '${entity.name}' exists with other arguments and is not changed: ${says}.`,
    details: {
      entity: entity.name,
      ...(difference ?? { reason: text }),
      ...(entity.entity === 'queue' && { ours: entity.arguments }),
    },
  }
}

/** RabbitMQ names one argument only; that the queue's type differs must be inferred from it. */
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

/** The warning for a job queue that can drop messages unseen, for this reason. */
export function lossy({ name }: Pick<Entity, 'name'>, reason: string): BrokerWarning {
  return {
    code: 'queue_drops_messages',
    message: `queue '${name}' can drop messages without a trace, so it gets no jobs: ${reason}.`,
    details: { entity: name, reason },
  }
}

/** The warning for a missing entity that we may not declare. */
export function missing(entity: Pick<Entity, 'entity' | 'name'>): BrokerWarning {
  return {
    code: `${entity.entity}_missing`,
    message: `${entity.entity} '${entity.name}' does not exist.`,
    details: { entity: entity.name },
  }
}

/** What the state means to a caller who needs the entity. */
export function outcomeOf(state: EntityState): EnsureOutcome {
  switch (state.state) {
    case 'ready':
    case 'kept':
      return 'ready'
    case 'lossy':
    case 'access-refused':
    case 'missing':
    case 'unavailable':
      return state.state
    case 'away':
      return 'unavailable'
  }
}

/**
 * Infers the queue's type, which RabbitMQ mostly does not name, from the one argument that it names: in
 * words, or null when it implies nothing. 3.10.8: a classic queue refuses the two arguments of quorum
 * queues, a quorum queue refuses priorities; a missing `x-overflow` is named for a classic queue, and for a
 * quorum queue that has only the strategy.
 */
export function typeDifference(wanted: unknown, { argument, actual }: Difference): string | null {
  const inferred = typeIn(wanted, argument, actual)
  return (
    inferred &&
    `${inferred.isCertain ? 'it is' : 'it may be'} a ${inferred.type} queue, expected ${wanted}`
  )
}

interface Inferred {
  type: QueueProfile
  isCertain: boolean
}

function typeIn(wanted: unknown, argument: string, actual: string): Inferred | null {
  const isThere = actual !== 'none'
  switch (argument) {
    case 'x-queue-type':
      // A queue declared without a type is classic, unless the vhost has another default.
      if (!isThere) return wanted === 'quorum' ? { type: 'classic', isCertain: true } : null
      return actual === 'classic' || actual === 'quorum' ? { type: actual, isCertain: true } : null
    case 'x-max-priority':
      return wanted === 'quorum' && isThere ? { type: 'classic', isCertain: true } : null
    case 'x-overflow':
      return wanted === 'quorum' && !isThere ? { type: 'classic', isCertain: false } : null
    case 'x-dead-letter-strategy':
    case 'x-delivery-limit':
      return wanted === 'classic' && isThere ? { type: 'quorum', isCertain: true } : null
    default:
      return null
  }
}

/**
 * RabbitMQ writes the name of a new quorum queue to disk up to a second after it has confirmed messages for
 * it. If it is killed before that, it comes back with another queue of that name, which is empty and never
 * gets a leader (3.10.8, docs/operate/faults.md). A queue declared longer ago than this is safe.
 */
export const UNWRITTEN_MS = 2_000
