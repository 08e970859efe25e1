import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'

/** How long a refused client may go on sending before it is cut off. */
const LINGER_MS = 2_000

/**
 * Ends our side and discards what still arrives, until the client has closed too. Closing at once would reset
 * the connection while the client is still sending, and the client would never read its answer (RFC 9112
 * §9.6).
 */
export function closeLingering(socket: Duplex): void {
  socket.end()
  socket.resume()
  const timer = setTimeout(() => socket.destroy(), LINGER_MS)
  socket.once('close', () => clearTimeout(timer))
}

/** The same for a connection that Node is going to close after its last answer. */
export function lingerAfterAnswer(socket: Socket): void {
  socket.destroySoon = () => closeLingering(socket)
}
