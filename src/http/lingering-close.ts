import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'

/** How long a refused client may go on sending before it is cut off. */
const LINGER_MS = 2_000

/**
 * Ends our side and throws away what still comes, until the client has closed too. Closing at once
 * would reset the connection under a client that is still sending, and it would never read its
 * answer (RFC 9112 §9.6).
 */
export function closeLingering(socket: Duplex): void {
  socket.end()
  socket.resume()
  const timer = setTimeout(() => socket.destroy(), LINGER_MS)
  socket.once('close', () => clearTimeout(timer))
}

/** The same for a connection that Node closes when its last answer is written. */
export function lingerAfterAnswer(socket: Socket): void {
  socket.destroySoon = () => closeLingering(socket)
}
