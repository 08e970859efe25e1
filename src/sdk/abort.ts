/**
 * Why a job's `AbortSignal` fired. `cancelled`: somebody cancelled the job. `timeout`: it ran for
 * longer than its `timeout_ms`. `lost`: the server gave it up, another worker may have it.
 * `shutdown`: the worker ends and its grace period is over.
 */
export type AbortCause = 'cancelled' | 'timeout' | 'lost' | 'shutdown'

const MESSAGES: Readonly<Record<AbortCause, string>> = {
  cancelled: 'The job was cancelled.',
  timeout: 'The job ran for longer than it may.',
  lost: 'Another worker may have the job by now.',
  shutdown: 'The worker is shutting down.',
}

/** `ctx.signal.reason` of a job that was told to end. Its name is what web APIs use. */
export class JobAbortError extends Error {
  readonly reason: AbortCause

  constructor(reason: AbortCause, message: string = MESSAGES[reason]) {
    super(message)
    this.name = reason === 'timeout' ? 'TimeoutError' : 'AbortError'
    this.reason = reason
  }
}
