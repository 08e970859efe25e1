/** Closing a connection whose client is still sending, so that it can read its answer first. */
import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'

/** A refused client that sends nothing for this long is cut off, at the next look. */
const SILENT_MS = 2_000
/**
 * How long it may go on sending. 2 MiB of a larger body take 17 s at 1 Mbit/s, and many clients read the
 * answer only after they have sent everything.
 */
const LINGER_MS = 30_000

/**
 * Ends our side and discards what still arrives, until the client has closed too. Closing at once would reset
 * the connection while the client is still sending, and the client would never read its answer (RFC 9112
 * §9.6).
 */
export function closeLingering(socket: Duplex): void {
  socket.end()
  socket.resume()
  const until = performance.now() + LINGER_MS
  let received = receivedBy(socket)
  const looks = setInterval(() => {
    const before = received
    received = receivedBy(socket)
    if (received === before || performance.now() > until) socket.destroy()
  }, SILENT_MS)
  socket.once('close', () => clearInterval(looks))
}

/** The same for a connection that Node is going to close after its last answer. */
export function lingerAfterAnswer(socket: Socket): void {
  socket.destroySoon = () => closeLingering(socket)
}

/** In bytes. */
function receivedBy(socket: Duplex): number {
  return socket instanceof Socket ? socket.bytesRead : 0
}
