import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, expect, it, onTestFinished } from 'vitest'
import { LedgerClock } from '../../../src/ledger/postgres/clock.ts'
import type { Connection } from '../../../src/ledger/postgres/connection.ts'
import { Leadership } from '../../../src/ledger/postgres/leadership.ts'
import { migrate } from '../../../src/ledger/postgres/migrations.ts'
import { openPostgresLedger } from '../../../src/ledger/postgres/open.ts'
import { schemaOf } from '../../../src/ledger/postgres/schema.ts'
import { TcpProxy } from '../../support/broker/tcp-proxy.ts'
import { eventually } from '../../support/gateway/in-process.ts'
import { SILENT } from '../../support/time/silent.ts'
import { addressOf, connectTo, rowsOf, sharedPostgres } from './server.ts'

const url = sharedPostgres()
const prefix = `l${randomUUID().slice(0, 8)}`
const schema = schemaOf(prefix)

let admin: Connection
beforeAll(async () => {
  admin = await connectTo(url())
  await migrate(admin, schema)
})
beforeEach(async () => {
  await rowsOf(admin, `DELETE FROM ${schema}.leader`)
  await rowsOf(admin, `DELETE FROM ${schema}.standbys`)
})
afterAll(async () => {
  await rowsOf(admin, `DROP SCHEMA IF EXISTS ${schema} CASCADE`)
  await admin.close()
})

/** Those of a gateway. `at`: where the database is, for it. */
function gateway(name: string, at: () => string = url) {
  const clock = new LedgerClock()
  const leadership = new Leadership({
    ...{ schema, clock, logger: SILENT, url: () => `http://${name}`, owner: randomUUID() },
    connect: () => connectTo(at(), { connectMs: 2_000, answerMs: 2_000 }),
  })
  onTestFinished(() => leadership.close())
  const open = () =>
    openPostgresLedger({ address: addressOf(url()), prefix, logger: SILENT, leadership, clock })
  return { leadership, clock, open }
}

/** When the lease ends, by the database's clock. */
async function end(): Promise<number> {
  const [row] = await rowsOf(admin, `SELECT until FROM ${schema}.leader`)
  return Number(row?.['until'])
}

/** As if the database's clock had gone on. */
async function letEnd(): Promise<void> {
  await rowsOf(admin, `UPDATE ${schema}.leader SET until = clock_timestamp()`)
}

it('one gateway has the lease, and the others know where it is', async () => {
  const [a, b] = [gateway('a'), gateway('b')]
  expect(await a.leadership.take()).toBe(true)
  expect(a.leadership.isHeld).toBe(true)
  expect(await b.leadership.take()).toBe(false)
  expect(b.leadership.isHeld).toBe(false)
  expect(b.leadership.seen).toEqual({ activeUrl: 'http://a', fault: null })
  expect(Math.abs(b.clock.aheadMs())).toBeLessThan(1_000)
})

it('of many that want a free lease at once, one gets it', async () => {
  const all = Array.from({ length: 8 }, (_, i) => gateway(`g${i}`))
  const taken = await Promise.all(all.map(({ leadership }) => leadership.take()))
  expect(taken.filter(Boolean)).toHaveLength(1)
})

it('a lease that is renewed lasts, and tells how many stand by', async () => {
  const [a, b] = [gateway('a'), gateway('b')]
  await a.leadership.take()
  let isLost = false
  a.leadership.keep(() => {
    isLost = true
  })
  const waiting = new AbortController()
  const taken = b.leadership.wait(waiting.signal).catch(() => 'given up')
  await eventually(() => a.leadership.standbys === 1)
  const first = await end()
  await eventually(async () => (await end()) > first + 2_000)
  expect(isLost).toBe(false)
  expect(a.leadership.isHeld).toBe(true)
  expect(a.leadership.commitMs).toBeGreaterThan(0)
  waiting.abort()
  expect(await taken).toBe('given up')
})

it('a standby takes a lease that ends, or that is given back, and the gateway before hears of it', async () => {
  const [a, b] = [gateway('a'), gateway('b')]
  await a.leadership.take()
  await letEnd()
  await b.leadership.wait(AbortSignal.timeout(30_000))
  await new Promise<void>((resolve) => a.leadership.keep(resolve))
  expect(a.leadership.isHeld).toBe(false)
  const again = a.leadership.wait(AbortSignal.timeout(30_000))
  await b.leadership.resign()
  await again
  expect(a.leadership.isHeld).toBe(true)
})

it('a gateway that was not told of its loss can neither write nor read', async () => {
  const [a, b] = [gateway('a'), gateway('b')]
  await a.leadership.take()
  const before = await a.open()
  onTestFinished(() => before.close())
  await before.recordQueue('mine', 1)
  await letEnd()
  await b.leadership.take()
  const after = await b.open()
  onTestFinished(() => after.close())
  const lost = new Promise<void>((resolve) => a.leadership.keep(resolve))
  await expect(before.recordQueue('late', 2)).rejects.toThrow('cannot be written')
  // The fence tells it before the next renewal.
  await lost
  await expect(before.read.find('any')).rejects.toThrow('may be active')
  expect(before.known.fault()).not.toBeNull()
  await after.recordQueue('theirs', 3)
  expect(after.known.queues().map(({ name }) => name)).toEqual(['mine', 'theirs'])
  expect(after.known.replication.kind).toBe('postgres')
})

it('a gateway whose lease has ended before it opens the ledger fences nobody', async () => {
  const [a, b] = [gateway('a'), gateway('b')]
  await a.leadership.take()
  await letEnd()
  await b.leadership.take()
  const ledger = await b.open()
  onTestFinished(() => ledger.close())
  await expect(a.open()).rejects.toThrow('lease')
  await ledger.recordQueue('still', 1)
})

it('a lease that could not be renewed in time is not held, and is held again when it was nobody else’s', async () => {
  const proxy = await TcpProxy.start(url())
  onTestFinished(() => proxy.stop())
  const a = gateway('a', () => proxy.url)
  await a.leadership.take()
  let isLost = false
  a.leadership.keep(() => {
    isLost = true
  })
  proxy.hold('to-gateway')
  await eventually(() => !a.leadership.isHeld)
  await eventually(() => a.leadership.seen.fault !== null)
  proxy.release('to-gateway')
  await eventually(() => a.leadership.isHeld)
  expect(isLost).toBe(false)
})

it('PostgreSQL without a synchronous standby is a warning, unless the storage is replicated', async () => {
  const a = gateway('a')
  await a.leadership.take()
  const ledger = await a.open()
  onTestFinished(() => ledger.close())
  const [warning] = ledger.known.warnings()
  expect(warning).toMatchObject({
    code: 'ledger_not_replicated',
    details: { synchronous_standby_names: '' },
  })
  expect(warning?.message).toContain('no commit waits for a standby')
  expect(ledger.known.replication.isReplicated()).toBe(false)
})
