/** The public entry `ojs-rabbitmq/testing`: RabbitMQ and a gateway for integration tests. Node.js only. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { readConfig } from '../config/config.ts'
import { type Gateway, startGateway } from '../gateway.ts'
import { createLogger } from '../logger.ts'
import { type RabbitMqContainer, startRabbitMqContainer } from './rabbitmq-container.ts'

export interface TestServerOptions {
  /** An AMQP URL of a RabbitMQ that runs already. Without it one is started in Docker, by `testcontainers` 11 or newer. */
  amqpUrl?: string
  /** The image of RabbitMQ: an official one with a tag of your choice. Default: `rabbitmq:4.3-management`. */
  image?: string
  /** Settings of the gateway, `OJS_*`. Defaults: a free port, an empty ledger in a temporary directory, no log. */
  env?: Record<string, string>
  /** How long RabbitMQ and the gateway may take to start, in ms. Default: 120,000; the first start downloads the image. */
  timeoutMs?: number
}

export interface TestServer extends AsyncDisposable {
  /** Base URL of the gateway, for `OJSClient` and `OJSWorker`. */
  readonly url: string
  /** For native workers and producers. */
  readonly amqpUrl: string
  /** Ends the gateway and the container, and removes the ledger. May be called twice. */
  stop(): Promise<void>
}

const START_TIMEOUT_MS = 120_000
const STOP_TIMEOUT_MS = 10_000

/**
 * Starts RabbitMQ (in Docker, or the given one) and a gateway in this process, and resolves when the gateway is
 * healthy. Nothing is left behind by a start that fails.
 *
 * @throws {Error} without a Docker engine, without the package `testcontainers`, with settings that are wrong, or
 * when the gateway is not healthy in time
 */
export async function startTestServer(options: TestServerOptions = {}): Promise<TestServer> {
  const { amqpUrl, image, env = {}, timeoutMs = START_TIMEOUT_MS } = options
  const started: (() => Promise<unknown>)[] = []
  const stop = async () => {
    for (const end of started.splice(0).reverse()) await end()
  }
  try {
    const broker = amqpUrl ? undefined : await startRabbitMqContainer({ image, timeoutMs })
    if (broker) started.push(() => broker.stop())
    const dir = await mkdtemp(join(tmpdir(), 'ojs-testing-'))
    started.push(() => rm(dir, { recursive: true, force: true }))
    const settings = { ...defaults(dir), ...env, OJS_AMQP_URL: urlOf(amqpUrl, broker) }
    const gateway = await start(settings)
    started.push(() => gateway.stop(AbortSignal.timeout(STOP_TIMEOUT_MS)))
    await untilHealthy(gateway.url, timeoutMs)
    return {
      url: gateway.url,
      amqpUrl: settings.OJS_AMQP_URL,
      stop,
      [Symbol.asyncDispose]: stop,
    }
  } catch (error) {
    await stop()
    throw error
  }
}

function defaults(dir: string): Record<string, string> {
  return { OJS_PORT: '0', OJS_LEDGER: `sqlite:${join(dir, 'ojs.db')}`, OJS_LOG_LEVEL: 'silent' }
}

function urlOf(given: string | undefined, broker: RabbitMqContainer | undefined): string {
  const url = given ?? broker?.amqpUrl
  if (url === undefined) throw new Error('RabbitMQ was not started')
  return url
}

function start(settings: Record<string, string>): Promise<Gateway> {
  const { config } = readConfig(settings)
  return startGateway(config, createLogger(config.logLevel))
}

/** The gateway listens before RabbitMQ has answered. */
async function untilHealthy(url: string, timeoutMs: number): Promise<void> {
  const deadline = performance.now() + timeoutMs
  for (;;) {
    const answer = await fetch(`${url}/ojs/v1/health`)
    if (answer.ok) return
    if (performance.now() > deadline) {
      throw new Error(`The gateway is not healthy after ${timeoutMs} ms: ${await answer.text()}`)
    }
    await sleep(50)
  }
}
