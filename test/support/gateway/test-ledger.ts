import { randomUUID } from 'node:crypto'
import { copyFileSync } from 'node:fs'
import { testVariables } from '../../../scripts/test/environment.mjs'
import type { Ledger } from '../../../src/ledger/ledger.ts'
import { type PostgresAddress, readAddress } from '../../../src/ledger/postgres/address.ts'
import { type Connection, connectWritable } from '../../../src/ledger/postgres/connection.ts'
import { openPostgresLedger } from '../../../src/ledger/postgres/open.ts'
import { schemaOf } from '../../../src/ledger/postgres/schema.ts'
import { openSqliteLedger } from '../../../src/ledger/sqlite/open.ts'
import { openDatabase } from '../../../src/ledger/sqlite/sql/driver.ts'
import { SILENT } from '../time/silent.ts'

/** `npm test -- --ledger postgres`: the gateways of all tests have their ledgers on PostgreSQL. */
export const isOnPostgres = process.env[testVariables.ledger] === 'postgres'

// biome-ignore lint/suspicious/noExplicitAny: rows are read member by member
type Row = any

/** The ledger of one gateway of the tests. */
export interface TestLedger {
  /** For `OJS_LEDGER`. */
  readonly url: string
  /** For a gateway: the ledger, and no warning that the machine of a test may be lost. */
  readonly variables: Readonly<Record<string, string>>
  /** While no gateway runs, as the rest. */
  open(): Promise<Ledger>
  /** The rows of a statement, which may also write. `onPostgres`: where PostgreSQL's tables differ. */
  rows(text: string, onPostgres?: string): Promise<Row[]>
  /** Resolves to what puts the ledger back to what it is now. */
  backUp(): Promise<() => Promise<void>>
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
    variables: { OJS_LEDGER: `sqlite:${path}` },
    open: () => openSqliteLedger({ path, sync: 'full', logger: SILENT }),
    async rows(text) {
      const db = await openDatabase(path)
      try {
        return db.prepare(text).all()
      } finally {
        db.close()
      }
    },
    async backUp() {
      const copy = `${path}.backup`
      copyFileSync(path, copy)
      return async () => copyFileSync(copy, path)
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
  const admin = onHosts('postgres')
  const copies: string[] = []
  const drop = (database: string) => ask(admin, `DROP DATABASE IF EXISTS ${database} WITH (FORCE)`)
  await ask(server, `CREATE DATABASE ${name}`)
  const path = `SET search_path TO ${schemaOf(prefix)}`
  return {
    url: onHosts(name),
    variables: { OJS_LEDGER: onHosts(name), OJS_LEDGER_REPLICATED: '1' },
    open: () => openPostgresLedger({ address: addressOf(onHosts(name)), prefix, logger: SILENT }),
    rows: (text, onPostgres = text) => ask(onHosts(name), path, onPostgres),
    async backUp() {
      const copy = `${name}_${copies.length}`
      await ask(admin, `CREATE DATABASE ${copy} TEMPLATE ${name}`)
      copies.push(copy)
      return async () => {
        await drop(name)
        await ask(admin, `CREATE DATABASE ${name} TEMPLATE ${copy}`)
      }
    },
    remove: async () => void (await Promise.all([name, ...copies].map(drop))),
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
  return connectWritable(addressOf(url), { connectMs: 30_000, answerMs: 60_000 })
}

function addressOf(url: string): PostgresAddress {
  const mistakes: string[] = []
  const address = readAddress(url, mistakes)
  if (!address) throw new Error(mistakes.join())
  return address
}
