/** Actions on many jobs, and the operations that carry them out in the background (OJS admin API). */

import { onAbort } from '../async/on-abort.ts'
import { requireKnown } from '../async/options.ts'
import { Pause } from '../async/sleep.ts'
import type { JobState } from '../job.ts'
import { OJSTransportError } from '../transport/errors.ts'
import { type CallOptions, type SendRequest, segment } from '../transport/request.ts'
import { type JobFilter, wireFilter } from './job-filter.ts'

export interface BulkOptions {
  /** Changes nothing, and says how many jobs match, with a sample of their ids. */
  dryRun?: boolean | undefined
  /** Must be true, except with `dryRun`. */
  confirm?: boolean | undefined
  /** At most so many jobs. */
  limit?: number | undefined
}

/** How far an action is; names as on the wire. */
export interface BulkProgress {
  action: 'retry' | 'cancel' | 'delete'
  state: 'running' | 'completed' | 'stopped'
  /** Jobs that it has met; with `dryRun`: that match. */
  matched: number
  succeeded: number
  /** Jobs that it left alone. */
  failed: number
  /** How many jobs matched when it began. */
  expected?: number
  expected_is_lower_bound?: true
  matched_is_lower_bound?: true
  /** It ended at its limit, and more jobs match. */
  has_more?: boolean
  errors?: { job_id: string; error: string; reason?: string }[]
  dry_run?: true
  /** Ids of some jobs that match. */
  sample?: string[]
  states?: JobState[]
  [member: string]: unknown
}

/**
 * An action on many jobs. The server carries it out whether or not anybody watches. Iterating over it gives its
 * progress whenever that has changed, and last how it ended.
 */
export interface BulkOperation extends AsyncIterable<BulkProgress> {
  /** Null: there is nothing to watch, because it had ended when the server answered. */
  readonly id: string | null
  /** As last heard. */
  readonly progress: BulkProgress
  /** Resolves when it has ended. */
  done(call?: CallOptions): Promise<BulkProgress>
  /** Stops it; what it has done stays. */
  stop(call?: CallOptions): Promise<BulkProgress>
}

type Act = (
  jobs: JobFilter | readonly string[],
  options: BulkOptions,
  call?: CallOptions,
) => Promise<BulkOperation>

/** Acts on the jobs of a filter, or on at most 1,000 by their ids. */
export interface Bulk {
  /** Runs ended jobs again; of a filter without `state` the discarded ones. */
  retry: Act
  /** Of a filter without `state` those that wait. */
  cancel: Act
  delete: Act
  /** Makes the dead letters of a filter available again; `since` and `until` are about when they died. */
  retryDeadLetters(
    letters: JobFilter,
    options: BulkOptions,
    call?: CallOptions,
  ): Promise<BulkOperation>
  /** Deletes the dead letters of a filter for good. */
  deleteDeadLetters(
    letters: JobFilter,
    options: BulkOptions,
    call?: CallOptions,
  ): Promise<BulkOperation>
  /** An operation that was begun before, also by another program. */
  operation(id: string, call?: CallOptions): Promise<BulkOperation>
}

export function bulkOf(sendRequest: SendRequest): Bulk {
  const act =
    (action: BulkProgress['action']): Act =>
    async (jobs, options, call = {}) => {
      const path = `/admin/jobs/bulk/${action}`
      return await begun(sendRequest, { path, body: bodyOf(jobs, options), call })
    }
  return {
    ...{ retry: act('retry'), cancel: act('cancel'), delete: act('delete') },
    async retryDeadLetters(letters, options, call = {}) {
      return await begun(sendRequest, {
        path: '/dead-letter/retry',
        body: bodyOf(letters, options),
        call,
      })
    },
    async deleteDeadLetters(letters, options, call = {}) {
      const { filter, ...how } = bodyOf(letters, options)
      const body = { ...(filter as object), ...how }
      return await begun(sendRequest, { path: '/dead-letter/purge', body, call })
    },
    async operation(id, call = {}) {
      const answer = await sendRequest({ method: 'GET', path: operationPath(id), ...call })
      return new Operation(sendRequest, answer.body)
    },
  }
}

async function begun(
  sendRequest: SendRequest,
  { path, body, call }: { path: string; body: object; call: CallOptions },
): Promise<BulkOperation> {
  const answer = await sendRequest({ method: 'POST', path, body, ...call })
  return new Operation(sendRequest, answer.body)
}

const OPTIONS: Readonly<Record<keyof BulkOptions, true>> = {
  dryRun: true,
  confirm: true,
  limit: true,
}

function bodyOf(
  jobs: JobFilter | readonly string[],
  options: BulkOptions,
): Record<string, unknown> {
  requireKnown(options, OPTIONS, 'an action on many jobs')
  const { dryRun, confirm, limit } = options
  const how = {
    ...(dryRun && { dry_run: true }),
    ...(confirm !== undefined && { confirm }),
    ...(limit !== undefined && { limit }),
  }
  if (isList(jobs)) return { job_ids: [...jobs], ...how }
  const filter = wireFilter(jobs)
  // Asked for with a variable that was not set: `{}` alone says all.
  if (Object.keys(filter).length === 0 && Object.keys(jobs).length > 0) {
    throw new TypeError('Every member of the filter is undefined: it would mean all jobs.')
  }
  return { filter, ...how, ...(!dryRun && { async: true }) }
}

function isList(jobs: JobFilter | readonly string[]): jobs is readonly string[] {
  return Array.isArray(jobs)
}

const FIRST_LOOK_MS = 50
const LONGEST_LOOK_MS = 1_000

class Operation implements BulkOperation {
  readonly id: string | null
  readonly #sendRequest: SendRequest
  #progress: BulkProgress

  constructor(sendRequest: SendRequest, body: Record<string, unknown>) {
    this.#sendRequest = sendRequest
    const { id, operation_id } = body
    const named = id ?? operation_id
    this.id = typeof named === 'string' ? named : null
    this.#progress = progressOf(body)
  }

  get progress(): BulkProgress {
    return this.#progress
  }

  [Symbol.asyncIterator](): AsyncGenerator<BulkProgress, void, undefined> {
    return this.#watch({})
  }

  async done(call: CallOptions = {}): Promise<BulkProgress> {
    for await (const progress of this.#watch(call)) this.#progress = progress
    return this.#progress
  }

  async stop(call: CallOptions = {}): Promise<BulkProgress> {
    if (this.id === null || this.#progress.state !== 'running') return this.#progress
    const path = `${operationPath(this.id)}/stop`
    const sent = { method: 'POST', path, body: {}, idempotent: true, ...call }
    this.#progress = progressOf((await this.#sendRequest(sent)).body)
    return this.#progress
  }

  /** Looks often at first, because most operations are short. */
  async *#watch(call: CallOptions): AsyncGenerator<BulkProgress, void, undefined> {
    let waitMs = FIRST_LOOK_MS
    yield this.#progress
    while (this.id !== null && this.#progress.state === 'running') {
      await elapsed(waitMs, call.signal)
      waitMs = Math.min(LONGEST_LOOK_MS, waitMs * 2)
      const before = this.#progress
      const sent = { method: 'GET', path: operationPath(this.id), ...call }
      this.#progress = progressOf((await this.#sendRequest(sent)).body)
      if (isNews(before, this.#progress)) yield this.#progress
    }
  }
}

function isNews(before: BulkProgress, now: BulkProgress): boolean {
  return before.matched !== now.matched || before.state !== now.state
}

/** An answer without a state is that of an action that was carried out at once. */
function progressOf(body: Record<string, unknown>): BulkProgress {
  return { state: 'completed', matched: 0, succeeded: 0, failed: 0, ...body } as BulkProgress
}

function operationPath(id: string): string {
  return `/admin/operations/${segment(id, 'The id of an operation')}`
}

async function elapsed(ms: number, signal: AbortSignal | undefined): Promise<void> {
  const pause = new Pause()
  const unsubscribe = signal && onAbort(signal, () => pause.wake())
  if (!signal?.aborted) await pause.sleep(ms)
  unsubscribe?.()
  if (!signal?.aborted) return
  const init = { kind: 'aborted', cause: signal.reason } as const
  throw new OJSTransportError('The wait for an operation was aborted by the caller.', init)
}
