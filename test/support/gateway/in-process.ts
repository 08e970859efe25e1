import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readConfig } from '../../../src/config/config.ts'
import { type Gateway, startGateway } from '../../../src/gateway.ts'
import { createLogger } from '../../../src/logger.ts'
import { assertDescribed } from '../checker/answers.ts'
import { assertEnvelopes } from '../checker/envelope.ts'
import { newLedger, type TestLedger } from './test-ledger.ts'

// biome-ignore lint/suspicious/noExplicitAny: answers are read as a client would, member by member
type Json = any

export interface Answer {
  status: number
  headers: Headers
  body: Json
}

/** A whole gateway in the test's own process, on a free port, with a ledger of its own. */
export interface TestGateway {
  readonly url: string
  /** Only if it is on SQLite. */
  readonly ledgerPath: string
  /** To be read while it is stopped. */
  readonly ledger: TestLedger
  request(method: string, path: string, body?: unknown, headers?: object): Promise<Answer>
  push(queue: string, over?: object): Promise<Answer>
  fetch(queues: string[], over?: object): Promise<Json[]>
  ack(id: string, over?: object): Promise<Answer>
  get(id: string): Promise<Answer>
  cancel(id: string): Promise<Answer>
  /** Stops it for a while; `restart` starts another one. */
  stop(): Promise<void>
  /** Stops it and starts another one on the same ledger. */
  restart(env?: Record<string, string>): Promise<void>
  /** Stops it and removes the ledger. */
  destroy(): Promise<void>
}

export async function startTestGateway(
  amqpUrl: string,
  env: Record<string, string> = {},
  overrides: Parameters<typeof startGateway>[2] = {},
): Promise<TestGateway> {
  const dir = mkdtempSync(join(tmpdir(), 'ojs-gateway-'))
  const ledgerPath = join(dir, 'ojs.db')
  const ledger = await newLedger(ledgerPath, env['OJS_PREFIX'])
  const start = (more: Record<string, string>) => {
    const { config } = readConfig({
      OJS_PORT: '0',
      OJS_AMQP_URL: amqpUrl,
      ...ledger.variables,
      OJS_LOG_LEVEL: process.env['OJS_TEST_LOG'] ?? 'silent',
      ...env,
      ...more,
    })
    // Most tests are about what comes back through a retry queue, and use each retry queue once.
    const given = { retryQueueSettleMs: 0, ...overrides }
    return startGateway(config, createLogger(config.logLevel), given)
  }
  let gateway: Gateway = await start({})
  await untilHealthy(gateway.url)

  const request = async (method: string, path: string, body?: unknown, headers: object = {}) => {
    const response = await fetch(`${gateway.url}${path}`, {
      method,
      headers: { 'Content-Type': 'application/openjobspec+json', ...headers },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    const json = text.startsWith('{') ? JSON.parse(text) : text
    // In every test: a job in an answer must be a whole envelope.
    assertEnvelopes(path, json)
    // And every answer must be as the OpenAPI document says.
    assertDescribed({ method, path, status: response.status, body: json })
    return { status: response.status, headers: response.headers, body: json }
  }
  return {
    get url() {
      return gateway.url
    },
    ledgerPath,
    ledger,
    request,
    push: (queue, { options, ...over }: { options?: object } = {}) =>
      request('POST', '/ojs/v1/jobs', {
        type: 'test.job',
        args: [1],
        options: { queue, ...options },
        ...over,
      }),
    fetch: async (queues, over = {}) => {
      const answer = await request('POST', '/ojs/v1/workers/fetch', { queues, ...over })
      if (answer.status !== 200) throw new Error(`fetch: ${JSON.stringify(answer.body)}`)
      return answer.body.jobs
    },
    ack: (id, over = {}) => request('POST', '/ojs/v1/workers/ack', { job_id: id, ...over }),
    get: (id) => request('GET', `/ojs/v1/jobs/${id}`),
    cancel: (id) => request('DELETE', `/ojs/v1/jobs/${id}`),
    stop: () => gateway.stop(AbortSignal.timeout(10_000)),
    restart: async (more = {}) => {
      await gateway.stop(AbortSignal.timeout(10_000))
      gateway = await start(more)
      await untilHealthy(gateway.url)
    },
    destroy: async () => {
      await gateway.stop(AbortSignal.timeout(10_000))
      await ledger.remove()
      rmSync(dir, { recursive: true, force: true })
    },
  }
}

/** The gateway listens before RabbitMQ answers; tests need both. */
async function untilHealthy(url: string): Promise<void> {
  await eventually(async () => (await fetch(`${url}/ojs/v1/health`)).status === 200)
}

/** The real setTimeout, also while a test holds the gateway's timers. */
const wait = globalThis.setTimeout

/** Repeats the check until it is true; for what has no event to wait for. */
export async function eventually(
  condition: () => Promise<boolean> | boolean,
  timeoutMs = 30_000,
): Promise<void> {
  const deadline = performance.now() + timeoutMs
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error('did not become true in time')
    await new Promise((resolve) => wait(resolve, 25))
  }
}
