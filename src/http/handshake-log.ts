import type { Duplex } from 'node:stream'
import { TLSSocket } from 'node:tls'
import type { Logger } from '../logger.ts'
import { LineBudget } from '../telemetry/line-budget.ts'

type HandshakeLog = (cause: Error & { code?: string }, socket: Duplex) => void

/**
 * Node cuts off whose certificate it refuses (expired, of another CA) without a word, so the client
 * cannot tell why. Who only hangs up, as the probe of a balancer does, is no news.
 */
export function handshakeLog(logger: Logger, now: () => number): HandshakeLog {
  const lines = new LineBudget((suppressed) =>
    logger.warn({ suppressed }, 'more TLS handshakes failed'),
  )
  return (cause, socket) => {
    if (!(socket instanceof TLSSocket)) return
    // A code, whatever its type says.
    const reason = String(socket.authorizationError ?? cause.code)
    if (socket.authorizationError === null && !reason.startsWith('ERR_SSL_')) return
    const suppressed = lines.take(now())
    if (suppressed === undefined) return
    logger.warn({ address: addressOf(socket), reason, ...suppressed }, 'TLS handshake failed')
  }
}

/** One that is closed has forgotten it; what it was made of has not (`connections.ts` has asked). */
function addressOf(socket: TLSSocket): string | undefined {
  const below: unknown = Reflect.get(socket, '_parent')
  return socket.remoteAddress ?? (below as TLSSocket | null)?.remoteAddress
}
