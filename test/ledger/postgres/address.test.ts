import { describe, expect, it } from 'vitest'
import { readAddress, shownAddress } from '../../../src/ledger/postgres/address.ts'

function read(url: string) {
  const mistakes: string[] = []
  return { address: readAddress(url, mistakes), mistakes }
}

describe('the address of a ledger on PostgreSQL', () => {
  it('names several hosts, the user, the password and how the server is verified', () => {
    const url =
      'postgres://ann:p%40ss%3Aw%2Fd@a.example:5433,[::1],b.example/led%20ger' +
      '?sslmode=verify-full&sslrootcert=/etc/ca.pem&target_session_attrs=read-write'
    expect(read(url)).toEqual({
      mistakes: [],
      address: {
        hosts: [
          { host: 'a.example', port: 5433 },
          { host: '::1', port: 5432 },
          { host: 'b.example', port: 5432 },
        ],
        user: 'ann',
        password: 'p@ss:w/d',
        database: 'led ger',
        sslMode: 'verify-full',
        rootCertificate: '/etc/ca.pem',
      },
    })
  })

  it.each([
    ['postgresql://localhost/db', 'localhost'],
    ['postgres://127.0.0.1/db', '127.0.0.1'],
    ['postgres:///db?host=/run/postgresql', '/run/postgresql'],
    ['postgres://%2Frun%2Fpostgresql/db', '/run/postgresql'],
  ])('needs no sslmode on this machine: %s', (url, host) => {
    expect(read(url).address).toMatchObject({ hosts: [{ host, port: 5432 }], sslMode: 'disable' })
  })

  it.each([
    ['postgres://db.example/ojs', 'needs sslmode'],
    ['postgres://localhost,db.example/ojs', 'needs sslmode'],
    // 127.example is a name, which may be anywhere.
    ['postgres://127.example/ojs', 'needs sslmode'],
    ['postgres://localhost/ojs?sslmode=prefer', 'needs sslmode'],
    ['postgres://localhost', 'names no database'],
    ['postgres://localhost:0/ojs', 'no port'],
    ['postgres://localhost:65536/ojs', 'no port'],
    ['postgres://a,,b/ojs?sslmode=disable', 'host 2 is not'],
    ['postgres:///ojs', 'host 1 is not'],
    ['postgres://localhost/ojs?host=/run/postgresql', 'both before'],
    ['postgres://localhost/ojs?sslmod=require', 'unknown parameter'],
    ['postgres://localhost/ojs?sslmode=require&sslmode=disable', 'twice'],
    ['postgres://localhost/ojs?target_session_attrs=any', 'read-write'],
    ['postgres://localhost/ojs%00x', 'must be a URL'],
    ['mysql://localhost/ojs', 'must be a URL'],
  ])('refuses %s', (url, why) => {
    const { address, mistakes } = read(url)
    expect(address).toBeNull()
    expect(mistakes.join()).toContain(why)
  })

  it.each(['s3cret/x', 's3cret@x', 's3cret#x', 's3cret?x', 's3cret%x', 's3cret:x', 's3cret,x'])(
    'shows no part of the password %s, though it is not escaped',
    (password) => {
      const mistakes: string[] = []
      const address = readAddress(`postgres://u:${password}@db.example:99999/ojs?a=b`, mistakes)
      expect(address).toBeNull()
      expect(mistakes.length).toBeGreaterThan(0)
      expect(mistakes.join()).not.toMatch(/s3cret|db\.example/)
    },
  )

  it('is shown without user and password', () => {
    const { address } = read('postgres://ann:s3cret@[::1]:1,b/ojs?sslmode=disable')
    expect(address && shownAddress(address)).toBe('postgres://[::1]:1,b:5432/ojs')
  })
})
