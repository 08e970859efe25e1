/** Which jobs a control message may concern, and the count of those refused. */
import type { Refusal } from '../../job/native/report.ts'
import type { Deps } from '../deps.ts'

/** The queue whose jobs a message of this queue's control queue may concern; null: the jobs of any queue. */
export function scopeOf({ settings }: Pick<Deps, 'settings'>, queue: string): string | null {
  return settings.controlScope === 'queue' ? queue : null
}

/** Jobs that a message named and that its sender may not act on, by reason; an example of each. */
export type Refused = ReadonlyMap<Refusal, { count: number; jobId: string }>

export const NOTHING_REFUSED: Refused = new Map()

/** Adds up the refusals of a message. */
export function refusedOf(refusals: readonly (readonly [Refusal, string])[]): Refused {
  if (refusals.length === 0) return NOTHING_REFUSED
  const sums = new Map<Refusal, { count: number; jobId: string }>()
  for (const [reason, jobId] of refusals) {
    const sum = sums.get(reason)
    if (sum) sum.count += 1
    else sums.set(reason, { count: 1, jobId })
  }
  return sums
}
