import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { OjsError } from '../errors.ts'
import type { Service } from '../lifecycle.ts'
import type { Logger } from '../logger.ts'
import type { HttpObserver } from '../telemetry/exposition.ts'
import { createApp } from './app.ts'
import { exchangeClasses, type OjsRequest, type OjsResponse } from './exchange.ts'
import { parserError, refuse } from './parser-errors.ts'
import { sendError } from './render-error.ts'
import type { Route } from './route.ts'

/** How long and how much of what is not yet a request (ojs-digest §16). */
const CONNECTION_LIMITS = {
  headersTimeoutMs: 30_000,
  /** Headers and body together; not the time that the answer takes. */
  requestTimeoutMs: 60_000,
  /** Idle between two requests. Longer than the idle timeout of the usual load balancer (60 s). */
  keepAliveTimeoutMs: 120_000,
  /** How often Node looks for requests that are late. */
  timeoutCheckMs: 1_000,
  maxHeaderBytes: 16_384,
}

export type ConnectionLimits = typeof CONNECTION_LIMITS

export interface HttpServerOptions {
  host: string
  port: number
  routes: readonly Route[]
  logger: Logger
  observer: HttpObserver
  limits?: Partial<ConnectionLimits>
  /** Called when stop begins: whoever waits for work is to be answered now. */
  onStopping?: () => void
}

/** The HTTP door as a service. Stop answers what has been asked, then closes. */
export class HttpServer implements Service {
  readonly name = 'http'
  readonly #options: HttpServerOptions
  readonly #server: Server<typeof OjsRequest, typeof OjsResponse>
  readonly #app: ReturnType<typeof createApp>
  /** Every open connection, with the last exchange on it. */
  readonly #connections = new Map<Duplex, OjsResponse | undefined>()
  #isStopping = false
  #closed: Promise<unknown> = Promise.resolve()

  constructor(options: HttpServerOptions) {
    this.#options = options
    this.#app = createApp(options)
    const limits = { ...CONNECTION_LIMITS, ...options.limits }
    this.#server = createServer({
      ...exchangeClasses(this.#app),
      headersTimeout: limits.headersTimeoutMs,
      requestTimeout: limits.requestTimeoutMs,
      keepAliveTimeout: limits.keepAliveTimeoutMs,
      connectionsCheckingInterval: limits.timeoutCheckMs,
      maxHeaderSize: limits.maxHeaderBytes,
      noDelay: true,
      // A long poll's client that lost its power is noticed at all.
      keepAlive: true,
      keepAliveInitialDelay: 60_000,
      // The pipeline asks for it, and its answer is OJS.
      requireHostHeader: false,
    })
    // No limit: Node answers the request after the last one with a bare 503.
    this.#server.maxRequestsPerSocket = 0
    this.#listen()
  }

  /** Where the server listens; the configured address until it does. */
  url(): string {
    const { host, port } = this.#options
    const address = this.#server.address() as AddressInfo | null
    const name = host.includes(':') ? `[${host}]` : host
    return `http://${name}:${address?.port ?? port}`
  }

  async start(): Promise<void> {
    if (this.#server.listening) return
    this.#isStopping = false
    const { host, port } = this.#options
    this.#server.listen({ host, port })
    await once(this.#server, 'listening')
  }

  /** Idempotent. When `deadline` aborts, what is still open is cut off. */
  async stop(deadline: AbortSignal): Promise<void> {
    if (this.#server.listening) this.#beginStop()
    const cut = () => {
      for (const socket of this.#connections.keys()) socket.destroy()
    }
    if (deadline.aborted) cut()
    deadline.addEventListener('abort', cut)
    await this.#closed
    deadline.removeEventListener('abort', cut)
  }

  #beginStop(): void {
    this.#isStopping = true
    this.#closed = once(this.#server, 'close')
    // Stops accepting, and closes the connections that are idle between two requests.
    this.#server.close()
    this.#options.onStopping?.()
    for (const [socket, latest] of this.#connections) this.#drain(socket, latest)
  }

  /** The connection ends with the answer that is owed on it. */
  #drain(socket: Duplex, latest: OjsResponse | undefined): void {
    if (latest === undefined) {
      // Nothing has been asked here yet; Node counts such a connection as busy.
      socket.destroy()
      return
    }
    if (!latest.headersSent) latest.shouldKeepAlive = false
    if (!latest.writableFinished) latest.once('close', () => this.#server.closeIdleConnections())
  }

  #listen(): void {
    const server = this.#server
    server.on('connection', (socket) => this.#accept(socket))
    server.on('request', (request, response) => this.#handle(request, response))
    // `body.ts` says 100 when it wants the body; a refusal before that spares it.
    server.on('checkContinue', (request, response) => this.#handle(request, response))
    server.on('checkExpectation', (_request, response) => sendError(response, UNKNOWN_EXPECT))
    server.on('connect', (_request, socket) => this.#refuse(socket, NO_PROXY))
    server.on('clientError', (cause, socket) => this.#clientError(cause, socket))
    server.on('error', (err) => this.#serverError(err))
  }

  #accept(socket: Socket): void {
    // Each of many pipelined FETCHes watches its socket.
    socket.setMaxListeners(0)
    this.#connections.set(socket, undefined)
    socket.once('close', () => this.#connections.delete(socket))
  }

  #handle(request: OjsRequest, response: OjsResponse): void {
    this.#connections.set(request.socket, response)
    if (this.#isStopping) response.shouldKeepAlive = false
    const target = originForm(request.url ?? '/')
    if (target === undefined) {
      sendError(response, BAD_TARGET)
      return
    }
    request.url = target
    this.#app(request, response)
  }

  #clientError(cause: Error & { code?: string }, socket: Duplex): void {
    // Everything that a refused client goes on sending is reported here again.
    if (socket.writableEnded) return
    const error = parserError(cause)
    if (error === undefined) socket.destroy()
    else this.#refuse(socket, error)
  }

  #refuse(socket: Duplex, error: OjsError): void {
    refuse(socket, error, this.#connections.get(socket))
  }

  /** Once it listens this is the listening socket's own trouble (EMFILE): serving goes on. */
  #serverError(err: Error): void {
    if (this.#server.listening) this.#options.logger.error({ err }, 'http server')
  }
}

const UNKNOWN_EXPECT = new OjsError('invalid_request', 'Only 100-continue can be expected.', {
  status: 417,
  details: { field: 'Expect' },
})
const NO_PROXY = new OjsError('invalid_request', 'CONNECT is not allowed here.', {
  status: 405,
  details: { method: 'CONNECT' },
})
const BAD_TARGET = new OjsError('invalid_request', 'The request target is not a valid URL.', {
  details: { field: 'path' },
})

/** `http://host/path`, which a server must accept as well, as `/path` (RFC 9112 §3.2.2). */
function originForm(target: string): string | undefined {
  if (target.startsWith('/') || target === '*') return target
  if (!URL.canParse(target)) return undefined
  const { pathname, search } = new URL(target)
  return pathname.startsWith('/') ? pathname + search : undefined
}
