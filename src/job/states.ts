import type { JobState } from './job.ts'

/** What can happen to a job. Seed 001 §7 and ojs-digest §1.2. */
export type JobEvent =
  | 'activate'
  | 'promote'
  | 'claim'
  | 'complete'
  | 'retry'
  | 'discard'
  | 'cancel'
  | 'release'
  | 'expire'
  | 'revive'

/**
 * The one transition table. A pair that is not here is a 409. `release` covers a lease that ran
 * out and a fetch whose client was gone; `revive` is the retry of a dead letter.
 */
const TRANSITIONS: Record<JobState, Partial<Record<JobEvent, JobState>>> = {
  available: { claim: 'active', cancel: 'cancelled', expire: 'discarded' },
  scheduled: { promote: 'available', cancel: 'cancelled', expire: 'discarded' },
  pending: { activate: 'available', cancel: 'cancelled', expire: 'discarded' },
  active: {
    complete: 'completed',
    retry: 'retryable',
    discard: 'discarded',
    cancel: 'cancelled',
    release: 'available',
  },
  retryable: { promote: 'available', cancel: 'cancelled', expire: 'discarded' },
  completed: {},
  cancelled: {},
  discarded: { revive: 'available' },
}

/** The state after `event`, or null when the table forbids it. */
export function nextState(state: JobState, event: JobEvent): JobState | null {
  return TRANSITIONS[state][event] ?? null
}

/** The states from which `event` is legal. */
export function statesBefore(event: JobEvent): JobState[] {
  return (Object.keys(TRANSITIONS) as JobState[]).filter((state) => TRANSITIONS[state][event])
}
