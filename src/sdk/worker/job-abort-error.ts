/** Why a job's `AbortSignal` fired. */

/**
 * Why a job's `AbortSignal` fired. `cancelled`: the job was cancelled. `timeout`: it ran for longer than its
 * `timeout_ms`. `lost`: the server or a middleware has given up this execution, and another worker may have
 * the job. `shutdown`: the worker is stopping and its grace period is over.
 */
export type AbortCause = 'cancelled' | 'timeout' | 'lost' | 'shutdown'

const MESSAGES: Readonly<Record<AbortCause, string>> = {
  cancelled: 'The job was cancelled.',
  timeout: 'The job ran for longer than its timeout.',
  lost: 'Another worker may have the job by now.',
  shutdown: 'The worker is shutting down.',
}

/** The `ctx.signal.reason` of a job that was told to end. Its `name` is as in web APIs. */
export class JobAbortError extends Error {
  readonly reason: AbortCause

  constructor(reason: AbortCause, message: string = MESSAGES[reason]) {
    super(message)
    this.name = reason === 'timeout' ? 'TimeoutError' : 'AbortError'
    this.reason = reason
  }
}
