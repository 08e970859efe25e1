import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, existsSync, mkdtempSync, openSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { beforeAll } from 'vitest'
import { freePort } from '../../../scripts/process/ports.mjs'
import { guard, unguard } from '../../../scripts/process/processes.mjs'
import { type Vhost, vhostForAll } from '../broker/rabbit.ts'
import { forAll } from '../time/late.ts'
import { OjsClient } from './client.ts'
import { eventually } from './in-process.ts'
import { type LogLine, LogTail } from './log-tail.ts'
import { newLedger, type TestLedger } from './test-ledger.ts'

const MAIN = fileURLToPath(new URL('../../../dist/main.js', import.meta.url))
const START_TIMEOUT_MS = 30_000
const STOP_TIMEOUT_MS = 30_000
const SERVING = 'gateway listening'
/** As one that waits beside another on the same ledger; on one of its own, until the process before is known to be gone. */
const WAITING = 'standing by'

export interface GatewayOptions {
  amqpUrl: string
  /** One that it shares with another gateway, and that stays. Absent: one of its own. */
  ledger?: TestLedger
  /** More environment variables. */
  env?: Readonly<Record<string, string>>
}

/** A gateway process of the test's own, with a ledger in a temporary folder. */
export class Gateway {
  readonly dir = mkdtempSync(join(tmpdir(), 'ojs-gateway-'))
  /** Only if it is on SQLite. */
  readonly ledgerPath = join(this.dir, 'ojs.db')
  readonly client = new OjsClient(() => this.url)
  readonly #logPath = join(this.dir, 'gateway.log')
  readonly #options: GatewayOptions
  /** Kept over restarts: a port from the kernel could belong to another process by then. */
  readonly #port: number
  #ledger: TestLedger | undefined
  #log: LogTail | undefined
  #child: ChildProcess | undefined
  #exited: Promise<number | null> = Promise.resolve(null)
  #url = ''

  private constructor(options: GatewayOptions, port: number) {
    this.#options = options
    this.#port = port
  }

  static async start(options: GatewayOptions): Promise<Gateway> {
    const gateway = new Gateway(options, await freePort())
    gateway.#ledger =
      options.ledger ?? (await newLedger(gateway.ledgerPath, options.env?.['OJS_PREFIX']))
    await gateway.#start({})
    return gateway
  }

  get url(): string {
    return this.#url
  }

  /** To be read while the gateway does not run. */
  get ledger(): TestLedger {
    if (this.#ledger === undefined) throw new Error('the gateway has not been started')
    return this.#ledger
  }

  get log(): LogTail {
    this.#log ??= new LogTail(this.#logPath)
    return this.#log
  }

  /** True from the start until the process is gone. */
  get isRunning(): boolean {
    return this.#child !== undefined
  }

  /** The gateway listens before RabbitMQ answers; most tests need both. */
  untilHealthy(): Promise<void> {
    return eventually(async () => (await this.client.health()).status === 200)
  }

  /** The next log line with this message and for which `wanted` is true; throws when the process ends first. */
  untilLogged(
    msg: string,
    timeoutMs = 10_000,
    wanted: (line: LogLine) => boolean = () => true,
  ): Promise<LogLine> {
    return this.log.next((line) => line.msg === msg && wanted(line), {
      what: `the gateway to log "${msg}"`,
      timeoutMs,
      ended: () => (this.isRunning ? undefined : 'it ended'),
    })
  }

  /** SIGKILL; resolves when the process is gone. */
  async kill9(): Promise<void> {
    this.#child?.kill('SIGKILL')
    await this.#exited
  }

  /** SIGSTOP: as if its machine stood still. */
  freeze(): void {
    this.#child?.kill('SIGSTOP')
  }

  thaw(): void {
    this.#child?.kill('SIGCONT')
  }

  /** Sends SIGTERM; returns the exit code, or null when the process had to be killed. */
  async stop(): Promise<number | null> {
    const child = this.#child
    child?.kill('SIGTERM')
    const timer = setTimeout(() => child?.kill('SIGKILL'), STOP_TIMEOUT_MS)
    const code = await this.#exited
    clearTimeout(timer)
    return code
  }

  /** Starts the gateway again with the same ledger and port, after `kill9` or `stop`. */
  async restart(env: Readonly<Record<string, string>> = {}): Promise<void> {
    await this.stop()
    await this.#start(env)
  }

  /** Ends the process, if it runs, and removes the folder. */
  async dispose(): Promise<void> {
    this.client.close()
    await this.kill9()
    if (this.#options.ledger === undefined) await this.#ledger?.remove()
    rmSync(this.dir, { recursive: true, force: true })
  }

  async #start(env: Readonly<Record<string, string>>): Promise<void> {
    if (!existsSync(MAIN)) throw new Error(`${MAIN} is not built: npx tsc -p src`)
    // Appended to, so that the lines before a restart stay in the file.
    const log = openSync(this.#logPath, 'a')
    this.#child = spawn(process.execPath, [MAIN, 'serve'], {
      cwd: this.dir,
      env: { ...foreignVariables(), ...this.#variables(), ...env },
      stdio: ['ignore', log, log],
    })
    closeSync(log)
    this.#watch(this.#child)
    const isShared = (this.#options.ledger ?? this.#options.env?.['OJS_LEDGER']) !== undefined
    const isUp = ({ msg }: LogLine) => msg === SERVING || (isShared && msg === WAITING)
    const { url } = await this.log.next(isUp, {
      what: 'the gateway to listen',
      timeoutMs: START_TIMEOUT_MS,
      ended: () => (this.isRunning ? undefined : 'it ended'),
    })
    if (typeof url !== 'string') throw new Error('"gateway listening" has no url')
    this.#url = url
  }

  #watch(child: ChildProcess): void {
    const { pid } = child
    if (pid !== undefined) guard(pid)
    this.#exited = new Promise((resolve) => {
      child.once('error', () => resolve(null))
      child.once('exit', (code) => resolve(code))
    })
    void this.#exited.then(() => {
      if (pid !== undefined) unguard(pid)
      if (this.#child === child) this.#child = undefined
    })
  }

  #variables(): Record<string, string> {
    return {
      OJS_PORT: String(this.#port),
      OJS_AMQP_URL: this.#options.amqpUrl,
      ...this.ledger.variables,
      ...this.#options.env,
    }
  }
}

/** A gateway process on a vhost of its own, for all tests of the file or `describe` that calls this. */
export function gatewayProcessForAll(): { vhost: Vhost; gateway: Gateway } {
  const vhost = vhostForAll()
  const gateway = forAll(
    () => Gateway.start({ amqpUrl: vhost.url }),
    (started) => started.dispose(),
  )
  beforeAll(() => gateway.untilHealthy())
  return { vhost, gateway }
}

/** The environment of this process, without the variables that mean something to a gateway. */
function foreignVariables(): NodeJS.ProcessEnv {
  const foreign = Object.entries(process.env).filter(
    ([name]) => !name.startsWith('OJS_') && name !== 'AMQP_URL' && name !== 'NODE_OPTIONS',
  )
  return Object.fromEntries(foreign)
}
