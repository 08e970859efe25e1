import { randomUUID } from 'node:crypto'
import { testVariables } from '../../../scripts/test/environment.mjs'
import { readAddress } from '../../../src/ledger/postgres/address.ts'
import { type Connection, connectWritable } from '../../../src/ledger/postgres/connection.ts'
import { schemaOf } from '../../../src/ledger/postgres/schema.ts'
import { openDatabase } from '../../../src/ledger/sqlite/sql/driver.ts'

/** `npm test -- --ledger postgres`: the gateways of all tests have their ledgers on PostgreSQL. */
export const isOnPostgres = process.env[testVariables.ledger] === 'postgres'

// biome-ignore lint/suspicious/noExplicitAny: rows are read member by member
type Row = any

/** The ledger of one gateway of the tests. */
export interface TestLedger {
  /** For `OJS_LEDGER`. */
  readonly url: string
  /** The rows of a statement, while no gateway runs. `onPostgres`: where PostgreSQL's tables differ. */
  rows(text: string, onPostgres?: string): Promise<Row[]>
  remove(): Promise<void>
}

/** `path`: the file, if it is one. `prefix`: `OJS_PREFIX` of the gateway. */
export function newLedger(path: string, prefix?: string): Promise<TestLedger> {
  if (!isOnPostgres) return Promise.resolve(ownFile(path))
  const server = process.env[testVariables.postgresUrl]
  if (server === undefined) throw new Error('no PostgreSQL: npm test -- --ledger postgres …')
  return databaseOn(server, { prefix })
}

function ownFile(path: string): TestLedger {
  return {
    url: `sqlite:${path}`,
    async rows(text) {
      const db = await openDatabase(path)
      try {
        return db.prepare(text).all()
      } finally {
        db.close()
      }
    },
    // It goes with its folder.
    remove: async () => {},
  }
}

interface DatabaseOptions {
  /** URLs of its replicas. */
  replicas?: readonly string[]
  /** `OJS_PREFIX` of the gateways. */
  prefix?: string | undefined
}

/** A database of its own on this server: the prefix, which names the schema, is also that of the queues. */
export async function databaseOn(
  server: string,
  { replicas = [], prefix = '' }: DatabaseOptions = {},
): Promise<TestLedger> {
  const name = `ojs_${randomUUID().replaceAll('-', '')}`
  const hosts = [server, ...replicas].map((url) => new URL(url).host).join()
  const onHosts = (database: string) => {
    const own = new URL(server)
    own.pathname = `/${database}`
    return own.href.replace(`@${own.host}`, `@${hosts}`)
  }
  await ask(server, `CREATE DATABASE ${name}`)
  const path = `SET search_path TO ${schemaOf(prefix)}`
  const drop = `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`
  return {
    url: onHosts(name),
    rows: (text, onPostgres = text) => ask(onHosts(name), path, onPostgres),
    remove: async () => void (await ask(onHosts('postgres'), drop)),
  }
}

/** The rows of the last statement, on the writable host. */
export async function ask(url: string, ...texts: string[]): Promise<Row[]> {
  const connection = await connectionTo(url)
  try {
    const answers = await connection.ask(texts.map((text) => ({ text })))
    const last = answers.at(-1)
    const failed = answers.find(({ status }) => status === 'rejected')
    if (failed?.status === 'rejected') throw failed.reason
    return last?.status === 'fulfilled' ? [...last.value.rows] : []
  } finally {
    await connection.close()
  }
}

function connectionTo(url: string): Promise<Connection> {
  const mistakes: string[] = []
  const address = readAddress(url, mistakes)
  if (!address) throw new Error(mistakes.join())
  return connectWritable(address, { connectMs: 30_000, answerMs: 60_000 })
}
