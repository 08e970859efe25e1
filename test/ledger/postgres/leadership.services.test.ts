import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, expect, it, onTestFinished } from 'vitest'
import { LedgerClock } from '../../../src/ledger/postgres/clock.ts'
import type { Connection } from '../../../src/ledger/postgres/connection.ts'
import { LEASE_MS, Leadership } from '../../../src/ledger/postgres/leadership.ts'
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

const TIMEOUTS = { connectMs: 30_000, answerMs: LEASE_MS }

interface Circumstances {
  connect?: () => Promise<Connection>
  /** Milliseconds since whenever. */
  monotonic?: () => number
}

function gateway(name: string, { connect, monotonic }: Circumstances = {}) {
  const clock = new LedgerClock(monotonic)
  const leadership = new Leadership({
    ...{ schema, clock, logger: SILENT, url: () => `http://${name}`, owner: randomUUID() },
    connect: connect ?? (() => connectTo(url(), TIMEOUTS)),
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
  // It has stood by itself, and is not counted for that.
  await a.leadership.wait(AbortSignal.timeout(30_000))
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
  expect(a.leadership.standbys).toBe(1)
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
  const until = await end()
  await b.leadership.resign()
  expect(await rowsOf(admin, `SELECT FROM ${schema}.standbys WHERE url = 'http://b'`)).toEqual([])
  await again
  // Not at its end.
  expect(await end()).toBeLessThan(until + LEASE_MS)
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

it('a lease counts from before it was asked for, taken or renewed', async () => {
  let now = 1_000
  let sentAt = now
  let isSilent = false
  const connect = async () => {
    const connection = await connectTo(url(), TIMEOUTS)
    const ask = connection.ask.bind(connection)
    connection.ask = async (statements) => {
      if (isSilent) return await new Promise(() => {})
      sentAt = now
      const results = await ask(statements)
      // Each answer takes three seconds by the gateway's clock.
      now += 3_000
      return results
    }
    return connection
  }
  const { leadership } = gateway('a', { connect, monotonic: () => now })
  const endsInTime = () => {
    const answeredAt = now
    now = sentAt + LEASE_MS - 1
    const before = leadership.isHeld
    now = sentAt + LEASE_MS
    const after = leadership.isHeld
    now = answeredAt
    return [before, after]
  }
  await leadership.take()
  expect(endsInTime()).toEqual([true, false])
  leadership.keep(() => {})
  await eventually(() => leadership.commitMs === 3_000)
  isSilent = true
  expect(endsInTime()).toEqual([true, false])
})

it.each(['answer', 'error'])(
  'an %s of a renewal after the answer of a later one changes nothing',
  async (what) => {
    let now = 1_000
    const held: (() => void)[] = []
    const connect = async () => {
      const connection = await connectTo(url(), TIMEOUTS)
      const ask = connection.ask.bind(connection)
      connection.ask = async (statements) => {
        const results = await ask(statements)
        now += 100
        if (held.length > 0) return results
        await new Promise<void>((resolve) => held.push(resolve))
        if (what === 'error') throw new Error('reset')
        return results
      }
      return connection
    }
    const { leadership } = gateway('a', { connect, monotonic: () => now })
    held.push(() => {})
    await leadership.take()
    held.splice(0)
    leadership.keep(() => {})
    await eventually(() => held.length === 1)
    await eventually(() => leadership.commitMs > 0)
    const answered = now
    held[0]?.()
    await new Promise((resolve) => setImmediate(resolve))
    now = answered - 100 + LEASE_MS - 1
    expect(leadership.isHeld).toBe(true)
    expect(leadership.seen.fault).toBeNull()
  },
)

it('a gateway before which another takes the lease that both saw free does not have it', async () => {
  const rival = gateway('b')
  let asked = 0
  const connect = async () => {
    const connection = await connectTo(url(), TIMEOUTS)
    const ask = connection.ask.bind(connection)
    connection.ask = async (statements) => {
      asked += 1
      if (asked === 2) expect(await rival.leadership.take()).toBe(true)
      return await ask(statements)
    }
    return connection
  }
  const { leadership } = gateway('a', { connect })
  expect(await leadership.take()).toBe(false)
  expect(leadership.isHeld).toBe(false)
  expect(rival.leadership.isHeld).toBe(true)
})

it('a lease that could not be renewed in time is not held, and is held again when it was nobody else’s', async () => {
  const proxy = await TcpProxy.start(url())
  onTestFinished(() => proxy.stop())
  const a = gateway('a', {
    connect: () => connectTo(proxy.url, { connectMs: 2_000, answerMs: 2_000 }),
  })
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

it('a renewal that the database is slow to commit counts, and its connection is not given up', async () => {
  const answers: string[][] = []
  let waiting = 0
  const connect = async () => {
    const connection = await connectTo(url(), TIMEOUTS)
    const own: string[] = []
    answers.push(own)
    const ask = connection.ask.bind(connection)
    connection.ask = async (statements) => {
      waiting += 1
      const results = await ask(statements)
      waiting -= 1
      own.push(...results.map(({ status }) => status))
      return results
    }
    return connection
  }
  const a = gateway('a', { connect })
  await a.leadership.take()
  a.leadership.keep(() => {})
  const slow = await connectTo(url())
  onTestFinished(() => slow.close())
  await rowsOf(slow, 'BEGIN')
  await rowsOf(slow, `SELECT FROM ${schema}.leader FOR UPDATE`)
  const before = answers[0]?.length ?? 0
  // Another connection is tried, because the host of the first may be gone.
  await eventually(() => answers.length >= 2)
  expect(a.leadership.seen.fault).toBeNull()
  await rowsOf(slow, 'COMMIT')
  await eventually(() => waiting === 0)
  expect(answers[0]?.length).toBeGreaterThan(before)
  expect(new Set(answers.flat())).toEqual(new Set(['fulfilled']))
  expect(a.leadership.seen.fault).toBeNull()
  expect(a.leadership.isHeld).toBe(true)
})

it('an answer that came while the gateway had no time counts', async () => {
  const beBusy = () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2_500)
  let connections = 0
  let isBusy = false
  const connect = async () => {
    connections += 1
    const connection = await connectTo(url(), TIMEOUTS)
    const ask = connection.ask.bind(connection)
    connection.ask = (statements) => {
      const asked = ask(statements)
      // The statement is on the wire, and nothing of this process runs until long after its answer.
      if (isBusy) queueMicrotask(beBusy)
      isBusy = false
      return asked
    }
    return connection
  }
  const a = gateway('a', { connect })
  isBusy = true
  expect(await a.leadership.take()).toBe(true)
  a.leadership.keep(() => {})
  isBusy = true
  await eventually(() => a.leadership.commitMs > 2_000)
  expect(a.leadership.seen.fault).toBeNull()
  expect(connections).toBe(1)
})

it('a gateway that was too slow to renew its lease asks whose it is before it reads', async () => {
  let skippedMs = 0
  const monotonic = () => performance.now() + skippedMs
  const [a, b] = [gateway('a', { monotonic }), gateway('b')]
  await a.leadership.take()
  const ledger = await a.open()
  onTestFinished(() => ledger.close())
  let isLost = false
  a.leadership.keep(() => {
    isLost = true
  })
  skippedMs += 2 * LEASE_MS
  expect(a.leadership.isHeld).toBe(false)
  expect(await Promise.all([ledger.read.find('x'), ledger.read.find('y')])).toEqual([null, null])
  expect(a.leadership.isHeld).toBe(true)
  await eventually(async () => {
    await letEnd()
    return await b.leadership.take()
  })
  skippedMs += 2 * LEASE_MS
  await expect(ledger.read.find('x')).rejects.toThrow('may be active')
  expect(isLost).toBe(true)
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
