import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** A smaller one costs less than the connection that it waits on. */
export const LARGE_BYTES = 65_536

/** What one connection has not taken yet. */
interface Held {
  bytes: number
}

/**
 * Large answers that their clients have not read. Each is in memory until then, and a packet of 64 kB
 * asks for four hundred of them. Where all together are too much, the connection that holds most is
 * cut: its client reads nothing, or asks for more than it can read.
 */
export class UnsentAnswers {
  readonly #maxBytes: number
  readonly #byConnection = new Map<Socket, Held>()
  #bytes = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** Before the answer is written. False: its connection is gone, or is cut now. */
  hold(response: ServerResponse, bytes: number): boolean {
    const { socket } = response.req
    if (socket.destroyed) return false
    const held = this.#byConnection.get(socket) ?? this.#heldBy(socket)
    held.bytes += bytes
    this.#bytes += bytes
    response.once('finish', () => {
      if (this.#byConnection.get(socket) !== held) return
      held.bytes -= bytes
      this.#bytes -= bytes
    })
    if (this.#bytes > this.#maxBytes) this.#cutLargest()
    return !socket.destroyed
  }

  #heldBy(socket: Socket): Held {
    const held = { bytes: 0 }
    this.#byConnection.set(socket, held)
    socket.once('close', () => this.#forget(socket))
    return held
  }

  #cutLargest(): void {
    const [largest] = [...this.#byConnection].sort(([, a], [, b]) => b.bytes - a.bytes)
    if (largest === undefined) return
    const [socket] = largest
    this.#forget(socket)
    // With an error: Node calls an answer written that it throws away with its connection.
    socket.destroy(new Error('too much is waiting to be read'))
  }

  #forget(socket: Socket): void {
    this.#bytes -= this.#byConnection.get(socket)?.bytes ?? 0
    this.#byConnection.delete(socket)
  }
}
