/** Ensures single entities as far as the strategy allows, and warns of differences. */
import type { Logger } from '../../logger.ts'
import type { BrokerWarning } from '../broker.ts'
import type { ScratchChannel } from '../connection/temporary-channel.ts'
import type { BrokerObserver } from '../observer.ts'
import type { BrokerOptions } from '../options.ts'
import { declare, type EntityState, lookFor, lossy, missing } from './entity.ts'
import { lossOf } from './losses.ts'
import type { Entity } from './topology.ts'

const MAX_WARNINGS = 1_000
/** About five minutes of `QueueWatch`'s looks. */
const PASSING_LOOKS = 30

export interface EntityCheckerDeps {
  options: Pick<BrokerOptions, 'declare'>
  observer: BrokerObserver
  logger: Logger
}

/** Ensures single entities as far as the strategy allows, and keeps warnings for the operator. */
export class EntityChecker {
  readonly #deps: EntityCheckerDeps
  /** By entity name. */
  readonly #warnings = new Map<string, BrokerWarning>()
  /** Warnings that expire: for how many more looks each stays. */
  readonly #passing = new Map<string, number>()

  constructor(deps: EntityCheckerDeps) {
    this.#deps = deps
  }

  warnings(): BrokerWarning[] {
    return [...this.#warnings.values()]
  }

  /** Declares and binds the entity; with `never`, only looks for it. */
  async ensure(scratch: ScratchChannel, entity: Entity): Promise<EntityState> {
    const isDeclaring = this.#deps.options.declare !== 'never'
    const found = await (isDeclaring ? this.#declare(scratch, entity) : look(scratch, entity))
    const state = await withLoss(scratch, entity, found, isDeclaring)
    this.#passing.delete(entity.name)
    switch (state.state) {
      case 'ready':
        this.#warnings.delete(entity.name)
        break
      case 'missing':
        this.warn(missing(entity))
        break
      case 'kept':
      case 'lossy':
      case 'away':
      case 'access-refused':
        this.warn(state.warning)
        break
      case 'unavailable':
        this.#deps.logger.debug(
          { entity: entity.name, reason: state.reason },
          'entity not declared yet',
        )
        break
    }
    return state
  }

  /** Keeps one warning per `details.entity`; logs it when it is new. */
  warn(warning: BrokerWarning): void {
    const entity = String(warning.details?.['entity'])
    // Bounded, because clients choose queue names.
    if (this.#warnings.size >= MAX_WARNINGS && !this.#warnings.has(entity)) return
    if (this.#warnings.get(entity)?.message !== warning.message) {
      this.#deps.logger.warn({ ...warning.details, code: warning.code }, warning.message)
    }
    this.#warnings.set(entity, warning)
  }

  /**
   * Lets the warnings about these entities expire, unless the entities are requested again: only a client has
   * named their queue, and may never do so again, whether the right to declare it is granted or not.
   */
  letPass(entities: readonly Pick<Entity, 'name'>[]): void {
    for (const { name } of entities) {
      if (this.#warnings.has(name)) this.#passing.set(name, PASSING_LOOKS)
    }
  }

  /**
   * Looks for one of the missing entities, each in its turn. Otherwise nothing would notice that an
   * administrator has created one that no current operation needs.
   */
  async lookAgain(scratch: ScratchChannel): Promise<void> {
    this.#forgetPassed()
    const found = [...this.#warnings].find(([, { code }]) => code.endsWith('_missing'))
    if (found === undefined) return
    const [name, warning] = found
    const entity = warning.code === 'queue_missing' ? 'queue' : 'exchange'
    const { presence } = await lookFor(scratch, { entity, name })
    if (this.#warnings.get(name) !== warning) return
    this.#warnings.delete(name)
    if (presence !== 'exists') this.#warnings.set(name, warning)
  }

  #forgetPassed(): void {
    for (const [name, looks] of this.#passing) {
      this.#passing.set(name, looks - 1)
      if (looks > 1) continue
      this.#passing.delete(name)
      this.#warnings.delete(name)
    }
  }

  async #declare(scratch: ScratchChannel, entity: Entity): Promise<EntityState> {
    const state = await declare(scratch, entity)
    if (state.state === 'kept') this.#deps.observer.declareConflict(entity.name)
    if (state.state !== 'access-refused') return state
    // A user without the right to configure can still use what an administrator has declared.
    const { presence } = await lookFor(scratch, entity)
    return presence === 'exists' ? { state: 'kept', warning: state.warning } : state
  }
}

/** A job queue that exists, but is not surely ours, may be one that drops messages. */
async function withLoss(
  scratch: ScratchChannel,
  entity: Entity,
  found: EntityState,
  isCompared: boolean,
): Promise<EntityState> {
  if (entity.entity !== 'queue' || entity.kind !== 'job') return found
  if (found.state !== 'kept' && (isCompared || found.state !== 'ready')) return found
  const reason = await lossOf(scratch, entity)
  return reason === null ? found : { state: 'lossy', warning: lossy(entity, reason) }
}

async function look(scratch: ScratchChannel, entity: Entity): Promise<EntityState> {
  const { presence, away } = await lookFor(scratch, entity)
  if (away) return { state: 'away', warning: away }
  switch (presence) {
    case 'exists':
      return { state: 'ready' }
    case 'missing':
      return { state: 'missing' }
    case 'unavailable':
      return { state: 'unavailable', reason: 'RabbitMQ cannot be asked' }
  }
}
