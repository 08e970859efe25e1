import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import type { Connection, Statement } from '../../../src/ledger/postgres/connection.ts'
import { migrate } from '../../../src/ledger/postgres/migrations.ts'
import {
  DataError,
  Fenced,
  type Group,
  Slot,
  Undecided,
} from '../../../src/ledger/postgres/slot.ts'
import { TcpProxy } from '../../support/broker/tcp-proxy.ts'
import { connectTo, rowsOf, usePostgres } from './server.ts'

const SCHEMA = '"ojs"'
const server = usePostgres({ deadlock_timeout: '50ms' })

let admin: Connection
let proxy: TcpProxy
/** The proxy cuts all connections after so many more chunks. */
let chunksUntilCut = Number.POSITIVE_INFINITY
let cuts = 0

beforeAll(async () => {
  const connection = await connectTo(server.url())
  await migrate(connection, SCHEMA)
  await rowsOf(connection, `CREATE TABLE w (id int PRIMARY KEY CHECK (id >= 0), t text)`)
  await rowsOf(connection, `CREATE TABLE total (id int PRIMARY KEY, n int)`)
  await rowsOf(
    connection,
    `ALTER DATABASE postgres SET default_transaction_isolation = 'serializable'`,
  )
  await connection.close()
})

beforeEach(async () => {
  admin = await connectTo(server.url())
  await rowsOf(admin, `TRUNCATE w, total, ${SCHEMA}.slots`)
  await rowsOf(admin, 'INSERT INTO total VALUES (1, 0), (2, 0)')
  chunksUntilCut = Number.POSITIVE_INFINITY
  cuts = 0
  proxy = await TcpProxy.start(server.url(), () => {
    chunksUntilCut -= 1
    if (chunksUntilCut !== 0) return
    cuts += 1
    // Sometimes once more while the slot connects anew and settles the group, which takes some 17 chunks.
    if (cuts % 3 === 0) chunksUntilCut = 1 + (cuts % 17)
    // Every other time after this chunk was passed on.
    if (cuts % 2 === 0) proxy.cut()
    else setImmediate(() => proxy.cut())
  })
})

afterEach(async () => {
  await proxy.stop()
  await admin.close()
})

/** A slot that has been taken, through the proxy. */
async function taken(id = 1): Promise<Slot> {
  const connect = () => connectTo(proxy.url)
  const slot = new Slot({ schema: SCHEMA, id, owner: randomUUID(), connect })
  await slot.take()
  onTestFinished(() => slot.close())
  return slot
}

function insert(id: number, t = ''): Statement {
  return { text: 'INSERT INTO w VALUES ($1, $2)', values: [id, t] }
}

function group(...store: Statement[]): Group {
  return { load: [], decide: () => store }
}

/** Reads what it writes: to do it twice gives another sum. */
function addOne(id: number): Group {
  return {
    load: [{ text: 'SELECT n FROM total WHERE id = 1 FOR UPDATE' }],
    decide: ([answer]) => [
      {
        text: 'UPDATE total SET n = $1 WHERE id = 1',
        values: [Number(answer?.rows[0]?.['n']) + 1],
      },
      insert(id),
    ],
  }
}

async function ids() {
  return (await rowsOf(admin, 'SELECT id FROM w ORDER BY id')).map((row) => row['id'])
}

async function total() {
  return (await rowsOf(admin, 'SELECT n FROM total WHERE id = 1'))[0]?.['n']
}

async function lastGroup(id = 1) {
  const text = `SELECT last_group FROM ${SCHEMA}.slots WHERE id = $1`
  return (await rowsOf(admin, text, [id]))[0]?.['last_group']
}

describe('a slot', () => {
  it('commits groups and counts them', async () => {
    const slot = await taken()
    await slot.commit(group(insert(1), insert(2)))
    await slot.commit(addOne(3))
    expect(await ids()).toEqual([1, 2, 3])
    expect(await total()).toBe(1)
    expect(await lastGroup()).toBe(2)
  })

  it('goes on with the number of its predecessor', async () => {
    await (await taken()).commit(group(insert(1)))
    await (await taken()).commit(group(insert(2)))
    expect(await lastGroup()).toBe(2)
  })

  it('sends a group without rows to load as one, and waits for no answer in between', async () => {
    const slot = await taken()
    proxy.hold('to-gateway')
    const done = slot.commit(group(insert(1), insert(2)))
    await expect.poll(ids).toEqual([1, 2])
    proxy.release('to-gateway')
    await done
  })

  it('uses READ COMMITTED, whatever the default of the database is', async () => {
    const slot = await taken()
    const text = `INSERT INTO w SELECT 1, current_setting('transaction_isolation')`
    await slot.commit(group({ text }))
    expect(await rowsOf(admin, 'SELECT t FROM w')).toEqual([{ t: 'read committed' }])
  })

  it('leaves no setting behind in its session', async () => {
    const connection = await connectTo(server.url())
    const shown = `SELECT current_setting('idle_in_transaction_session_timeout') AS t`
    const [before] = await rowsOf(connection, shown)
    const slot = new Slot({
      schema: SCHEMA,
      id: 1,
      owner: randomUUID(),
      connect: () => Promise.resolve(connection),
    })
    await slot.take()
    await slot.commit({ load: [{ text: shown }], decide: ([a]) => [insert(1, a?.rows[0]?.['t'])] })
    expect(await rowsOf(admin, 'SELECT t FROM w')).toEqual([{ t: '5s' }])
    expect(await rowsOf(connection, shown)).toEqual([before])
    await slot.close()
  })
})

describe('a group that fails', () => {
  it.each<[string, Statement]>([
    ['a NUL', insert(2, 'a\0b')],
    ['what a constraint forbids', insert(-1)],
  ])('of %s is a data error, writes nothing, and stops no other', async (_, bad) => {
    const slot = await taken()
    await expect(slot.commit(group(insert(1), bad, insert(3)))).rejects.toThrow(DataError)
    expect(await ids()).toEqual([])
    await slot.commit(group(insert(4)))
    expect(await ids()).toEqual([4])
  })

  it('of a fault in a statement says so, and writes nothing', async () => {
    const slot = await taken()
    const wrong = { text: 'INSERT INTO no_such_table VALUES (1)' }
    await expect(slot.commit(group(insert(1), wrong))).rejects.toThrow('no_such_table')
    expect(await ids()).toEqual([])
  })

  it('in its decision passes that error on, and holds no lock', async () => {
    const slot = await taken()
    const failing = () => {
      throw new TypeError('undecidable')
    }
    const rejected = slot.commit({ ...addOne(1), decide: failing })
    await expect(rejected).rejects.toThrow(TypeError)
    await (await taken(2)).commit(addOne(2))
    await slot.commit(addOne(3))
    expect(await total()).toBe(2)
  })

  it('because of a deadlock runs again', async () => {
    const slots = [await taken(1), await taken(2)]
    let decisions = 0
    const locking = (first: number, second: number): Group => ({
      load: [
        { text: 'SELECT 1 FROM total WHERE id = $1 FOR UPDATE', values: [first] },
        { text: 'SELECT pg_sleep(0.5)' },
        { text: 'SELECT n FROM total WHERE id = $1 FOR UPDATE', values: [second] },
      ],
      decide: () => {
        decisions += 1
        return [{ text: 'UPDATE total SET n = n + 1' }]
      },
    })
    await Promise.all([slots[0]?.commit(locking(1, 2)), slots[1]?.commit(locking(2, 1))])
    expect(await total()).toBe(2)
    const text = 'SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()'
    await expect.poll(async () => (await rowsOf(admin, text))[0]?.['deadlocks']).toBeGreaterThan(0)
    expect(decisions).toBe(2)
  })
})

describe('a group whose connection breaks', () => {
  it('was committed if only its answer was lost, and is not written again', async () => {
    const slot = await taken()
    proxy.hold('to-gateway')
    const done = slot.commit(addOneBlindly(1))
    await expect.poll(ids).toEqual([1])
    proxy.cut()
    await done
    expect(await total()).toBe(1)
    await slot.commit(addOne(2))
    expect(await total()).toBe(2)
  })

  it('is written again if it had not arrived', async () => {
    const slot = await taken()
    proxy.hold('to-broker')
    const done = slot.commit(addOneBlindly(1))
    // The proxy reads nothing, so nobody can tell when it was sent. Not sent yet, it had not arrived either.
    await sleep(50)
    proxy.cut()
    await done
    expect([await ids(), await total()]).toEqual([[1], 1])
  })

  it('writes nothing if it arrives after another process has taken the slot', async () => {
    const slot = await taken()
    proxy.hold('to-broker')
    const late = slot.commit(addOneBlindly(1))
    const other = new Slot({
      schema: SCHEMA,
      id: 1,
      owner: randomUUID(),
      connect: () => connectTo(server.url()),
    })
    await other.take()
    proxy.release('to-broker')
    await expect(late).rejects.toThrow(Fenced)
    await other.commit(addOne(2))
    expect([await ids(), await total()]).toEqual([[2], 1])
    await other.close()
  })

  it('is not repeated by a process that has lost its slot as well', async () => {
    const slot = await taken()
    proxy.hold('to-broker')
    const late = slot.commit(addOneBlindly(1))
    await rowsOf(admin, `UPDATE ${SCHEMA}.slots SET owner = $1, epoch = epoch + 1`, [randomUUID()])
    proxy.cut()
    await expect(late).rejects.toThrow(Fenced)
    expect(await ids()).toEqual([])
  })

  it('was committed if another process took the slot afterwards, and only then', async () => {
    const slot = await taken()
    await slot.commit(addOne(1))
    proxy.hold('to-gateway')
    const done = slot.commit(addOneBlindly(2))
    await expect.poll(ids).toEqual([1, 2])
    const options = { schema: SCHEMA, id: 1, connect: () => connectTo(server.url()) }
    const other = new Slot({ ...options, owner: randomUUID() })
    await other.take()
    await other.take()
    await other.commit(addOne(3))
    proxy.cut()
    await done
    await expect(slot.commit(addOne(4))).rejects.toThrow(Fenced)
    expect([await ids(), await total()]).toEqual([[1, 2, 3], 3])
    await other.close()
  })

  it('in the middle of a group gives its locks back', async () => {
    const slot = await taken()
    proxy.hold('to-gateway')
    const stopped = slot.commit(addOne(1))
    const waiting = `SELECT count(*) AS n FROM pg_stat_activity WHERE state = 'idle in transaction'`
    await expect.poll(async () => (await rowsOf(admin, waiting))[0]?.['n']).toBe(1)
    const direct = new Slot({
      schema: SCHEMA,
      id: 2,
      owner: randomUUID(),
      connect: () => connectTo(server.url()),
    })
    await direct.take()
    await direct.commit(addOne(2))
    expect(await ids()).toEqual([2])
    await direct.close()
    proxy.release('to-gateway')
    await stopped
    expect([await ids(), await total()]).toEqual([[1, 2], 2])
  })

  it('while the server is down is undecided, until it is up again', async () => {
    const slot = await taken()
    await slot.commit(addOne(1))
    proxy.hold('to-gateway')
    const done = slot.commit(addOneBlindly(2)).catch((error: unknown) => error)
    await expect.poll(ids).toEqual([1, 2])
    await server.kill9()
    proxy.cut()
    expect(await done).toBeInstanceOf(Undecided)
    await expect(slot.commit(addOne(3))).rejects.toThrow(Undecided)
    await expect(slot.settle()).rejects.toThrow('no writable PostgreSQL')
    await server.start()
    expect(await slot.settle()).toBe(true)
    admin = await connectTo(server.url())
    await slot.commit(addOne(3))
    expect([await ids(), await total()]).toEqual([[1, 2, 3], 3])
  })

  it('at any of its moments is written exactly once', async () => {
    const slot = await taken()
    const groups = Array.from({ length: 80 }, (_, i) => i)
    for (const id of groups) {
      // The bytes of a group come in some four chunks.
      chunksUntilCut = 1 + (id % 4)
      await committed(slot, id % 2 === 0 ? addOne(id) : addOneBlindly(id))
    }
    expect([await ids(), await total()]).toEqual([groups, groups.length])
    expect(cuts).toBeGreaterThan(40)
  })
})

/** One flush. The sum counts how many times it was done. */
function addOneBlindly(id: number): Group {
  const text = 'UPDATE total SET n = n + 1 WHERE id = 1'
  return group(
    { text },
    { ...insert(id), text: 'INSERT INTO w VALUES ($1, $2) ON CONFLICT DO NOTHING' },
  )
}

/** As a caller does: settles what is undecided, and repeats what was not committed. */
async function committed(slot: Slot, what: Group): Promise<void> {
  for (;;) {
    const error: unknown = await slot.commit(what).catch((reason: unknown) => reason)
    if (error === undefined) return
    if (error instanceof Undecided && (await settled(slot))) return
  }
}

function settled(slot: Slot): Promise<boolean> {
  return vi.waitFor(() => slot.settle(), { interval: 5, timeout: 30_000 })
}
