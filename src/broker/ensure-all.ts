import type { EnsureOutcome } from './broker.ts'
import { lookFor, outcomeOf } from './entity.ts'
import type { EntityChecker } from './entity-checker.ts'
import type { Names } from './names.ts'
import type { ScratchChannel } from './scratch-channel.ts'
import type { Entity } from './topology.ts'

export interface EntityDeps {
  checker: EntityChecker
  names: Names
  /** The control queue was looked for and is not there; it may be declared next. */
  onControlMissing?(queue: string): void
}

/** What became of several entities. */
export interface Found {
  outcome: EnsureOutcome
  /** One of them is on a node of the cluster that is down. */
  isAnyAway: boolean
}

/**
 * In order. The outcome is that of the `decisive` entity, without which nothing works. Any other that
 * is on a node of the cluster that is down keeps nobody from using what is there.
 */
export async function ensureAll(
  deps: EntityDeps,
  scratch: ScratchChannel,
  entities: readonly Entity[],
  decisive: string,
): Promise<Found> {
  let outcome: EnsureOutcome = 'ready'
  let isAnyAway = false
  for (const entity of entities) {
    await tellMissingControl(deps, scratch, entity)
    const state = await deps.checker.ensure(scratch, entity)
    if (state.state === 'unavailable') return { outcome: 'unavailable', isAnyAway }
    if (entity.name === decisive) outcome = outcomeOf(state)
    isAnyAway ||= state.state === 'away'
  }
  return { outcome, isAnyAway }
}

/** A control queue is declared without a look first, which would not tell that it was missing. */
async function tellMissingControl(
  { names, onControlMissing }: EntityDeps,
  scratch: ScratchChannel,
  entity: Entity,
): Promise<void> {
  if (onControlMissing === undefined || entity.entity !== 'queue') return
  if (entity.kind !== 'control') return
  const { presence } = await lookFor(scratch, entity)
  if (presence === 'missing') onControlMissing(entity.name.slice(names.controlQueue('').length))
}
