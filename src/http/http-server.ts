/** The HTTP door as a service: listens, admits requests to the pipeline, answers the last ones, closes. */
import { once } from 'node:events'
import { type AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { OjsError } from '../errors.ts'
import type { Service } from '../lifecycle.ts'
import type { Logger } from '../logger.ts'
import type { HttpObserver } from '../telemetry/exposition.ts'
import { type AccessConfig, isLoopback } from './access/access-config.ts'
import { RequestAdmission } from './access/admission.ts'
import type { Sessions } from './access/sessions.ts'
import type { TlsMaterial } from './access/tls.ts'
import { type AppOptions, createApp } from './app.ts'
import { Connections } from './connection/connections.ts'
import { handshakeLog } from './connection/handshake-log.ts'
import {
  CONNECTION_LIMITS,
  type ConnectionLimits,
  createListener,
  type Listener,
} from './connection/listener.ts'
import { parserError, refuse } from './connection/parser-errors.ts'
import { ADMITTED, type Admission } from './message/admission.ts'
import { sendError } from './message/render-error.ts'
import type { OjsRequest, OjsResponse } from './message/request.ts'
import type { Route } from './route.ts'

export interface HttpServerOptions {
  host: string
  /** 0 = any free port; `url()` shows which. */
  port: number
  routes: readonly Route[]
  logger: Logger
  observer: HttpObserver
  access: Omit<AccessConfig, 'tls'>
  tls?: TlsMaterial | undefined
  /** Of the console, where it is on. */
  sessions?: Sessions | undefined
  /** The clock of rate limits: milliseconds since 1970, which never go back. */
  now(): number
  /** Keeps a record of who did what. */
  audit: AppOptions['audit']
  otherwise?: AppOptions['otherwise']
  /** Only tests change these. */
  limits?: Partial<ConnectionLimits>
  /** Called when stop begins: FETCHes that wait for jobs must be answered now. */
  onStopping(): void
}

/** The HTTP door as a service. Stop answers the requests that have arrived, then closes. */
export class HttpServer implements Service {
  readonly name = 'http'
  readonly #options: HttpServerOptions
  readonly #server: Listener
  readonly #app: ReturnType<typeof createApp>
  /** Undefined when neither keys nor a rate limit are configured. */
  readonly #gate: RequestAdmission | undefined
  readonly #connections: Connections
  readonly #logHandshake: ReturnType<typeof handshakeLog>
  #isStopping = false
  #closed: Promise<unknown> = Promise.resolve()

  constructor(options: HttpServerOptions) {
    this.#options = options
    const isTls = options.tls !== undefined
    this.#app = createApp({ ...options, isTls, isLoopback: isLoopback(options.host) })
    const limits = { ...CONNECTION_LIMITS, ...options.limits }
    this.#server = createListener(this.#app, limits, options.tls)
    this.#connections = new Connections(this.#server, {
      isTls,
      stallTimeoutMs: limits.stallTimeoutMs,
    })
    this.#gate = gateOf(options)
    this.#logHandshake = handshakeLog(options.logger, options.now)
    this.#listen()
  }

  /** True once stop has begun. */
  get isStopping(): boolean {
    return this.#isStopping
  }

  /**
   * The URL that the server listens on; before it listens, the configured one. No client can connect to "all
   * addresses" (`0.0.0.0`, `::`); there, the URL is made of `reachedAs`, the `Host` of the request that asks.
   */
  url(reachedAs?: string): string {
    const { host, port } = this.#options
    const address = this.#server.address() as AddressInfo | null
    const name = host.includes(':') ? `[${host}]` : host
    const scheme = this.#options.tls === undefined ? 'http' : 'https'
    const asked = `${scheme}://${reachedAs}`
    if (reachedAs !== undefined && ALL_ADDRESSES.has(host) && URL.canParse(asked)) {
      return new URL(asked).origin
    }
    return `${scheme}://${name}:${address?.port ?? port}`
  }

  /** Throws when the address is taken or does not belong to this machine. */
  async start(): Promise<void> {
    if (this.#server.listening) return
    this.#isStopping = false
    const { host, port } = this.#options
    this.#server.listen({ host, port })
    try {
      await once(this.#server, 'listening')
    } catch (error) {
      // Node's message has the address, but not the variables that it comes from.
      if (error instanceof Error) error.message += ' (OJS_HOST, OJS_PORT)'
      throw error
    }
  }

  /** Idempotent. When `deadline` aborts, open connections are cut off. */
  async stop(deadline: AbortSignal): Promise<void> {
    if (this.#server.listening) this.#beginStop()
    const cut = () => this.#connections.cut()
    if (deadline.aborted) cut()
    deadline.addEventListener('abort', cut)
    await this.#closed
    deadline.removeEventListener('abort', cut)
  }

  #beginStop(): void {
    this.#isStopping = true
    this.#closed = once(this.#server, 'close')
    // Stops accepting connections.
    this.#server.close()
    this.#options.onStopping()
    this.#connections.drain()
  }

  #listen(): void {
    const server = this.#server
    server.on('request', (request, response) => this.#handle(request, response))
    // `body.ts` sends 100 Continue when it wants the body. A client that is refused before need not send its
    // body.
    server.on('checkContinue', (request, response) => this.#handle(request, response))
    server.on('checkExpectation', (request, response) =>
      this.#handle(request, response, UNKNOWN_EXPECT),
    )
    server.on('connect', (_request, socket) => this.#refuse(socket, NO_PROXY))
    server.on('clientError', (cause, socket) => this.#clientError(cause, socket))
    server.on('error', (err) => this.#serverError(err))
  }

  #handle(request: OjsRequest, response: OjsResponse, refusal?: OjsError): void {
    // Its connection has had its last answer, a 408 for one: whoever sent it would never hear what became of it.
    if (request.socket.writableEnded) {
      request.resume()
      return
    }
    this.#connections.begin(response)
    if (this.#isStopping) response.shouldKeepAlive = false
    const target = originForm(request)
    if (target !== undefined) request.url = target
    if (this.#gate !== undefined) request.admission = this.#gate.admit(request)
    const unusable = target === undefined ? BAD_TARGET : refusal
    if (unusable === undefined) this.#app(request, response)
    else sendError(response, request.admission.refusal ?? unusable)
  }

  #clientError(cause: Error & { code?: string }, socket: Duplex): void {
    // Node reports here again whatever a refused client goes on sending.
    if (socket.writableEnded) return
    const error = parserError(cause)
    if (error !== undefined) {
      this.#refuse(socket, error)
      return
    }
    this.#logHandshake(cause, socket)
    socket.destroy()
  }

  #refuse(socket: Duplex, error: OjsError): void {
    refuse(socket, error, {
      latest: this.#connections.latest(socket),
      admit: () => this.#admitUnread(socket),
    })
  }

  #admitUnread(socket: Duplex): Admission {
    const address = socket instanceof Socket ? socket.remoteAddress : undefined
    return this.#gate?.admitUnread(address ?? '') ?? ADMITTED
  }

  /** Logs errors of the listening socket (EMFILE), which goes on serving. `start` throws earlier errors. */
  #serverError(err: Error): void {
    if (this.#server.listening) this.#options.logger.error({ err }, 'HTTP server error')
  }
}

const ALL_ADDRESSES: ReadonlySet<string> = new Set(['0.0.0.0', '::'])

/** Undefined when no gate is needed, so that the hot path does not pay for one. */
function gateOf({ access, sessions, now }: HttpServerOptions): RequestAdmission | undefined {
  const { apiKeys, rateLimit } = access
  const isOpen = apiKeys.length === 0 && rateLimit === undefined
  return isOpen ? undefined : new RequestAdmission({ keys: apiKeys, rateLimit, sessions, now })
}

const UNKNOWN_EXPECT = new OjsError('invalid_request', 'The Expect header must be 100-continue.', {
  status: 417,
  details: { field: 'Expect' },
})
const NO_PROXY = new OjsError('invalid_request', 'The method CONNECT is not supported.', {
  status: 405,
  details: { method: 'CONNECT' },
})
const BAD_TARGET = new OjsError('invalid_request', 'The request target is not a valid URL.', {
  details: { field: 'path' },
})

/**
 * Converts the absolute form `http://host/path`, which a server must accept too, to `/path`. Its host
 * replaces the `Host` header (RFC 9112 §3.2.2). Undefined for a target that is not a valid URL.
 */
function originForm({ url: target = '/', headers }: OjsRequest): string | undefined {
  if (target.startsWith('/') || target === '*') return target
  if (!URL.canParse(target)) return undefined
  const { host, pathname, search } = new URL(target)
  // A missing `Host` stays missing, so that `requireHost` still refuses the request.
  if (headers.host !== undefined) headers.host = host
  return pathname.startsWith('/') ? pathname + search : undefined
}
