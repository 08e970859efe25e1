import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { OjsResponse } from './exchange.ts'
import type { Listener } from './listener.ts'

/** What a body that is on its way still has when the server stops. */
const BODY_MS = 5_000
/**
 * What a connection without a request still has when the server stops: a next request may be on its way,
 * and to close before it is read resets the connection. Under load one comes within that, and its answer
 * says that it is the last (RFC 9112 §9.6).
 */
const IDLE_MS = 100

interface ConnectionsOptions {
  isTls: boolean
  stallTimeoutMs: number
}

/** Every open connection of a server, with the last exchange on it. */
export class Connections {
  readonly #server: Listener
  readonly #latest = new Map<Socket, OjsResponse | undefined>()
  /** TLS: connections whose handshake is not through, by their peer; Node shows them nowhere. */
  readonly #handshakes = new Map<string, Socket>()

  constructor(server: Listener, { isTls, stallTimeoutMs }: ConnectionsOptions) {
    this.#server = server
    // `server.close()` calls it first, and would reset a connection whose next request is on its way.
    server.closeIdleConnections = () => {}
    this.#watchStalled(stallTimeoutMs)
    if (!isTls) {
      server.on('connection', (socket) => this.#accept(socket))
      return
    }
    server.on('connection', (socket) => this.#awaitHandshake(socket))
    server.on('secureConnection', (socket: Socket) => {
      this.#handshakes.delete(peerOf(socket))
      this.#accept(socket)
    })
  }

  /** Those too whose handshake is not through. */
  get size(): number {
    return this.#latest.size + this.#handshakes.size
  }

  begin(response: OjsResponse): void {
    this.#latest.set(response.req.socket, response)
  }

  latest(socket: Duplex): OjsResponse | undefined {
    return socket instanceof Socket ? this.#latest.get(socket) : undefined
  }

  /** Each ends with the answer that is owed on it. The server has been told to close. */
  drain(): void {
    for (const socket of this.#handshakes.values()) socket.destroy()
    for (const [socket, latest] of this.#latest) this.#drain(socket, latest)
  }

  /** After `drain`, which has left no handshake. */
  cut(): void {
    for (const socket of this.#latest.keys()) socket.destroy()
  }

  /**
   * Not `server.timeout`: a timer that each read and write starts anew costs 1.5 µs per request.
   * This way only a connection that has been writing for a while gets one; it heeds the progress of
   * a large write, which nothing else shows, and the end of the answer takes it off again.
   */
  #watchStalled(timeoutMs: number): void {
    let timer: NodeJS.Timeout | undefined
    this.#server.on('listening', () => {
      timer = setInterval(() => this.#suspect(timeoutMs), timeoutMs / 2).unref()
    })
    this.#server.on('close', () => clearInterval(timer))
    this.#server.on('timeout', (socket) => {
      // With an error: Node calls an answer written that it throws away with its connection.
      socket.destroy(new Error('no progress on this connection'))
    })
  }

  #suspect(timeoutMs: number): void {
    for (const [socket, latest] of this.#latest) {
      const isWriting = latest?.headersSent === true && !latest.writableFinished
      // Set anew it would start from the beginning.
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
    // Each of many pipelined FETCHes watches its socket.
    socket.setMaxListeners(0)
    this.#latest.set(socket, undefined)
    socket.once('close', () => this.#latest.delete(socket))
  }

  #drain(socket: Socket, latest: OjsResponse | undefined): void {
    if (!isBusy(latest)) {
      // A process that stood still reads what has come meanwhile only after its timers.
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
    // Nothing has been asked here, or nothing more; Node counts such a connection as busy once a part of
    // a request has come, and waits for the rest.
    if (isBusy(latest)) this.#drain(socket, latest)
    else socket.destroy()
  }

  /** Its body had a few seconds more to come. */
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
