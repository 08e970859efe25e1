/** Requests over `fetch`, with retries, a time limit, and a bound on how many run at a time. */
import { onAbort } from '../async/on-abort.ts'
import { given, isRecord, requireKnown, requireObject } from '../async/options.ts'
import { Slots } from '../async/semaphore.ts'
import { MAX_DELAY_MS, timeLimit } from '../async/sleep.ts'
import { errorOfAnswer, OJSError, OJSTransportError, retryAfterOf } from './errors.ts'
import { notOjs } from './request.ts'
import { delayBeforeRetry, type RetryOptions, type RetryPolicy, retryPolicy } from './retry.ts'
import { endpointOf } from './server-url.ts'
import type {
  Transport,
  TransportRequest,
  TransportResponse,
  TransportStream,
} from './transport.ts'

const MEDIA_TYPE = 'application/openjobspec+json'
const DEFAULT_TIMEOUT_MS = 30_000
/**
 * Requests at a time. `fetch` opens a connection for each request that is under way, and with ten thousand of
 * them a server answers none in time. A gateway is fastest with 64; a distant one needs some more.
 */
const MAX_UNDER_WAY = 128

/** The part of `fetch` that is used; the global `fetch` satisfies this type. */
export type Fetch = (
  url: string,
  init: {
    method: string
    headers: Record<string, string>
    body?: string
    signal: AbortSignal
    redirect: 'manual'
  },
) => Promise<{
  readonly status: number
  readonly headers: { forEach(visit: (value: string, name: string) => void): void }
  text(): Promise<string>
  /** Only needed for streams of events. */
  readonly body?: ReadableStream<Uint8Array> | null
}>

export interface HttpTransportOptions {
  /**
   * The server's URL, e.g. `https://jobs.example.com`; `/ojs/v1` is added. A user and password in it are sent
   * as basic authentication.
   */
  url: string
  /** A token, sent as `Bearer`; or a whole `Authorization` value, scheme first. Empty: none. */
  auth?: string | undefined
  /** Sent with every request. */
  headers?: Readonly<Record<string, string>> | undefined
  /** Milliseconds for one try, from its turn on; 0 or `Infinity`: no limit. Default 30,000. */
  timeout?: number | undefined
  /** How failed requests are repeated; `false`: never. */
  retry?: RetryOptions | false | undefined
  /** Used instead of the global `fetch`. */
  fetch?: Fetch | undefined
}

export const HTTP_OPTIONS: Readonly<Record<keyof HttpTransportOptions, true>> = {
  url: true,
  auth: true,
  headers: true,
  timeout: true,
  retry: true,
  fetch: true,
}

/**
 * The OJS HTTP binding over `fetch` (seed 001; seed 004, "The transport layer"). Does not follow redirects,
 * which would turn a POST into a GET. No error message contains credentials. At most 128 requests are under
 * way at a time; the others wait for their turn, in order.
 */
export class HttpTransport implements Transport {
  readonly #origin: string
  readonly #base: string
  readonly #headers: Readonly<Record<string, string>>
  readonly #timeout: number
  readonly #retry: RetryPolicy
  readonly #fetch: Fetch
  readonly #slots = new Slots(MAX_UNDER_WAY)

  /** Throws `TypeError` for invalid options. */
  constructor(options: HttpTransportOptions) {
    requireObject(options, 'HttpTransport needs options, such as { url }.')
    requireKnown(options, HTTP_OPTIONS, 'HttpTransport')
    const { url, auth, headers = {}, timeout, retry, fetch } = options
    const endpoint = endpointOf(url, auth)
    this.#origin = endpoint.origin
    this.#base = endpoint.base
    this.#headers = checked({
      accept: MEDIA_TYPE,
      ...(endpoint.authorization !== undefined && { authorization: endpoint.authorization }),
      ...lowerCase(headers),
    })
    this.#timeout = timeLimit(timeout, DEFAULT_TIMEOUT_MS)
    this.#retry = retryPolicy(retry)
    // The global `fetch` is looked up at each call, because instrumentation may replace it at any time. It is
    // not called as a method of this object, which browsers refuse.
    this.#fetch = (target, init) => (fetch ?? globalThis.fetch)(target, init)
  }

  async request(opts: TransportRequest): Promise<TransportResponse> {
    const isIdempotent = opts.idempotent ?? (opts.method === 'GET' || opts.method === 'HEAD')
    // Built once for all tries. A body or header that cannot be sent is the caller's mistake: it throws here,
    // outside the retries.
    const message: Message = {
      body: opts.body === undefined ? undefined : JSON.stringify(opts.body),
      headers: this.#headersOf(opts),
      timeout: timeLimit(opts.timeout, this.#timeout),
    }
    for (let attempt = 1; ; attempt += 1) {
      try {
        return answerOf(opts, await this.#inTurn(opts, message, attempt), attempt)
      } catch (error) {
        const delay = delayBeforeRetry(this.#retry, error, { attempt, isIdempotent })
        if (delay === undefined) throw error
        if (!(await elapses(delay, opts.signal))) throw this.#failure('aborted', opts, attempt)
      }
    }
  }

  /** Opens a stream of events: one try, which waits for no turn and counts for nobody else's. */
  async stream(opts: TransportRequest): Promise<TransportStream> {
    const headers = { ...this.#headersOf(opts), accept: `text/event-stream, ${MEDIA_TYPE}` }
    const ends = new AbortController()
    const unsubscribe = opts.signal && onAbort(opts.signal, () => ends.abort())
    if (opts.signal?.aborted) ends.abort()
    const init = { method: opts.method, headers, signal: ends.signal, redirect: 'manual' } as const
    try {
      const response = await this.#fetch(this.#urlOf(opts.path), init)
      const { status, body } = response
      if (status === 200 && body) {
        return { status, text: this.#textOf(body, opts, () => unsubscribe?.()) }
      }
      const headersOfAnswer = plain(response.headers)
      answerOf(opts, { status, headers: headersOfAnswer, text: await response.text() }, 1)
      if (status === 204) return { status, text: nothing() }
      throw notOjs(opts, { status })
    } catch (error) {
      unsubscribe?.()
      throw this.#streamError(error, opts)
    }
  }

  async *#textOf(
    body: ReadableStream<Uint8Array>,
    opts: TransportRequest,
    onEnd: () => void,
  ): AsyncGenerator<string, void, undefined> {
    // Not `for await`, which not every browser has for streams.
    const reader = body.getReader()
    const decoder = new TextDecoder()
    try {
      for (;;) {
        const { done, value } = await reader.read()
        if (done) return
        yield decoder.decode(value, { stream: true })
      }
    } catch (error) {
      throw this.#streamError(error, opts)
    } finally {
      onEnd()
      await reader.cancel().catch(() => {})
    }
  }

  #streamError(error: unknown, opts: TransportRequest): unknown {
    if (error instanceof OJSError || error instanceof OJSTransportError) return error
    if (opts.signal?.aborted) return this.#failure('aborted', opts, 1)
    return this.#failure('network', opts, 1, reasonOf(error), error)
  }

  /** One try, after waiting for its turn. Rejects with `OJSTransportError` only. */
  async #inTurn(opts: TransportRequest, message: Message, attempt: number): Promise<Received> {
    const { signal, isUrgent = false } = opts
    if (isUrgent) return await this.#sendRequest(opts, message, attempt)
    const turn = this.#slots.take(signal)
    if (turn !== true && !(await turn)) throw this.#failure('aborted', opts, attempt - 1)
    try {
      return await this.#sendRequest(opts, message, attempt)
    } finally {
      this.#slots.give()
    }
  }

  /** Sends the request and reads the whole body. The time limit of the try begins here. */
  async #sendRequest(
    opts: TransportRequest,
    { body, headers, timeout }: Message,
    attempt: number,
  ): Promise<Received> {
    const { signal } = opts
    // The signal may have fired after the slot was taken.
    if (signal?.aborted) throw this.#failure('aborted', opts, attempt - 1)
    const limit = new AbortController()
    const end = () => limit.abort()
    const timer = timeout === Number.POSITIVE_INFINITY ? undefined : setTimeout(end, timeout)
    const unsubscribe = signal && onAbort(signal, end)
    try {
      const response = await this.#fetch(this.#urlOf(opts.path), {
        method: opts.method,
        headers,
        ...(body !== undefined && { body }),
        signal: limit.signal,
        redirect: 'manual',
      })
      const text = await response.text()
      return { status: response.status, headers: plain(response.headers), text }
    } catch (error) {
      if (signal?.aborted) throw this.#failure('aborted', opts, attempt)
      throw limit.signal.aborted
        ? this.#failure('timeout', opts, attempt, `no answer within ${timeout} ms`)
        : this.#failure('network', opts, attempt, reasonOf(error), error)
    } finally {
      clearTimeout(timer)
      unsubscribe?.()
    }
  }

  #urlOf(path: string): string {
    return path.startsWith('/ojs/') ? this.#base + path : `${this.#base}/ojs/v1${path}`
  }

  #headersOf({ headers, body }: TransportRequest): Record<string, string> {
    return {
      ...this.#headers,
      ...(body !== undefined && { 'content-type': MEDIA_TYPE }),
      ...(headers && checked(lowerCase(headers))),
    }
  }

  #failure(
    kind: 'network' | 'timeout' | 'aborted',
    { method, path, signal }: TransportRequest,
    attempts: number,
    reason = 'aborted by the caller',
    cause: unknown = signal?.aborted ? signal.reason : undefined,
  ): OJSTransportError {
    const message = `${method} ${path} at ${this.#origin}: ${reason}`
    return new OJSTransportError(message, { kind, attempts, cause })
  }
}

/** What all tries of a request have in common. */
interface Message {
  body: string | undefined
  headers: Record<string, string>
  timeout: number
}

interface Received {
  status: number
  headers: Readonly<Record<string, string>>
  text: string
}

/** The response of an answer. Throws `OJSError` if it is an error, `OJSTransportError` if it is not OJS. */
function answerOf(
  request: TransportRequest,
  { status, headers, text }: Received,
  attempts: number,
): TransportResponse {
  const body = parse(text)
  const error = errorOfAnswer({ status, body, headers, attempts })
  const isAccepted = request.accept?.includes(status) ?? false
  // A 503 is accepted as the health of a server, but not the error of one that is busy.
  if (error && status >= 300 && !(isAccepted && status < 500)) throw error
  const isAnswer = (status >= 200 && status < 300) || isAccepted
  if (isAnswer && body !== undefined) return { status, headers, body }
  throw notOjs(request, {
    status,
    attempts,
    requestId: headers['x-request-id'],
    retryAfter: retryAfterOf(headers['retry-after']),
  })
}

/** The body; `undefined`: it is not a JSON object (seed 001 §6.2). An empty body (204) counts as `{}`. */
function parse(text: string): Record<string, unknown> | undefined {
  if (text === '') return {}
  try {
    const value: unknown = JSON.parse(text)
    return isRecord(value) ? value : undefined
  } catch {
    return undefined
  }
}

/** Waits for `ms`. False: the signal fired first. */
function elapses(ms: number, signal: AbortSignal | undefined): Promise<boolean> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer)
      unsubscribe?.()
      resolve(!signal?.aborted)
    }
    const timer = setTimeout(end, Math.min(ms, MAX_DELAY_MS))
    const unsubscribe = signal && onAbort(signal, end)
    if (signal?.aborted) end()
  })
}

/** Describes a network error. Node.js has the reason, e.g. ECONNREFUSED, in `cause`; browsers tell none. */
function reasonOf(error: unknown): string {
  const cause = isRecord(error) ? error['cause'] : undefined
  const code = isRecord(cause) ? cause['code'] : undefined
  return `network error (${typeof code === 'string' ? code : String(error)})`
}

function plain(headers: { forEach(visit: (value: string, name: string) => void): void }) {
  const plainHeaders: Record<string, string> = {}
  headers.forEach((value, name) => {
    plainHeaders[name.toLowerCase()] = value
  })
  return plainHeaders
}

function lowerCase(headers: Readonly<Record<string, string>>): Record<string, string> {
  const entries = Object.entries(given(headers)).map(([name, value]) => [name.toLowerCase(), value])
  return Object.fromEntries(entries)
}

/**
 * Throws `TypeError` for invalid headers. `fetch` would throw for the same headers, but with the value,
 * perhaps a password, in the message, and as a network error, which would be retried.
 */
function checked(headers: Record<string, string>): Record<string, string> {
  for (const [name, value] of Object.entries(headers)) {
    if (!/^[!#$%&'*+.^_`|~0-9a-z-]+$/.test(name)) {
      throw new TypeError(`'${name}' is not a valid name of a header.`)
    }
    if (typeof value !== 'string')
      throw new TypeError(`The value of the header '${name}' must be a string.`)
    if (!/^[\t\x20-\x7e\x80-\xff]*$/.test(value)) {
      throw new TypeError(
        `The value of the header '${name}' contains characters that are not allowed.`,
      )
    }
  }
  return headers
}

async function* nothing(): AsyncGenerator<string, void, undefined> {
  // Nothing more comes.
}
