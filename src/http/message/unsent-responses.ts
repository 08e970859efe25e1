/** A bound on the memory of large answers that clients have not read. */
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** In bytes. Smaller answers cost less memory than their connection. */
export const LARGE_BYTES = 65_536

/** What one connection has not sent yet. */
interface Held {
  bytes: number
}

/**
 * Limits the memory of large answers that clients have not read. Each answer stays in memory until it is
 * sent, and one 64 kB packet can hold four hundred pipelined requests. When all answers together exceed the
 * limit, the connection that holds most is cut: its client does not read, or asks for more than it can read.
 */
export class UnsentResponses {
  readonly #maxBytes: number
  readonly #byConnection = new Map<Socket, Held>()
  #bytes = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** Call before the answer is written. False when the connection is gone or has just been cut. */
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
    // With an error: Node emits `finish` for the answer that it discards here, and `observe.ts` can tell it
    // by this error.
    socket.destroy(new Error('too much is waiting to be read'))
  }

  #forget(socket: Socket): void {
    this.#bytes -= this.#byConnection.get(socket)?.bytes ?? 0
    this.#byConnection.delete(socket)
  }
}
