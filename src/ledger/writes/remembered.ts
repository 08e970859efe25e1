/** Answers of requests with an `Idempotency-Key`, remembered by the write that stores what they answer. */
import type { NewJob } from '../../job/job.ts'
import type { Admitted } from '../enqueued.ts'
import type { AnsweredBefore, Keyed, KeyedRequest, Remembered } from '../idempotency.ts'

/** How many keys are kept, of some 200 bytes each. Judged by their sequence numbers, which spares a count. */
export const MAX_KEYS = 10_000_000

export type Answer = Omit<Remembered, 'fingerprint'>

/** Inside a write: sees what the writes before have remembered. */
export interface RememberedKeys {
  /** Null: not used, or more than a day ago. */
  find(key: string, now: number): Remembered | null
  remember(request: KeyedRequest, answer: Answer, now: number): void
}

/** Does `store` unless the request was answered before. `answerOf`: what to remember; null: nothing was stored. */
export function unlessRemembered<T>(
  keys: RememberedKeys,
  { request, now }: Keyed,
  store: () => T,
  answerOf: (stored: T) => Answer | null,
): T | AnsweredBefore {
  if (request === undefined) return store()
  const remembered = keys.find(request.key, now)
  if (remembered) return { outcome: 'remembered', remembered }
  const stored = store()
  const answer = answerOf(stored)
  if (answer !== null) keys.remember(request, answer, now)
  return stored
}

/** The answer of a PUSH of these jobs. */
export function answerOf(jobs: readonly NewJob[], stored: readonly Admitted[]): Answer {
  const ids = stored.map((one, i) =>
    one.outcome === 'existing' ? one.job.id : (jobs[i]?.id ?? ''),
  )
  const existing = stored.flatMap((one, i) => (one.outcome === 'existing' ? [i] : []))
  return { ids, existing }
}
