import { ConfigError, readConfig } from '../config.ts'
import { createLogger } from '../logger.ts'
import { type Command, complain, printable } from './command.ts'
import { tooFewOpenFiles } from './open-files.ts'

/** It ends within 30 s: RabbitMQ may need 4 more to close connections, and the ledger is closed after that. */
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
      // A carriage return in a value would hide what is before it.
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
    // Before anything is started: a signal during the start must not leave half a gateway.
    const stopRequested = firstSignal(env)
    try {
      // Half a second's loading that no other command should wait for.
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

/** The first SIGTERM or SIGINT drains; the second, of either, finds Node's default again and ends it. */
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
 * npx hands on no SIGTERM: it ends, with the shell between, and what it ran would go on unnoticed.
 * Being handed to another parent tells.
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
