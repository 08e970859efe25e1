/** How client and worker reach a server; give them one of your own to test. */

/** One request to an OJS server. A transport may ignore all members but `method`, `path` and `body`. */
export interface TransportRequest {
  method: string
  /**
   * Path below `/ojs/v1`, with the query, e.g. `/jobs/batch`. The only exception is the manifest, which is
   * not below it (seed 001 §3.1): a path that starts with `/ojs/` counts from the root.
   */
  path: string
  /** Sent as JSON. */
  body?: unknown
  /** Sent in addition to the transport's own headers. */
  headers?: Readonly<Record<string, string>> | undefined
  /** Ends the wait for the answer and for further tries: `OJSTransportError` of the kind `aborted`. */
  signal?: AbortSignal | undefined
  /** Milliseconds for one try, used instead of the transport's own limit. */
  timeout?: number | undefined
  /** True: sending the request twice does no harm, so it may be sent again if the answer got lost. */
  idempotent?: boolean
  /**
   * True: the request does not wait for its turn behind others, because a job's lease runs meanwhile, or
   * because it waits at the server for long itself.
   */
  isUrgent?: boolean
  /** Statuses from 300 on whose body is an answer, not an error (health: 503). */
  accept?: readonly number[]
}

export interface TransportResponse {
  status: number
  body: unknown
  /** Lower-case names. */
  headers?: Readonly<Record<string, string>> | undefined
}

export interface TransportStream {
  /** 204: there is nothing more to come. */
  status: number
  /** The text as it comes; ends, or rejects, when the connection does. */
  text: AsyncIterable<string>
}

/**
 * How client and worker reach a server. Give them one of your own to test without a server (seed 004, "The
 * transport layer"). `request` rejects with `OJSError` for an error that the server answered, and with
 * `OJSTransportError` if there was no answer. Resolving with `{ status: 404, body }` is understood, too.
 */
export interface Transport {
  request(opts: TransportRequest): Promise<TransportResponse>
  /**
   * Opens a stream of server-sent events, and resolves when it is open. Without this method there are no
   * `events`.
   */
  stream?(opts: TransportRequest): Promise<TransportStream>
}
