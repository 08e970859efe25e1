/** Open connections: drained at a stop, cut off when the client has stopped reading. */
import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { OjsResponse } from '../message/request.ts'
import type { Listener } from './listener.ts'

/** How long an incoming body may still take when the server stops. */
const BODY_MS = 5_000
/**
 * How long an idle connection stays open when the server stops. Its next request may be on its way, and
 * closing before that is read would reset the connection. Under load a request arrives within this time, and
 * its answer announces the close (RFC 9112 §9.6).
 */
const IDLE_MS = 100

interface ConnectionsOptions {
  isTls: boolean
  stallTimeoutMs: number
}

/** All open connections of a server, each with its last exchange. */
export class Connections {
  readonly #server: Listener
  readonly #latest = new Map<Socket, OjsResponse | undefined>()
  /** TLS: connections that have not finished their handshake, by peer. Node offers no list of them. */
  readonly #handshakes = new Map<string, Socket>()

  constructor(server: Listener, { isTls, stallTimeoutMs }: ConnectionsOptions) {
    this.#server = server
    // `server.close()` calls this, which would reset connections whose next request is on its way.
    server.closeIdleConnections = () => {}
    this.#watchStalled(stallTimeoutMs)
    if (!isTls) {
      server.on('connection', (socket) => this.#accept(socket))
      return
    }
    server.on('connection', (socket) => this.#awaitHandshake(socket))
    server.on('secureConnection', (socket: Socket) => {
      // Not as an option of the server: a connection that ends before its handshake would stay.
      socket.allowHalfOpen = true
      this.#handshakes.delete(peerOf(socket))
      this.#accept(socket)
    })
  }

  /** Includes connections that have not finished their TLS handshake. */
  get size(): number {
    return this.#latest.size + this.#handshakes.size
  }

  begin(response: OjsResponse): void {
    this.#latest.set(response.req.socket, response)
  }

  latest(socket: Duplex): OjsResponse | undefined {
    return socket instanceof Socket ? this.#latest.get(socket) : undefined
  }

  /** Closes each connection after the answer that it owes. Call `server.close()` before. */
  drain(): void {
    for (const socket of this.#handshakes.values()) socket.destroy()
    for (const [socket, latest] of this.#latest) this.#drain(socket, latest)
  }

  /** Destroys all connections. Call after `drain`, which has destroyed those in their handshake. */
  cut(): void {
    for (const socket of this.#latest.keys()) socket.destroy()
  }

  /**
   * Closes connections whose client has stopped reading. `server.timeout` is not used: each read and write
   * would restart its timer, at 1.5 µs per request. Here only a connection that has been writing for a while
   * gets a socket timeout. That timeout notices the progress of a large write, which nothing else shows, and
   * Node removes it at the end of the answer.
   */
  #watchStalled(timeoutMs: number): void {
    let timer: NodeJS.Timeout | undefined
    this.#server.on('listening', () => {
      timer = setInterval(() => this.#suspect(timeoutMs), timeoutMs / 2).unref()
    })
    this.#server.on('close', () => clearInterval(timer))
    this.#server.on('timeout', (socket) => {
      // With an error: Node emits `finish` for the answer that it discards here, and `observe.ts` can tell it
      // by this error.
      socket.destroy(new Error('no progress on this connection'))
    })
  }

  #suspect(timeoutMs: number): void {
    for (const [socket, latest] of this.#latest) {
      const isWriting = latest?.headersSent === true && !latest.writableFinished
      // Setting it again would restart its timer.
      if (isWriting && socket.timeout !== timeoutMs) socket.setTimeout(timeoutMs)
    }
  }

  #awaitHandshake(socket: Socket): void {
    const peer = peerOf(socket)
    this.#handshakes.set(peer, socket)
    socket.once('close', () => {
      if (this.#handshakes.get(peer) === socket) this.#handshakes.delete(peer)
    })
  }

  #accept(socket: Socket): void {
    // Every pipelined FETCH listens to its socket, and there may be many.
    socket.setMaxListeners(0)
    this.#latest.set(socket, undefined)
    socket.once('close', () => this.#latest.delete(socket))
    // No request can follow, so its answer is the last one.
    socket.once('end', () => {
      const latest = this.#latest.get(socket)
      if (latest?.headersSent === false) latest.shouldKeepAlive = false
    })
  }

  #drain(socket: Socket, latest: OjsResponse | undefined): void {
    if (!isBusy(latest)) {
      // `setImmediate`: after a pause of the process, timers run before the data that arrived meanwhile is
      // read.
      const close = () => setImmediate(() => this.#closeIdle(socket))
      setTimeout(close, IDLE_MS).unref()
      return
    }
    if (!latest.req.complete) setTimeout(() => this.#giveUp(socket, latest), BODY_MS).unref()
    if (!latest.headersSent) latest.shouldKeepAlive = false
    latest.once('close', () => this.#drain(socket, this.#latest.get(socket)))
  }

  #closeIdle(socket: Socket): void {
    const latest = this.#latest.get(socket)
    // No request is under way, though a part of one may have arrived. Node would count such a connection as
    // busy and wait for the rest.
    if (isBusy(latest)) this.#drain(socket, latest)
    else socket.destroy()
  }

  /** Destroys a connection whose body has not arrived within `BODY_MS`. */
  #giveUp(socket: Socket, latest: OjsResponse): void {
    if (!latest.req.complete && this.#latest.get(socket) === latest) socket.destroy()
  }
}

function isBusy(latest: OjsResponse | undefined): latest is OjsResponse {
  return latest !== undefined && !latest.writableFinished
}

function peerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`
}
