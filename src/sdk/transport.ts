/**
 * One exchange with an OJS server. `method`, `path` and `body` are all that a transport has to
 * understand; the rest are wishes that one may ignore.
 */
export interface TransportRequest {
  method: string
  /**
   * Below `/ojs/v1`, with the query, e.g. `/jobs/batch`. The one exception is the manifest, which
   * is not below it (seed 001 §3.1): a path that starts with `/ojs/` counts from the root.
   */
  path: string
  /** Sent as JSON. */
  body?: unknown
  /** In addition to the transport's own. */
  headers?: Readonly<Record<string, string>> | undefined
  /** Ends the wait, between tries as well: `OJSTransportError` of the kind `aborted`. */
  signal?: AbortSignal | undefined
  /** Milliseconds for one try, instead of the transport's own limit. */
  timeout?: number | undefined
  /** True: sending it twice does no harm, so it may be tried again when the answer got lost. */
  idempotent?: boolean
  /** Not to wait behind others: it holds a job's lease, or waits for so long itself. */
  isUrgent?: boolean
  /** Statuses from 300 whose body is an answer and no error (health: 503). */
  accept?: readonly number[]
}

export interface TransportResponse {
  status: number
  body: unknown
  /** Lower-case names. */
  headers?: Readonly<Record<string, string>> | undefined
}

/**
 * How client and worker reach a server; give them one of your own to test without a server (seed
 * 004, "The transport layer"). Rejects with `OJSError` for an error that the server answered, and
 * with `OJSTransportError` where there was no answer. One that answers `{ status: 404, body }`
 * instead of rejecting is understood too.
 */
export interface Transport {
  request(opts: TransportRequest): Promise<TransportResponse>
}
