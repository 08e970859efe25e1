import { join } from 'node:path'
import { afterAll, beforeAll } from 'vitest'
import { findPostgresBin } from '../../../scripts/postgres/postgres-package.mjs'
import { PrivatePostgres } from '../../../scripts/postgres/private-postgres.mjs'
import { testVariables } from '../../../scripts/test/environment.mjs'
import { type PostgresAddress, readAddress } from '../../../src/ledger/postgres/address.ts'
import { type Connection, connectWritable } from '../../../src/ledger/postgres/connection.ts'
import { temporaryDirectory } from '../../support/temporary-directory.ts'

export const PASSWORD = 'p@ss/w:rd #%'
export const TIMEOUTS = { connectMs: 30_000, answerMs: 60_000 }

/** The URL of the run's PostgreSQL, which other files use too; without a run, of one for this file. */
export function sharedPostgres(): () => string {
  const url = process.env[testVariables.postgresUrl]
  if (url !== undefined) return () => url
  const server = usePostgres()
  return () => server.url()
}

/** A PostgreSQL for the tests of one file, to kill or to set. Its processes may be killed, never the machine: nothing is synced. */
export function usePostgres(settings: Record<string, string> = {}) {
  const bin = findPostgresBin()
  if (!bin) throw new Error('no PostgreSQL: apt-get install postgresql')
  const directory = temporaryDirectory()
  const dir = join(directory.path, 'pg')
  const server = new PrivatePostgres({
    bin,
    dir,
    password: PASSWORD,
    settings: { fsync: 'off', ...settings },
  })
  beforeAll(() => server.start())
  afterAll(async () => {
    await server.stop()
    directory.remove()
  })
  return server
}

export function addressOf(url: string): PostgresAddress {
  const mistakes: string[] = []
  const address = readAddress(url, mistakes)
  if (!address) throw new Error(mistakes.join())
  return address
}

export function connectTo(url: string, timeouts = TIMEOUTS): Promise<Connection> {
  return connectWritable(addressOf(url), timeouts)
}

/** The rows of one statement; throws why it failed. */
export async function rowsOf(connection: Connection, text: string, values?: unknown[]) {
  const [result] = await connection.ask([values ? { text, values } : { text }])
  if (result?.status !== 'fulfilled') throw result?.reason
  return result.value.rows
}
