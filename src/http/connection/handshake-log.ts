/** Failed TLS handshakes in the log, because the client is not told why. */
import type { Duplex } from 'node:stream'
import { TLSSocket } from 'node:tls'
import type { Logger } from '../../logger.ts'
import { LineBudget } from '../../telemetry/line-budget.ts'

type HandshakeLog = (cause: Error & { code?: string }, socket: Duplex) => void

/**
 * Logs failed TLS handshakes. When Node refuses a client's certificate (expired, of another CA), it closes
 * the connection without a message, so the client cannot tell why. Clients that merely hang up, as a load
 * balancer's probe does, are not logged.
 */
export function handshakeLog(logger: Logger, now: () => number): HandshakeLog {
  const lines = new LineBudget((suppressed) =>
    logger.warn({ suppressed }, 'more TLS handshakes failed'),
  )
  return (cause, socket) => {
    if (!(socket instanceof TLSSocket)) return
    // The types say Error, but at runtime it is a string with the code.
    const reason = String(socket.authorizationError ?? cause.code)
    if (socket.authorizationError === null && !reason.startsWith('ERR_SSL_')) return
    const suppressed = lines.take(now())
    if (suppressed === undefined) return
    logger.warn({ address: addressOf(socket), reason, ...suppressed }, 'TLS handshake failed')
  }
}

/**
 * A closed TLS socket has lost its address; the TCP socket below has cached it (`connections.ts` read it).
 */
function addressOf(socket: TLSSocket): string | undefined {
  const below: unknown = Reflect.get(socket, '_parent')
  return socket.remoteAddress ?? (below as TLSSocket | null)?.remoteAddress
}
