import type { ConnectionOptions } from 'node:tls'
import { expect, onTestFinished } from 'vitest'
import { HttpServer, type HttpServerOptions } from '../../src/http/http-server.ts'
import { answer } from '../../src/http/message/respond.ts'
import type { Route } from '../../src/http/route.ts'
import type { Logger } from '../../src/logger.ts'
import { deferred } from '../support/time/deferred.ts'
import { type RawAnswer, RawClient } from './raw-client.ts'

export const OJS = 'application/openjobspec+json'
export const UUID_V7 = /^req_[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

/** Everybody may do everything. */
export const OPEN: HttpServerOptions['access'] = {
  apiKeys: [],
  corsOrigins: [],
  rateLimit: undefined,
}

export interface LogLine {
  level: string
  fields: Record<string, unknown>
  message: string
}

export function recordingLogger(): Logger & { lines: LogLine[] } {
  const lines: LogLine[] = []
  const write = (level: string) => (fields: object, message: string) => {
    lines.push({ level, fields: { ...fields }, message })
  }
  return {
    lines,
    debug: write('debug'),
    info: write('info'),
    warn: write('warn'),
    error: write('error'),
  }
}

export interface Frame {
  server: HttpServer
  port: number
  url: string
  log: LogLine[]
  done: { route: string; method: string; status: number; seconds: number }[]
  client(tls?: ConnectionOptions): Promise<RawClient>
  /** Sends one request on a new connection and returns its answer. */
  ask(bytes: string | Buffer): Promise<RawAnswer>
}

/** Starts a real server on a free port with the given routes. It is stopped when the test ends. */
export async function serve(
  routes: readonly Route[],
  options: Partial<HttpServerOptions> = {},
): Promise<Frame> {
  const logger = recordingLogger()
  const done: Frame['done'] = []
  const server = new HttpServer({
    host: '127.0.0.1',
    port: 0,
    routes,
    logger,
    access: OPEN,
    now: Date.now,
    onStopping() {},
    audit() {},
    observer: {
      requestDone: (route, method, status, seconds) => {
        done.push({ route, method, status, seconds })
      },
    },
    ...options,
  })
  return startFrame(server, logger.lines, done)
}

/** A route that answers when the test calls `open`. */
export function slowRoute(): { slow: Route; entered: Promise<void>; open(): void } {
  const request = deferred()
  const permission = deferred()
  const slow: Route = {
    method: 'GET',
    path: '/slow',
    async handle(_request, response) {
      request.resolve()
      await permission.promise
      answer(response, 200, '{"slow":true}')
    },
  }
  return { slow, entered: request.promise, open: permission.resolve }
}

export async function startFrame(
  server: HttpServer,
  log: LogLine[] = [],
  done: Frame['done'] = [],
): Promise<Frame> {
  await server.start()
  onTestFinished(() => server.stop(AbortSignal.abort()))
  const port = Number(new URL(server.url()).port)
  const client = async (tls?: ConnectionOptions) => {
    const connected = await RawClient.connect(port, tls)
    onTestFinished(() => connected.destroy())
    return connected
  }
  const ask = async (bytes: string | Buffer) => {
    const one = await client()
    one.send(bytes)
    const answered = await one.answer(String(bytes).startsWith('HEAD '))
    one.destroy()
    return answered
  }
  return { server, port, url: server.url(), log, done, client, ask }
}

/** Options for `expect.poll`; generous, so that a test does not fail on a busy machine. */
export const EVENTUALLY = { timeout: 15_000, interval: 5 }

export interface ErrorBody {
  code: string
  message: string
  retryable: boolean
  details?: Record<string, unknown>
  request_id: string
  type?: string
  hint?: string
  docs_url?: string
}

/** Checks what every error answer has in common, and returns `error`. */
export function errorOf(answer: RawAnswer): ErrorBody {
  expect(answer.headers).toMatchObject({ 'ojs-version': '1.0', 'content-type': OJS })
  const { error }: { error: ErrorBody } = JSON.parse(answer.body)
  expect(error.request_id).toBe(answer.headers['x-request-id'])
  expect(error.request_id).not.toBe('')
  expect(error.message).not.toBe('')
  return error
}
