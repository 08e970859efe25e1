import { execFileSync } from 'node:child_process'
import { chownSync, readFileSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { findPostgresBin } from '../../../scripts/postgres/postgres-package.mjs'
import { freePort } from '../../../scripts/process/ports.mjs'
import type { PostgresAddress } from '../../../src/ledger/postgres/address.ts'
import {
  type Connection,
  connectWritable,
  NoWritableHost,
} from '../../../src/ledger/postgres/connection.ts'
import { Replica } from '../../support/postgres/replica.ts'
import { temporaryDirectory } from '../../support/temporary-directory.ts'
import { addressOf, connectTo, PASSWORD, rowsOf, TIMEOUTS, usePostgres } from './server.ts'

const server = usePostgres()

describe('a private PostgreSQL', () => {
  it('runs as another user than root, and shows no password in its processes', () => {
    const { pid = 0 } = server
    expect(pid).toBeGreaterThan(0)
    expect(statSync(`/proc/${pid}`).uid).not.toBe(0)
    expect(readFileSync(`/proc/${pid}/cmdline`, 'utf8')).not.toContain(PASSWORD)
    // Where initdb read it from: for its user only.
    expect(statSync(join(dirname(server.data), 'password')).mode & 0o077).toBe(0)
  })
})

async function isAsleep(connection: Connection) {
  const text = `SELECT count(*) AS n FROM pg_stat_activity WHERE wait_event = 'PgSleep'`
  return (await rowsOf(connection, text))[0]?.['n'] === 1
}

describe('a connection', () => {
  it('reads int8 as a number, and text as it was written', async () => {
    const connection = await connectTo(server.url())
    const text = '{"b":1,"a":1.0,"n":12345678901234567890,"e":"\\u0000","ü":"😀"}'
    const rows = await rowsOf(connection, 'SELECT $1::bigint AS n, $2::text AS t', [2 ** 52, text])
    expect(rows).toEqual([{ n: 2 ** 52, t: text }])
    await connection.close()
  })

  it('says why no host can be used, without the password', async () => {
    const dead = await freePort()
    const url = server.url().replace('@127.0.0.1', `@127.0.0.1:${dead},127.0.0.1`)
    const wrong = url.replace(/:[^:@]+@/, ':s3cret@')
    const error: unknown = await connectTo(wrong).catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(NoWritableHost)
    expect(String(error)).toContain(`127.0.0.1:${dead}: connect ECONNREFUSED`)
    expect(String(error)).toContain('password authentication failed')
    expect(String(error)).not.toContain('s3cret')
  })

  it('goes on to the next host if one is down', async () => {
    const dead = await freePort()
    const url = server.url().replace('@127.0.0.1', `@127.0.0.1:${dead},127.0.0.1`)
    const connection = await connectTo(url)
    expect(connection.host.port).toBe(server.port)
    await connection.close()
  })

  it('rejects what was asked when the server is killed, and keeps the process alive', async () => {
    const [connection, other] = [await connectTo(server.url()), await connectTo(server.url())]
    const asked = connection.ask([{ text: 'SELECT 1' }, { text: 'SELECT pg_sleep(600)' }])
    await expect.poll(() => isAsleep(other)).toBe(true)
    await server.kill9()
    const results = await asked
    expect(results.at(-1)?.status).toBe('rejected')
    expect((await connection.ask([{ text: 'SELECT 1' }]))[0]?.status).toBe('rejected')
    await server.start()
  })

  it('counts as lost when an answer does not come, for what was asked behind it, too', async () => {
    const connection = await connectTo(server.url(), { ...TIMEOUTS, answerMs: 500 })
    const results = await connection.ask([{ text: 'SELECT pg_sleep(600)' }, { text: 'SELECT 1' }])
    expect(results.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
    expect((await connection.ask([{ text: 'SELECT 1' }]))[0]?.status).toBe('rejected')
  })

  it('does not use a host that only reads', async () => {
    const connection = await connectTo(server.url())
    await rowsOf(connection, 'ALTER DATABASE postgres SET default_transaction_read_only = on')
    await expect(connectTo(server.url())).rejects.toThrow('is read-only')
    await rowsOf(connection, 'ALTER DATABASE postgres RESET default_transaction_read_only')
    await connection.close()
  })
})

describe('a connection to several hosts', () => {
  const directory = temporaryDirectory()
  const replica = new Replica({
    bin: findPostgresBin() ?? '',
    dir: join(directory.path, 'pg'),
    password: PASSWORD,
    settings: { fsync: 'off' },
  })
  afterAll(async () => {
    await replica.stop()
    directory.remove()
  })
  const of = (...ports: number[]) =>
    addressOf(server.url().replace(/@.*\//, `@${ports.map((p) => `127.0.0.1:${p}`)}/`))
  const portFor = async (address: PostgresAddress) => {
    const connection = await connectWritable(address, TIMEOUTS)
    await connection.close()
    return connection.host.port
  }

  it('is one to the primary, and after a failover never again to the old one', async () => {
    await replica.copy(server)
    await replica.start()
    const address = of(replica.port, server.port)
    expect(await portFor(address)).toBe(server.port)
    await replica.promote()
    // The old one still runs, and is writable: it has never heard of a failover.
    await expect.poll(() => portFor(address)).toBe(replica.port)
    expect(await portFor(of(server.port, replica.port))).toBe(replica.port)
    await replica.stop()
    const error: unknown = await portFor(address).catch((reason: unknown) => reason)
    expect(String(error)).toContain('timeline 2 was in use, and is not there')
  })
})

describe('a connection with TLS', () => {
  const directory = temporaryDirectory()
  const ca = join(directory.path, 'ca.crt')
  const on = (host: string, query: string) =>
    connectWritable(addressOf(server.url(`?${query}`).replace('@127.0.0.1', `@${host}`)), TIMEOUTS)

  beforeAll(async () => {
    makeCertificates(directory.path)
    for (const name of ['server.crt', 'server.key']) {
      const file = join(server.data, name)
      execFileSync('cp', [join(directory.path, name), file])
      const { uid, gid } = statSync(server.data)
      chownSync(file, uid, gid)
    }
    const connection = await connectTo(server.url())
    await rowsOf(connection, 'ALTER SYSTEM SET ssl = on')
    await rowsOf(connection, 'SELECT pg_reload_conf()')
    await connection.close()
  })
  afterAll(() => directory.remove())

  const isEncrypted = async (host: string, query: string) => {
    const connection = await on(host, query)
    const rows = await rowsOf(
      connection,
      'SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()',
    )
    await connection.close()
    return rows[0]?.['ssl']
  }

  it.each([
    ['localhost', () => `sslmode=verify-full&sslrootcert=${ca}`, true],
    ['127.0.0.1', () => `sslmode=verify-ca&sslrootcert=${ca}`, true],
    ['127.0.0.1', () => `sslmode=require&sslrootcert=${ca}`, true],
    ['127.0.0.1', () => 'sslmode=require', true],
    ['127.0.0.1', () => 'sslmode=disable', false],
  ])('to %s', async (host, query, encrypted) => {
    await expect.poll(() => isEncrypted(host, query())).toBe(encrypted)
  })

  it.each([
    [
      'the certificate is of another name',
      '127.0.0.1',
      () => `sslmode=verify-full&sslrootcert=${ca}`,
    ],
    ['nobody known has signed it', 'localhost', () => 'sslmode=verify-full'],
    ['nobody known has signed it', 'localhost', () => 'sslmode=verify-ca'],
  ])('is refused if %s (%s)', async (_, host, query) => {
    await expect.poll(() => isEncrypted('127.0.0.1', 'sslmode=require')).toBe(true)
    await expect(on(host, query())).rejects.toThrow(/altnames|self.signed|unable to (get|verify)/i)
  })
})

/** An authority, and a certificate of it for `localhost`, not for 127.0.0.1. */
function makeCertificates(dir: string): void {
  const openssl = (...args: string[]) => execFileSync('openssl', args, { cwd: dir, stdio: 'pipe' })
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes']
  const named = (name: string) => [...key, '-subj', `/CN=${name}`, '-days', '2']
  openssl('req', '-x509', ...named('Test CA'), '-keyout', 'ca.key', '-out', 'ca.crt')
  const signed = ['-CA', 'ca.crt', '-CAkey', 'ca.key', '-addext', 'subjectAltName=DNS:localhost']
  openssl('req', '-x509', ...named('db'), ...signed, '-keyout', 'server.key', '-out', 'server.crt')
  execFileSync('chmod', ['600', join(dir, 'server.key')])
}
