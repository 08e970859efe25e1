import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { OjsResponse } from './exchange.ts'
import type { Listener } from './listener.ts'

/** Every open connection of a server, with the last exchange on it. */
export class Connections {
  readonly #server: Listener
  readonly #latest = new Map<Duplex, OjsResponse | undefined>()
  /** TLS: connections whose handshake is not through, by their peer; Node shows them nowhere. */
  readonly #handshakes = new Map<string, Socket>()

  constructor(server: Listener, isTls: boolean) {
    this.#server = server
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

  begin(response: OjsResponse): void {
    this.#latest.set(response.req.socket, response)
  }

  latest(socket: Duplex): OjsResponse | undefined {
    return this.#latest.get(socket)
  }

  /** Each ends with the answer that is owed on it. The server has been told to close. */
  drain(): void {
    for (const socket of this.#handshakes.values()) socket.destroy()
    for (const [socket, latest] of this.#latest) this.#drain(socket, latest)
  }

  cut(): void {
    for (const socket of this.#handshakes.values()) socket.destroy()
    for (const socket of this.#latest.keys()) socket.destroy()
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

  #drain(socket: Duplex, latest: OjsResponse | undefined): void {
    if (latest === undefined) {
      // Nothing has been asked here yet; Node counts such a connection as busy.
      socket.destroy()
      return
    }
    if (!latest.headersSent) latest.shouldKeepAlive = false
    if (!latest.writableFinished) latest.once('close', () => this.#server.closeIdleConnections())
  }
}

function peerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`
}
