/** What an operator does to jobs: which it may touch, and why not the others. */
import { isErased, isExpired, isTerminal, type JobStanding, type JobState } from './job.ts'
import { isInScope, type QueueScope } from './queue-scope.ts'

/**
 * `retry`: the job becomes `available` in a new generation. A job that waits for a retry keeps its attempts,
 * any other begins anew. `cancel`: as CANCEL. `delete`: its row is erased, and it is no job any more.
 */
export const JOB_ACTIONS = ['retry', 'cancel', 'delete'] as const
export type JobAction = (typeof JOB_ACTIONS)[number]

const LIVE = ['available', 'scheduled', 'pending', 'active', 'retryable'] as const
const ENDED = ['completed', 'cancelled', 'discarded'] as const

/** The states in which an action can touch a job at all. */
export const TOUCHABLE: Readonly<Record<JobAction, readonly JobState[]>> = {
  retry: ['discarded', 'cancelled', 'completed', 'retryable'],
  cancel: LIVE,
  delete: ENDED,
}

/** An action and its bounds: plain data, because an operation in the background outlives the process. */
export interface Steering {
  action: JobAction
  /** Jobs in other states are left alone. */
  states: readonly JobState[]
  /** Only dead letters. */
  deadLettersOnly: boolean
  /** True: dead letters that were retried as another job are left alone. */
  sparesRetried: boolean
  /** The queues that the caller's API key is for; null: all. */
  scope: QueueScope | null
  /** Jobs that have ended after it are left alone; absent: none. */
  endedUntil?: number
}

/**
 * Why a job is left alone: there is none, its state, or what stands against the action. `duplicate`: another
 * job has its unique key. `workflow_step`: its workflow needs its result. `retried`: see `sparesRetried`. `ended_later`:
 * see `endedUntil`.
 */
export type Refusal =
  | JobState
  | 'not_found'
  | 'not_dead_letter'
  | 'expired'
  | 'retried'
  | 'duplicate'
  | 'workflow_step'
  | 'ended_later'

type Steered = Pick<
  JobStanding,
  'state' | 'queue' | 'isDeadLetter' | 'expiresAt' | 'completedAt' | 'cancelledAt' | 'discardedAt'
>

/** What stands beside the row. */
interface Beside {
  /** See `Carry`. */
  retriedAs: string | undefined
  /** Has it, or had it, a place in a workflow that is kept? */
  isStep(): boolean
  wall: number
}

/** Null: the job may be touched, but for its unique key. */
export function refusalOf(
  { action, states, deadLettersOnly, sparesRetried, scope, endedUntil }: Steering,
  row: Steered | null,
  { retriedAs, isStep, wall }: Beside,
): Refusal | null {
  if (row === null || isErased(row.state)) return 'not_found'
  if (scope !== null && !isInScope(scope, row.queue)) return 'not_found'
  if (!states.includes(row.state) || !TOUCHABLE[action].includes(row.state)) return row.state
  if (endedUntil !== undefined && endOf(row) > endedUntil) return 'ended_later'
  if (deadLettersOnly && !row.isDeadLetter) return 'not_dead_letter'
  // It would be discarded again at once.
  if (action === 'retry' && isExpired(row, wall)) return 'expired'
  if (sparesRetried && retriedAs !== undefined) return 'retried'
  return isNeeded(action, row) && isStep() ? 'workflow_step' : null
}

/** 0: it has not ended. */
function endOf({ state, completedAt, cancelledAt, discardedAt }: Steered): number {
  return isTerminal(state) ? Math.max(completedAt ?? 0, cancelledAt ?? 0, discardedAt ?? 0) : 0
}

/** If it is a step. */
function isNeeded(action: JobAction, { state, isDeadLetter }: Steered): boolean {
  // Later steps are given its result, which a second run would take away.
  if (action === 'retry') return state === 'completed'
  // Kept as long as its workflow, as retention does. A workflow has what it needs of a dead letter.
  return action === 'delete' && !isDeadLetter
}
