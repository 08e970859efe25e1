/** Queues that nobody uses any more. */
import { retryQueueKey } from '../../../job/retry/backoff.ts'
import type { Known, KnownIdle } from '../../known.ts'
import type { IdleQueues } from '../../queues.ts'
import {
  type IdleChange,
  isEmptyQueue,
  isIdleQueue,
  lookAtQueues,
} from '../../writes/idle-queues.ts'
import type { Draft } from '../group/draft.ts'
import type { Groups } from '../group/groups.ts'
import type { Memory } from '../group/memory.ts'
import type { PartDeps } from '../part.ts'

/** `known`: of the ledger that this is a part of. */
interface Deps extends PartDeps {
  known: () => Known
  lastAt: (queue: string) => number
}

export class PostgresIdleQueues implements IdleQueues, KnownIdle {
  readonly #groups: Groups
  readonly #memory: Memory
  readonly #known: () => Known
  readonly #lastAt: (queue: string) => number

  constructor({ groups, memory, known, lastAt }: Deps) {
    this.#groups = groups
    this.#memory = memory
    this.#known = known
    this.#lastAt = lastAt
  }

  isIdle(queue: string): boolean {
    return isIdleQueue(this.#known(), queue)
  }

  isEmpty(queue: string): boolean {
    return isEmptyQueue(this.#known(), queue)
  }

  async look(now: number, idleMs: number, isUsed: (queue: string) => boolean): Promise<string[]> {
    const known = this.#known()
    const noticed = { seen: known, since: this.#memory.idleSince, isUsed, lastAt: this.#lastAt }
    const { changes, due } = lookAtQueues(known.queues(), noticed, { now, idleMs })
    const forgotten = [...this.#memory.counts.keys()].filter((queue) => !known.hasQueue(queue))
    if (changes.length + forgotten.length === 0) return due
    const run = (draft: Draft) => {
      // The ended jobs of forgotten queues are pruned later, and leave counts of 0.
      for (const queue of forgotten) draft.changes.uncount(queue)
      if (changes.length > 0) note(draft, changes)
    }
    await this.#groups.write({ wants: {}, run, weight: changes.length })
    return due
  }

  forget(queue: string): Promise<boolean> {
    return this.#groups.write({
      wants: {},
      run: (draft) => forget(draft, queue, false),
      isAlone: true,
    })
  }

  delete(queue: string): Promise<boolean> {
    return this.#groups.write({
      wants: {},
      run: (draft) => forget(draft, queue, true),
      isAlone: true,
    })
  }
}

function note(draft: Draft, changes: readonly IdleChange[]): void {
  const { idleSince } = draft.memory
  const text = `UPDATE ${draft.schema}.queues q SET idle_since = n.since
    FROM unnest($1::text[], $2::bigint[]) AS n (name, since) WHERE q.name = n.name`
  const values = [changes.map(({ queue }) => queue), changes.map(({ since }) => since)]
  draft.changes.store({ text, values })
  for (const { queue, since } of changes)
    draft.changes.setIn(idleSince, queue, since ?? undefined, null)
}

/** In a group of its own. `isAsked`: with all that is set for it. */
function forget(draft: Draft, queue: string, isAsked: boolean): boolean {
  const { changes, memory, schema } = draft
  if (changes.valueIn(memory.queues, queue) === undefined) return false
  if (isInUse(draft, queue) || (!isAsked && isSet(draft, queue))) return false
  const text = `DELETE FROM ${schema}.queues WHERE name = $1`
  changes.setIn(memory.queues, queue, undefined, { text, values: [queue] })
  forgetRetryQueues(draft, queue)
  changes.setIn(memory.pauses, queue, undefined, null)
  changes.setIn(memory.queueSettings, queue, undefined, null)
  changes.setIn(memory.idleSince, queue, undefined, null)
  changes.uncount(queue)
  changes.store(null, () => memory.traffic.forget(queue))
  return true
}

/** Has it live jobs, dead letters or a cron entry? */
function isInUse(draft: Draft, queue: string): boolean {
  const { completed, cancelled, discarded, with_native, held, ...live } = draft.countsOf(queue)
  if (Object.values(live).some((count) => count > 0)) return true
  const text = `SELECT 1 FROM ${draft.schema}.cron_templates WHERE queue = $1 LIMIT 1`
  return draft.ask({ text, values: [queue] }).length > 0
}

function isSet(draft: Draft, queue: string): boolean {
  const { changes, memory } = draft
  const hasSettings = changes.valueIn(memory.queueSettings, queue) !== undefined
  return (
    hasSettings || changes.valueIn(memory.pauses, queue) !== undefined || memory.lost.has(queue)
  )
}

function forgetRetryQueues({ changes, memory, schema }: Draft, queue: string): void {
  const text = `DELETE FROM ${schema}.retry_queues WHERE queue = $1`
  changes.store({ text, values: [queue] })
  for (const retryQueue of changes.valuesIn(memory.retryQueues)) {
    const key = retryQueueKey(retryQueue.queue, retryQueue.delayMs)
    if (retryQueue.queue === queue) changes.setIn(memory.retryQueues, key, undefined, null)
  }
}
