/** Brings a ledger's schema in PostgreSQL up to date, in one transaction, one gateway at a time. */
import type { Answer, Connection, Statement } from './connection.ts'
import { sql as slots } from './migrations/0001-slots.ts'
import { sql as jobs } from './migrations/0002-jobs.ts'
import { sql as queues } from './migrations/0003-queues.ts'
import { sql as history } from './migrations/0004-history.ts'
import { sql as keys } from './migrations/0005-keys.ts'
import { sql as cron } from './migrations/0006-cron.ts'
import { sql as search } from './migrations/0007-search.ts'
import { sql as workflows } from './migrations/0008-workflows.ts'
import { sql as leader } from './migrations/0010-leader.ts'
import { sql as slotBefore } from './migrations/0011-slot-before.ts'
import { sql as endedSteps } from './migrations/0012-ended-steps.ts'
import { failureOf } from './sql-errors.ts'

export interface Migration {
  /** With `%S` for the ledger's schema. */
  sql: string
  /**
   * The oldest version whose code works on the schema after this migration: during a rolling upgrade the old
   * gateways go on. What they use may only go away one release later (expand, then contract).
   */
  minReader: number
}

/** In order; the number of a migration is its place, starting at 1. Never edit a released one. */
export const MIGRATIONS: readonly Migration[] = [
  { sql: slots, minReader: 1 },
  { sql: jobs, minReader: 2 },
  { sql: queues, minReader: 3 },
  { sql: history, minReader: 4 },
  { sql: keys, minReader: 5 },
  { sql: cron, minReader: 6 },
  { sql: search, minReader: 6 },
  { sql: workflows, minReader: 7 },
  { sql: leader, minReader: 8 },
  { sql: slotBefore, minReader: 8 },
  { sql: endedSteps, minReader: 8 },
]

/** The schema is of a newer gateway, and this one does not understand it. */
export class SchemaTooNew extends Error {
  override readonly name = 'SchemaTooNew'
}

/** Which keep every text; the second one, of clusters that were made without a locale, keeps any bytes. */
const ENCODINGS = ['UTF8', 'SQL_ASCII']

/** The database cannot keep every text. */
export class WrongEncoding extends Error {
  override readonly name = 'WrongEncoding'
}

/** What another gateway committed while this one waited for the lock has to be seen. */
const BEGIN: Statement = { text: 'BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE' }

/**
 * Applies what is missing of `migrations` and returns the versions before and after (0: a new ledger). A newer
 * schema stays as it is if it allows this version; else rejects with `SchemaTooNew`. If anything fails, the
 * schema stays as it was. Rejects with `WrongEncoding` before that.
 */
export async function migrate(
  connection: Connection,
  schema: string,
  migrations = MIGRATIONS,
): Promise<{ from: number; to: number }> {
  await requireEncoding(connection)
  try {
    await all(connection, [BEGIN, lock(schema), ...bookkeeping(schema)])
    const found = await versionOf(connection, schema)
    const known = migrations.length
    if (found.minReader > known) throw new SchemaTooNew(tooNew(schema, found, known))
    await all(connection, missing(schema, migrations, found.version))
    await commit(connection)
    return { from: found.version, to: Math.max(found.version, known) }
  } catch (error) {
    await connection.ask([{ text: 'ROLLBACK' }])
    throw error
  }
}

async function requireEncoding(connection: Connection): Promise<void> {
  const [answer] = await all(connection, [{ text: 'SHOW server_encoding' }])
  const encoding = String(answer?.rows[0]?.['server_encoding'])
  if (ENCODINGS.includes(encoding)) return
  throw new WrongEncoding(
    `the encoding of the database is ${encoding}, but a ledger needs UTF8: ` +
      `CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0`,
  )
}

/** Until the end of the transaction. By name: two prefixes may migrate at the same time. */
function lock(schema: string): Statement {
  return {
    text: 'SELECT pg_advisory_xact_lock(hashtextextended($1, 0))',
    values: [`ojs-rabbitmq migrations ${schema}`],
  }
}

function bookkeeping(schema: string): Statement[] {
  // One row, so that a reader can lock it.
  const table = `CREATE TABLE IF NOT EXISTS ${schema}.schema_version (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    version int NOT NULL,
    min_reader int NOT NULL)`
  return [{ text: `CREATE SCHEMA IF NOT EXISTS ${schema}` }, { text: table }]
}

interface Version {
  version: number
  minReader: number
}

async function versionOf(connection: Connection, schema: string): Promise<Version> {
  const text = `SELECT version, min_reader AS "minReader" FROM ${schema}.schema_version`
  const [answer] = await all(connection, [{ text }])
  return (answer?.rows[0] as Version | undefined) ?? { version: 0, minReader: 0 }
}

function missing(schema: string, migrations: readonly Migration[], version: number): Statement[] {
  const steps = migrations.slice(version)
  const last = steps.at(-1)
  if (last === undefined) return []
  const text = `INSERT INTO ${schema}.schema_version (version, min_reader) VALUES ($1, $2)
    ON CONFLICT (only_row) DO UPDATE SET version = excluded.version, min_reader = excluded.min_reader`
  const note = { text, values: [migrations.length, last.minReader] }
  return [...steps.map(({ sql }) => ({ text: sql.replaceAll('%S', schema) })), note]
}

async function commit(connection: Connection): Promise<void> {
  const [answer] = await all(connection, [{ text: 'COMMIT' }])
  if (answer?.command !== 'COMMIT') throw new Error('the migration was rolled back')
}

/** Throws why the first failed. */
async function all(connection: Connection, statements: Statement[]): Promise<Answer[]> {
  const results = await connection.ask(statements)
  const failure = failureOf(results)
  if (failure) throw failure.error
  return results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []))
}

function tooNew(schema: string, { version, minReader }: Version, known: number): string {
  return (
    `the ledger ${schema} was migrated by a newer ojs-rabbitmq ` +
    `(schema ${version}, for gateways that know ${minReader} or later; this one knows ${known})`
  )
}
