/** The HTTP or HTTPS server of Node.js with its limits of time and size; it does not listen yet. */
import { constants } from 'node:crypto'
import { createServer, type Server } from 'node:http'
import { createServer as createTlsServer, type Server as TlsServer } from 'node:https'
import { DEFAULT_CIPHERS } from 'node:tls'
import type { Application } from 'express'
import type { TlsMaterial } from '../access/tls.ts'
import { type OjsRequest, type OjsResponse, requestClasses } from '../message/request.ts'

/** Limits of time and size for incoming requests and idle connections (OJS security). */
export const CONNECTION_LIMITS = {
  /** Counted from the connection or from the previous answer, so that a silent client is cut off too. */
  headersTimeoutMs: 30_000,
  /** For headers and body together; the time until the answer does not count. */
  requestTimeoutMs: 60_000,
  /** Idle time between two requests; longer than the usual load balancer's idle timeout (60 s). */
  keepAliveTimeoutMs: 120_000,
  /** A client that does not read its answer holds memory: it is cut off after two to three of these. */
  stallTimeoutMs: 60_000,
  /** How often Node looks for requests that are late. */
  timeoutCheckMs: 1_000,
  maxHeaderBytes: 16_384,
}

/**
 * Of TLS 1.2 only ciphers with forward secrecy and authenticated encryption: not those with static RSA or CBC,
 * which Node has, too. A list of the operator's own (`--tls-cipher-list`) wins.
 */
const CIPHERS =
  DEFAULT_CIPHERS === constants.defaultCoreCipherList
    ? [
        ...['TLS_AES_256_GCM_SHA384', 'TLS_CHACHA20_POLY1305_SHA256', 'TLS_AES_128_GCM_SHA256'],
        ...['ECDHE+AESGCM', 'ECDHE+CHACHA20'],
      ].join(':')
    : DEFAULT_CIPHERS

export type ConnectionLimits = typeof CONNECTION_LIMITS

export type Listener =
  | Server<typeof OjsRequest, typeof OjsResponse>
  | TlsServer<typeof OjsRequest, typeof OjsResponse>

/**
 * Creates a server that does not listen yet. With `tls`: HTTPS only; with a CA, only for clients with a
 * certificate of that CA.
 */
export function createListener(
  app: Application,
  limits: ConnectionLimits,
  tls: TlsMaterial | undefined,
): Listener {
  const options = {
    ...requestClasses(app),
    headersTimeout: limits.headersTimeoutMs,
    requestTimeout: limits.requestTimeoutMs,
    keepAliveTimeout: limits.keepAliveTimeoutMs,
    connectionsCheckingInterval: limits.timeoutCheckMs,
    maxHeaderSize: limits.maxHeaderBytes,
    noDelay: true,
    // TCP keep-alive: otherwise nothing would notice that the client of a long poll has lost its power.
    keepAlive: true,
    keepAliveInitialDelay: 60_000,
    // The pipeline checks it (`requireHost`), with an answer that is OJS.
    requireHostHeader: false,
  }
  const server =
    tls === undefined
      ? createServer(options)
      : createTlsServer({
          ...options,
          ...tls,
          minVersion: 'TLSv1.2',
          ciphers: CIPHERS,
          requestCert: tls.ca !== undefined,
          rejectUnauthorized: tls.ca !== undefined,
          handshakeTimeout: limits.headersTimeoutMs,
        })
  // A client may close its side after its request, and still read the answer. Otherwise Node would end its own
  // side before that (`connections.ts` for TLS).
  Object.assign(server, { httpAllowHalfOpen: true })
  // No limit on their number, only on their bytes: Node's parser would act on headers after the thousandth
  // without showing them to us.
  server.maxHeadersCount = 0
  // No limit: Node would answer the first request beyond it with a bare 503.
  server.maxRequestsPerSocket = 0
  return server
}
