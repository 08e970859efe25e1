import { createServer, type Server } from 'node:http'
import { createServer as createTlsServer, type Server as TlsServer } from 'node:https'
import type { Application } from 'express'
import { exchangeClasses, type OjsRequest, type OjsResponse } from './exchange.ts'
import type { TlsMaterial } from './tls.ts'

/** How long and how much of what is not yet a request (ojs-digest §16). */
export const CONNECTION_LIMITS = {
  /** From the connection, or from the answer before: a silent client is cut off too. */
  headersTimeoutMs: 30_000,
  /** Headers and body together; not the time that the answer takes. */
  requestTimeoutMs: 60_000,
  /** Idle between two requests. Longer than the idle timeout of the usual load balancer (60 s). */
  keepAliveTimeoutMs: 120_000,
  /** A client that does not read its answer holds memory; cut off after two to three of these. */
  stallTimeoutMs: 60_000,
  /** How often Node looks for requests that are late. */
  timeoutCheckMs: 1_000,
  maxHeaderBytes: 16_384,
}

export type ConnectionLimits = typeof CONNECTION_LIMITS

export type Listener =
  | Server<typeof OjsRequest, typeof OjsResponse>
  | TlsServer<typeof OjsRequest, typeof OjsResponse>

/** Not listening yet. With `tls` it speaks HTTPS only; with a CA, only to whom the CA knows. */
export function createListener(
  app: Application,
  limits: ConnectionLimits,
  tls: TlsMaterial | undefined,
): Listener {
  const options = {
    ...exchangeClasses(app),
    headersTimeout: limits.headersTimeoutMs,
    requestTimeout: limits.requestTimeoutMs,
    keepAliveTimeout: limits.keepAliveTimeoutMs,
    connectionsCheckingInterval: limits.timeoutCheckMs,
    maxHeaderSize: limits.maxHeaderBytes,
    noDelay: true,
    // A long poll's client that lost its power is noticed at all.
    keepAlive: true,
    keepAliveInitialDelay: 60_000,
    // The pipeline asks for it, and its answer is OJS.
    requireHostHeader: false,
  }
  const server =
    tls === undefined
      ? createServer(options)
      : createTlsServer({
          ...options,
          ...tls,
          minVersion: 'TLSv1.2',
          requestCert: tls.ca !== undefined,
          rejectUnauthorized: tls.ca !== undefined,
          handshakeTimeout: limits.headersTimeoutMs,
        })
  // No limit but their bytes: those behind the thousandth would be obeyed by the parser and not be shown to us.
  server.maxHeadersCount = 0
  // No limit: Node answers the request after the last one with a bare 503.
  server.maxRequestsPerSocket = 0
  return server
}
