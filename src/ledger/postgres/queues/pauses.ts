/** Paused queues. */
import type { KnownPauses } from '../../known.ts'
import type { QueuePauses } from '../../queues.ts'
import type { Draft } from '../group/draft.ts'
import type { Groups } from '../group/groups.ts'
import type { Memory, PauseState } from '../group/memory.ts'
import type { PartDeps } from '../part.ts'

export class PostgresPauses implements QueuePauses, KnownPauses {
  readonly #groups: Groups
  readonly #memory: Memory

  constructor({ groups, memory }: PartDeps) {
    this.#groups = groups
    this.#memory = memory
  }

  since(queue: string): number | null {
    return this.#memory.pauses.get(queue)?.pausedAt ?? null
  }

  owed(): ReadonlySet<string> {
    const owed = [...this.#memory.pauses].filter(([, { isOwed }]) => isOwed)
    return new Set(owed.map(([queue]) => queue))
  }

  pause(queue: string, now: number): Promise<{ pausedAt: number; isNew: boolean }> {
    return this.#groups.write({ wants: {}, run: (draft) => pause(draft, queue, now) })
  }

  resume(queue: string, now: number): Promise<{ isNew: boolean }> {
    return this.#groups.write({ wants: {}, run: (draft) => resume(draft, queue, now) })
  }

  told(queue: string, pausedAt: number | null): void {
    this.#groups.lazily({ wants: {}, run: (draft) => told(draft, queue, pausedAt) })
  }
}

const NOT_PAUSED: PauseState = { pausedAt: null, isOwed: false }

function stateOf(draft: Draft, queue: string): PauseState {
  return draft.changes.valueIn(draft.memory.pauses, queue) ?? NOT_PAUSED
}

export function isPaused(draft: Draft, queue: string): boolean {
  return stateOf(draft, queue).pausedAt !== null
}

function pause(draft: Draft, queue: string, now: number): { pausedAt: number; isNew: boolean } {
  draft.recordQueue(queue, now)
  const { pausedAt } = stateOf(draft, queue)
  if (pausedAt !== null) return { pausedAt, isNew: false }
  setState(draft, queue, { pausedAt: now, isOwed: true })
  return { pausedAt: now, isNew: true }
}

function resume(draft: Draft, queue: string, now: number): { isNew: boolean } {
  draft.recordQueue(queue, now)
  if (!isPaused(draft, queue)) return { isNew: false }
  setState(draft, queue, { pausedAt: null, isOwed: true })
  return { isNew: true }
}

function told(draft: Draft, queue: string, pausedAt: number | null): void {
  const state = stateOf(draft, queue)
  const isStill = state.isOwed && state.pausedAt === pausedAt
  if (isStill) setState(draft, queue, { pausedAt, isOwed: false })
}

function setState(draft: Draft, queue: string, { pausedAt, isOwed }: PauseState): void {
  const text = `UPDATE ${draft.schema}.queues SET paused_at = $2, pause_owed = $3 WHERE name = $1`
  const state = pausedAt === null && !isOwed ? undefined : { pausedAt, isOwed }
  const statement = { text, values: [queue, pausedAt, isOwed] }
  draft.changes.setIn(draft.memory.pauses, queue, state, statement)
}
