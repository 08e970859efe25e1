/** `ojs-rabbitmq serve`: runs the gateway until a signal, and stops it in time. */
import { readFileSync } from 'node:fs'
import { ConfigError, readConfig } from '../config/config.ts'
import { createLogger } from '../logger.ts'
import { type Command, complain, printable } from './command.ts'

/**
 * Chosen so that the process ends within 30 s: RabbitMQ may take 4 s more to close connections, and the
 * ledger is closed after that.
 */
const STOP_GRACE_MS = 24_000
const SIGNALS = ['SIGTERM', 'SIGINT'] as const
const PARENT_POLL_MS = 500

export const serveCommand: Command = {
  summary: 'run the gateway (configuration by OJS_* variables: ojs-rabbitmq --help)',
  usage: 'ojs-rabbitmq serve',
  async run(args, env) {
    if (args.length > 0) {
      console.error(`usage: ${serveCommand.usage}`)
      return 2
    }
    const read = configOrMistake(env)
    if (typeof read === 'string') {
      // A carriage return in a value would let the terminal overwrite the beginning of the line.
      console.error(read.split('\n').map(printable).join('\n'))
      return 1
    }
    const tooFew = tooFewOpenFiles()
    if (tooFew !== null) {
      complain(tooFew)
      return 1
    }
    const logger = createLogger(read.config.logLevel)
    for (const warning of read.warnings) logger.warn({}, warning)
    // Registered before anything is started, so that a signal during the start does not leave half a gateway.
    const stopRequested = firstSignal(env)
    try {
      // Imported here: loading takes half a second, for which no other command should wait.
      const { startGateway } = await import('../gateway.ts')
      const gateway = await startGateway(read.config, logger)
      const signal = await stopRequested
      logger.info({ signal }, 'stopping')
      await gateway.stop(AbortSignal.timeout(STOP_GRACE_MS))
      logger.info({}, 'stopped')
      return 0
    } catch (error) {
      logger.error({ err: error }, 'gateway failed')
      complain(error)
      return 1
    }
  },
}

function configOrMistake(env: NodeJS.ProcessEnv): ReturnType<typeof readConfig> | string {
  try {
    return readConfig(env)
  } catch (error) {
    if (error instanceof ConfigError) return error.message
    throw error
  }
}

/**
 * Resolves at the first SIGTERM or SIGINT, which drains the gateway. The handlers are removed then, so that a
 * second signal ends the process at once.
 */
function firstSignal(env: NodeJS.ProcessEnv): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    const receive = (signal: NodeJS.Signals) => {
      for (const each of SIGNALS) process.off(each, receive)
      resolve(signal)
    }
    for (const each of SIGNALS) process.on(each, receive)
    if (env['npm_lifecycle_event'] === 'npx') whenOrphaned(() => receive('SIGTERM'))
  })
}

/**
 * Calls `act` when the parent process has ended. npx does not forward SIGTERM: npx and its shell end, and the
 * gateway would run on unnoticed. A new parent process id reveals this.
 */
function whenOrphaned(act: () => void): void {
  const parent = process.ppid
  const timer = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(timer)
    act()
  }, PARENT_POLL_MS)
  timer.unref()
}

/** The start opens some 150 files at once; with fewer allowed, Node.js reports a package as not found. */
const LEAST = 256

/** Returns why the gateway cannot start; null when it can, or when the limit is unknown (not on Linux). */
export function tooFewOpenFiles(limits = limitsOfThisProcess()): string | null {
  const [, soft] = /^Max open files +(\d+)/m.exec(limits) ?? []
  if (soft === undefined || Number(soft) >= LEAST) return null
  return `only ${soft} files may be open at a time (ulimit -n), and the gateway needs at least ${LEAST}`
}

function limitsOfThisProcess(): string {
  try {
    return readFileSync('/proc/self/limits', 'utf8')
  } catch {
    return ''
  }
}
