/** Ensures several entities in order, with one outcome. */
import { Slots } from '../../slots.ts'
import type { EnsureOutcome } from '../broker.ts'
import type { ScratchChannel } from '../connection/temporary-channel.ts'
import type { Names } from '../names.ts'
import { lookFor, outcomeOf } from './entity.ts'
import type { EntityChecker } from './entity-checker.ts'
import type { Entity } from './topology.ts'

export interface EntityDeps {
  checker: EntityChecker
  names: Names
  /** The control queue was looked for and does not exist; it may be declared next. */
  onControlMissing?(queue: string): void
}

/** Result of ensuring several entities. */
export interface Found {
  outcome: EnsureOutcome
  /** At least one of them is on a cluster node that is down. */
  isAnyAway: boolean
}

/**
 * Ensures the entities in order. The outcome is that of the entity named `decisive`, without which nothing
 * works. Any other entity may be on a cluster node that is down without making the rest unusable.
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

/** The declare of a control queue does not tell whether it was missing, so look for it first. */
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

/** How many entities are checked at a time after a (re)connect; each takes one channel. */
const CONCURRENCY = 8

/** Resolves when `check` has resolved for every item. Rejects with the first rejection; the others go on. */
export async function checkEach<T>(
  items: Iterable<T>,
  check: (item: T) => Promise<void>,
): Promise<void> {
  const slots = new Slots(CONCURRENCY)
  await Promise.all([...items].map((item) => slots.run(() => check(item))))
}
