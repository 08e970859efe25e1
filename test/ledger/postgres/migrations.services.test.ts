import { randomUUID } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import {
  MIGRATIONS,
  migrate,
  SchemaTooNew,
  WrongEncoding,
} from '../../../src/ledger/postgres/migrations.ts'
import { schemaOf } from '../../../src/ledger/postgres/schema.ts'
import { connectTo, rowsOf, sharedPostgres } from './server.ts'

const url = sharedPostgres()
/** The server may have been used before. */
const RUN = randomUUID().slice(0, 8)

const ONE = { sql: 'CREATE TABLE %S.one (id int)', minReader: 1 }
const TWO = { sql: 'CREATE TABLE %S.two (id int)', minReader: 1 }
const CONTRACT = { sql: 'DROP TABLE %S.one', minReader: 3 }

const of = (prefix: string) => schemaOf(`${prefix}-${RUN}`)

async function tablesOf(schema: string) {
  const connection = await connectTo(url())
  const rows = await rowsOf(
    connection,
    `SELECT tablename FROM pg_tables WHERE schemaname = $1 ORDER BY 1`,
    [schema.slice(1, -1)],
  )
  await connection.close()
  return rows.map((row) => row['tablename'])
}

async function migrated(prefix: string, migrations = MIGRATIONS) {
  const connection = await connectTo(url())
  try {
    return await migrate(connection, of(prefix), migrations)
  } finally {
    await connection.close()
  }
}

describe('migrations', () => {
  it('are applied once, to the schema of their prefix', async () => {
    expect(await migrated('new')).toEqual({ from: 0, to: MIGRATIONS.length })
    expect(await migrated('new')).toEqual({ from: MIGRATIONS.length, to: MIGRATIONS.length })
    expect(await tablesOf(of('new'))).toContain('slots')
    expect(await tablesOf(of('other'))).toEqual([])
    expect([schemaOf(''), schemaOf('tenant-1')]).toEqual(['"ojs"', '"ojs_tenant-1"'])
  })

  it('are applied by one of several gateways that start at the same time', async () => {
    const results = await Promise.all(Array.from({ length: 8 }, () => migrated('race', [ONE, TWO])))
    expect(results.filter(({ from }) => from === 0)).toHaveLength(1)
    expect(results.every(({ to }) => to === 2)).toBe(true)
  })

  it.each([
    ['LATIN1', WrongEncoding],
    ['SQL_ASCII', null],
  ])('ask for a database that keeps every text: %s', async (encoding, refused) => {
    const name = `enc_${RUN}_${encoding.toLowerCase()}`
    const admin = await connectTo(url())
    const like = `ENCODING '${encoding}' LOCALE 'C' TEMPLATE template0`
    await rowsOf(admin, `CREATE DATABASE ${name} ${like}`)
    const other = new URL(url())
    other.pathname = `/${name}`
    const connection = await connectTo(other.href)
    const done = migrate(connection, of('any'), [ONE])
    if (refused === null) expect(await done).toEqual({ from: 0, to: 1 })
    else await expect(done).rejects.toThrow(refused)
    await connection.close()
    await rowsOf(admin, `DROP DATABASE ${name} WITH (FORCE)`)
    await admin.close()
  })

  it('leave the schema as it was if one fails', async () => {
    await migrated('broken', [ONE])
    const wrong = { sql: 'CREATE TABLE %S.three (id no_such_type)', minReader: 1 }
    await expect(migrated('broken', [ONE, TWO, wrong])).rejects.toThrow('no_such_type')
    expect(await tablesOf(of('broken'))).toEqual(['one', 'schema_version'])
    expect(await migrated('broken', [ONE, TWO])).toEqual({ from: 1, to: 2 })
  })

  it('let an older gateway go on as long as what it uses is there', async () => {
    await migrated('rolling', [ONE, TWO])
    expect(await migrated('rolling', [ONE])).toEqual({ from: 2, to: 2 })
    await migrated('rolling', [ONE, TWO, CONTRACT])
    await expect(migrated('rolling', [ONE, TWO])).rejects.toThrow(SchemaTooNew)
    expect(await tablesOf(of('rolling'))).toEqual(['schema_version', 'two'])
  })

  it('hold no lock after a refusal, on the same connection', async () => {
    const connection = await connectTo(url())
    await migrated('held', [ONE, TWO, CONTRACT])
    await expect(migrate(connection, of('held'), [ONE])).rejects.toThrow(SchemaTooNew)
    expect(await migrated('held', [ONE, TWO, CONTRACT])).toEqual({ from: 3, to: 3 })
    await connection.close()
  })
})
