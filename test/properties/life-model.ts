/**
 * What a client may expect of its jobs: the transition table of OJS (OJS core), written independently
 * of `src/job/states.ts`.
 */
type State =
  | 'available'
  | 'scheduled'
  | 'pending'
  | 'active'
  | 'retryable'
  | 'completed'
  | 'cancelled'
  | 'discarded'
  /** A dead letter that was deleted. Requests about it get 404. */
  | 'gone'

export interface ModelJob {
  readonly id: string
  readonly queue: string
  readonly maxAttempts: number
  /** With `dead_letter`, an exhausted job is listed, and can be retried or deleted. */
  readonly onExhaustion: 'discard' | 'dead_letter'
  /** How long a retry waits: longer than any test, or a moment. */
  readonly backoff: 'long' | 'short'
  state: State
  attempt: number
  /** The client that has the lease. */
  worker: number | null
}

/** The moves of a job that a client can make. The gateway refuses any other with 409. */
export type Move = 'ack' | 'retry' | 'discard' | 'requeue' | 'cancel' | 'activate' | 'claim' | 'due'

const TABLE: Readonly<Record<Move, { from: readonly State[]; to: State }>> = {
  claim: { from: ['available'], to: 'active' },
  ack: { from: ['active'], to: 'completed' },
  retry: { from: ['active'], to: 'retryable' },
  discard: { from: ['active'], to: 'discarded' },
  requeue: { from: ['active'], to: 'available' },
  cancel: {
    from: ['available', 'scheduled', 'pending', 'active', 'retryable'],
    to: 'cancelled',
  },
  activate: { from: ['pending'], to: 'available' },
  due: { from: ['scheduled', 'retryable'], to: 'available' },
}

export class Model {
  readonly jobs: ModelJob[] = []

  /**
   * The job that `pick` (any integer) selects, or undefined when there is none. A negative one selects a
   * `wanted` job if there is one, because few moves would be allowed for a job among all.
   */
  job(pick: number, wanted: (job: ModelJob) => boolean = isActive): ModelJob | undefined {
    const fitting = pick < 0 ? this.jobs.filter(wanted) : []
    const among = fitting.length > 0 ? fitting : this.jobs
    return among[Math.abs(pick) % among.length]
  }

  byId(id: string): ModelJob | undefined {
    return this.jobs.find((job) => job.id === id)
  }

  available(queues: readonly string[]): ModelJob[] {
    return this.jobs.filter(({ state, queue }) => state === 'available' && queues.includes(queue))
  }
}

function isActive({ state }: ModelJob): boolean {
  return state === 'active'
}

/** How often the model has made each move, in this process. */
export const moves: Record<Move | 'revive', number> = {
  claim: 0,
  ack: 0,
  retry: 0,
  discard: 0,
  requeue: 0,
  cancel: 0,
  activate: 0,
  due: 0,
  revive: 0,
}

export function may(job: ModelJob, move: Move): boolean {
  return TABLE[move].from.includes(job.state)
}

export function apply(job: ModelJob, move: Move): void {
  if (!may(job, move)) throw new Error(`the model does not allow ${move} of a ${job.state} job`)
  job.state = TABLE[move].to
  moves[move] += 1
  if (move === 'requeue') job.attempt -= 1
  if (job.state !== 'active') job.worker = null
}

export function claim(job: ModelJob, worker: number): void {
  apply(job, 'claim')
  job.attempt += 1
  job.worker = worker
}

/** Starts a dead letter over. */
export function revive(job: ModelJob): void {
  job.state = 'available'
  job.attempt = 0
  moves.revive += 1
}

export function isDeadLetter({ state, onExhaustion }: ModelJob): boolean {
  return state === 'discarded' && onExhaustion === 'dead_letter'
}

/** The move of a job whose attempt fails. */
export function afterFailure(job: ModelJob, isRetryable: boolean): 'retry' | 'discard' {
  return isRetryable && job.attempt < job.maxAttempts ? 'retry' : 'discard'
}

/** The status of the answer to a request that the job's state does not allow. */
export function refusal(job: ModelJob | undefined): 404 | 409 {
  return job === undefined || job.state === 'gone' ? 404 : 409
}
