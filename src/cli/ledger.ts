/** `ojs-rabbitmq ledger`: checks a ledger, and copies one between SQLite and PostgreSQL, while no gateway runs. */
import { ConfigError, readConfig } from '../config/config.ts'
import { checkLedger } from '../ledger/transfer/check.ts'
import { copyLedger } from '../ledger/transfer/copy.ts'
import { postgresStore } from '../ledger/transfer/postgres-store.ts'
import { sqliteStore } from '../ledger/transfer/sqlite-store.ts'
import type { Store } from '../ledger/transfer/store.ts'
import { createLogger, type Logger } from '../logger.ts'
import { type Command, complain, print, printable } from './command.ts'

const USAGE = `ojs-rabbitmq ledger check LEDGER | copy FROM TO
  LEDGER, FROM, TO: sqlite:PATH, or postgres: for the one of OJS_LEDGER or OJS_LEDGER_FILE (and OJS_PREFIX)`

export const ledgerCommand: Command = {
  summary: 'check a ledger, or copy it between SQLite and PostgreSQL, while no gateway runs',
  usage: USAGE,
  async run([action, ...places], env) {
    const logger = createLogger('error')
    try {
      if (action === 'check' && places.length === 1) return await check(places, env, logger)
      if (action === 'copy' && places.length === 2) return await copy(places, env, logger)
    } catch (error) {
      // Of a name of a ledger, or of what it stands for: nothing was opened.
      if (error instanceof ConfigError) {
        console.error(printable(error.message))
        return 2
      }
      complain(error)
      return 1
    }
    console.error(`usage: ${USAGE}`)
    return 2
  },
}

interface Opening {
  env: NodeJS.ProcessEnv
  logger: Logger
  /** Of SQLite: it is made. */
  isNew?: boolean
  isAlone?: boolean
}

/** An argument with a password would be in the list of processes. */
function open(
  place: string,
  { env, logger, isNew = false, isAlone = true }: Opening,
): Promise<Store> {
  if (place.startsWith('sqlite:')) {
    const { ledger } = readConfig({ OJS_LEDGER: place }).config
    if (ledger.type === 'sqlite') return sqliteStore(ledger.path, logger, isNew)
  }
  const { OJS_LEDGER, OJS_LEDGER_FILE, OJS_PREFIX } = env
  const { ledger, prefix } = readConfig({ OJS_LEDGER, OJS_LEDGER_FILE, OJS_PREFIX }).config
  if (!/^postgres(ql)?:$/i.test(place) || ledger.type !== 'postgres')
    throw new ConfigError(
      'name a ledger as sqlite:PATH, or as postgres: with its address in OJS_LEDGER or OJS_LEDGER_FILE',
    )
  return postgresStore({ address: ledger.address, prefix }, logger, isAlone)
}

async function check(
  [place = '']: readonly string[],
  env: NodeJS.ProcessEnv,
  logger: Logger,
): Promise<number> {
  const store = await open(place, { env, logger, isAlone: false })
  try {
    const { jobs, erased, owedMessages, problems } = await checkLedger(store)
    const kept = erased > 0 ? `, ${erased} rows of deleted jobs` : ''
    print(`${store.shown}: ${jobs} jobs, ${owedMessages} owed messages${kept}`)
    for (const problem of problems) print(printable(problem))
    return problems.length === 0 ? 0 : 1
  } finally {
    await store.close()
  }
}

async function copy(
  [from = '', to = '']: readonly string[],
  env: NodeJS.ProcessEnv,
  logger: Logger,
): Promise<number> {
  const source = await open(from, { env, logger })
  try {
    const target = await open(to, { env, logger, isNew: true })
    try {
      for (const { table, rows } of await copyLedger(source, target))
        if (rows > 0) print(`${table}: ${rows}`)
      print(`${source.shown} is now also in ${target.shown}, compared row by row.`)
      return 0
    } finally {
      await target.close()
    }
  } finally {
    await source.close()
  }
}
