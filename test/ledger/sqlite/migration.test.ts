import { join, relative } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { JOB_STATES, type JobState } from '../../../src/job/job.ts'
import { sql as firstSchema } from '../../../src/ledger/sqlite/migrations/0001-jobs.ts'
import { sql as checks } from '../../../src/ledger/sqlite/migrations/0010-checks.ts'
import { sql as lostQueues } from '../../../src/ledger/sqlite/migrations/0014-lost-queues.ts'
import { sql as extendedLeases } from '../../../src/ledger/sqlite/migrations/0016-extended-leases.ts'
import { sql as uniqueKeys } from '../../../src/ledger/sqlite/migrations/0017-unique-keys.ts'
import { MIGRATIONS, migrate } from '../../../src/ledger/sqlite/migrations.ts'
import { openSqliteLedger } from '../../../src/ledger/sqlite/open.ts'
import { type Database, openDatabase } from '../../../src/ledger/sqlite/sql/driver.ts'
import { newJob } from '../../support/gateway/jobs.ts'
import { temporaryDirectory } from '../../support/temporary-directory.ts'
import { SILENT } from '../../support/time/silent.ts'
import { deadLetters, overdueRows, pushed, rowOf } from '../harness.ts'
import { inspect } from './harness.ts'

let directory: ReturnType<typeof temporaryDirectory>
let path: string
beforeEach(() => {
  directory = temporaryDirectory()
  path = join(directory.path, 'ojs.db')
})
afterEach(() => directory.remove())

const open = () => openSqliteLedger({ path, sync: 'full', logger: SILENT })

async function withFile(change: (db: Database) => void | Promise<void>): Promise<void> {
  const db = await openDatabase(path)
  await change(db)
  db.close()
}

describe('the migration that rebuilds the jobs table with checks', () => {
  const columns = (db: Database) => db.prepare('PRAGMA table_xinfo(jobs)').all()
  const indexes = (db: Database) =>
    db
      .prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'index' ORDER BY name")
      .all()
      .map((index) => JSON.stringify(index).replaceAll(/(\\n|\s)+/g, ' '))

  it('keeps the columns and indexes, and refuses unknown states and holders and negative attempts', async () => {
    await withFile((db) => {
      for (const sql of MIGRATIONS.slice(0, MIGRATIONS.indexOf(checks))) db.exec(sql)
      const before = [columns(db), indexes(db)]
      db.exec(checks)
      expect([columns(db), indexes(db)]).toEqual(before)
      const insert = db.prepare(
        `INSERT INTO jobs (id, generation, state, attempt, queue, type, priority, max_attempts,
           timeout_ms, token_out, created_at, enqueued_at, dead_letter_copied, envelope, holder)
         VALUES (?, 0, ?, ?, 'q', 't', 0, 1, 0, 0, 0, 0, 0, '{}', ?)`,
      )
      for (const state of [...JOB_STATES, 'withdrawn']) insert.run(state, state, 0, null)
      for (const holder of ['gateway', 'ledger', 'native']) insert.run(holder, 'active', 1, holder)
      expect(() => insert.run('a', 'lost', 0, null)).toThrow('CHECK')
      expect(() => insert.run('b', 'active', 0, 'nobody')).toThrow('CHECK')
      expect(() => insert.run('c', 'active', -1, null)).toThrow('CHECK')
    })
  })
})

it('a migrated ledger knows lost queues that had a word in place of their identity, and keeps all identities', async () => {
  await withFile(async (db) => {
    for (const sql of MIGRATIONS.slice(0, MIGRATIONS.indexOf(lostQueues))) db.exec(sql)
    db.exec('PRAGMA application_id = 0x4f4a534c')
    db.exec(`INSERT INTO queues (name, created_at, marker)
             VALUES ('gone', 1, 'lost'), ('there', 2, 'q-1'), ('unmarked', 3, NULL)`)
    db.exec(`PRAGMA user_version = ${MIGRATIONS.indexOf(lostQueues)}`)
  })
  const ledger = await open()
  expect(ledger.known.lost.all()).toEqual(['gone'])
  const names = ['gone', 'there', 'unmarked']
  const identities = names.map((queue) => ledger.read.queueIdentity(queue))
  expect(await Promise.all(identities)).toEqual([null, 'q-1', null])
  await ledger.close()
})

it('a migrated ledger keeps a lease that a heartbeat extended before lengths of leases were stored', async () => {
  await withFile(async (db) => {
    for (const sql of MIGRATIONS.slice(0, MIGRATIONS.indexOf(extendedLeases))) db.exec(sql)
    db.exec('PRAGMA application_id = 0x4f4a534c')
    db.exec(`INSERT INTO jobs (id, generation, state, attempt, queue, type, priority, max_attempts, timeout_ms,
               token_out, created_at, enqueued_at, started_at, dead_letter_copied, envelope, holder,
               lease_ms, lease_expires_at)
             VALUES ('job', 0, 'active', 1, 'q', 't', 0, 1, 0, 1, 1, 1, 1000, 0, '{}', 'native', 50, 9000);
             INSERT INTO state_counts VALUES ('q', 'active', 1)`)
    db.exec(`PRAGMA user_version = ${MIGRATIONS.indexOf(extendedLeases)}`)
  })
  const ledger = await open()
  expect(await ledger.boundWaits(1000)).toBe(0)
  expect((await rowOf(ledger, 'job')).leaseExpiresAt).toBe(9000)
  await ledger.close()
})

it('a migrated ledger finds unique jobs by their keys, those that many have by their state', async () => {
  const before = MIGRATIONS.indexOf(uniqueKeys)
  await withFile(async (db) => {
    for (const sql of MIGRATIONS.slice(0, before)) db.exec(sql)
    db.exec(`PRAGMA application_id = 0x4f4a534c; PRAGMA user_version = ${before}`)
    const insert = db.prepare(
      `INSERT INTO jobs (id, generation, state, attempt, queue, type, priority, max_attempts, timeout_ms,
         token_out, created_at, enqueued_at, dead_letter_copied, envelope, unique_key, ended_at)
       VALUES (?1, 0, ?2, 0, 'q', 't', 0, 1, 0, 0, 1000, 1000, 0, '{}', ?3, iif(?2 = 'completed', 1, NULL))`,
    )
    for (let i = 0; i < 5; i++) insert.run(`ended-${i}`, 'completed', 'popular')
    insert.run('waiting', 'available', 'popular')
    insert.run('rare', 'completed', 'rare')
    insert.run('plain', 'available', null)
    db.exec(`INSERT INTO state_counts VALUES ('q', 'available', 2), ('q', 'completed', 6)`)
  })
  const ledger = await open()
  const outcome = async (key: string, states: readonly JobState[]) => {
    const unique = { key, states, periodMs: null, onConflict: 'ignore' } as const
    const inserted = await ledger.insert(newJob({ unique, createdAt: 2000 }), 2000)
    return inserted.outcome === 'existing' ? inserted.job.id : inserted.outcome
  }
  expect(await outcome('popular', ['available'])).toBe('waiting')
  expect(await outcome('popular', ['active'])).toBe('inserted')
  expect(await outcome('popular', ['completed'])).toMatch('ended-')
  expect(await outcome('rare', ['available'])).toBe('inserted')
  expect(await outcome('rare', ['completed'])).toBe('rare')
  expect(await outcome('new', JOB_STATES)).toBe('inserted')
  await ledger.close()
  await withFile((db) => {
    const keys = db.prepare('SELECT beginning, seq FROM unique_keys').all()
    expect(keys).toEqual([{ beginning: 'rare', seq: 7 }])
    expect(inspect(db)).toEqual([])
  })
})

describe('a ledger of the first schema', () => {
  /** A file as the first release wrote it: ended and live rows, counts, nonces and queues. */
  async function writeFirstSchema(): Promise<void> {
    await withFile((db) => {
      db.exec(firstSchema)
      db.exec('PRAGMA application_id = 0x4f4a534c; PRAGMA user_version = 1')
      db.exec(`UPDATE settings SET value = 500 WHERE name = 'outbox_ceiling';
        INSERT INTO queues (name, created_at) VALUES ('q', 1), ('r', 2);
        INSERT INTO state_counts VALUES ('q', 'active', 1), ('q', 'discarded', 2),
          ('r', 'available', 1), ('r', 'retryable', 1), ('r', 'completed', 1)`)
      const insert = db.prepare(
        `INSERT INTO jobs (seq, id, state, queue, attempt, outbox, holder, worker_id, lease_ms,
           lease_expires_at, timeout_at, due_at, discarded_at, completed_at, ended_at, carry, error,
           envelope, token_out, dead_letter_copied, generation, type, priority, max_attempts,
           timeout_ms, created_at, enqueued_at)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 4, 't', -3, 7, 9, 1, 2)`,
      )
      const [none, lease] = [
        [null, null, null, null, null],
        ['gateway', 'w', 50, 90, 80],
      ]
      insert.run(
        3,
        'a',
        'active',
        'q',
        1,
        null,
        ...lease,
        null,
        null,
        null,
        null,
        null,
        null,
        '{"a":1}',
        1,
        0,
      )
      insert.run(
        5,
        'b',
        'discarded',
        'q',
        3,
        null,
        ...none,
        null,
        70,
        70,
        70,
        null,
        '{"code":"e"}',
        '{"b":1}',
        0,
        1,
      )
      insert.run(
        6,
        'c',
        'discarded',
        'q',
        3,
        null,
        ...none,
        null,
        71,
        71,
        71,
        null,
        null,
        '{"c":1}',
        1,
        0,
      )
      insert.run(
        8,
        'd',
        'available',
        'r',
        0,
        77,
        ...none,
        null,
        null,
        null,
        null,
        '{"tags":["x"]}',
        null,
        '{"d":1}',
        1,
        0,
      )
      insert.run(
        9,
        'e',
        'retryable',
        'r',
        1,
        null,
        ...none,
        60,
        null,
        null,
        null,
        null,
        null,
        '{"e":1}',
        1,
        0,
      )
      insert.run(
        10,
        'f',
        'completed',
        'r',
        1,
        null,
        ...none,
        null,
        null,
        72,
        72,
        null,
        null,
        '{"f":1}',
        0,
        0,
      )
    })
  }

  it('is migrated with everything in it', async () => {
    await writeFirstSchema()
    const ledger = await open()
    const same = { generation: 4, priority: -3, maxAttempts: 7, timeoutMs: 9, enqueuedAt: 2 }
    const fresh = { retryQueueMs: null, retryDelayMs: null, activatedAt: null }
    const lease = { holder: 'gateway', workerId: 'w', leaseExpiresAt: 90, timeoutAt: 80 }
    const rows = Object.fromEntries(
      await Promise.all([...'abcdef'].map(async (id) => [id, await rowOf(ledger, id)])),
    )
    expect(rows).toMatchObject({
      a: { ...same, ...fresh, ...lease, state: 'active', envelope: '{"a":1}', isDeadLetter: false },
      b: { ...same, state: 'discarded', isDeadLetter: true, deadLetterCopied: true },
      c: { ...same, state: 'discarded', isDeadLetter: true, deadLetterCopied: false },
      d: { ...same, state: 'available', outbox: 77, carry: { tags: ['x'] }, messageOut: true },
      e: { ...same, state: 'retryable', dueAt: 60, isDeadLetter: false },
      f: { ...same, state: 'completed', completedAt: 72, messageOut: false },
    })
    const letters = [{ id: 'c' }, { id: 'b', error: '{"code":"e"}' }]
    expect(await deadLetters(ledger, null)).toMatchObject(letters)
    expect([ledger.known.deadLetterCount('q'), ledger.known.deadLetterCount('r')]).toEqual([2, 0])
    expect(ledger.known.counts('q')).toMatchObject({ active: 1, discarded: 2 })
    expect(ledger.known.queues()).toEqual([
      { name: 'q', createdAt: 1 },
      { name: 'r', createdAt: 2 },
    ])
    expect([ledger.known.staleCopies().size, ledger.known.retryQueues()]).toEqual([0, []])
    expect((await overdueRows(ledger, 80, 10)).map(({ id }) => id)).toEqual(['a'])
    expect((await ledger.read.outboxPage(0, 10)).map(({ id }) => id)).toEqual(['d'])
    for (const queue of ['q', 'r']) {
      expect(ledger.known.counts(queue)).toEqual(ledger.recount().states.get(queue))
      expect(ledger.known.deadLetterCount(queue)).toBe(ledger.recount().deadLetters.get(queue))
    }
    const { outbox } = await pushed(ledger)
    expect(outbox).toBeGreaterThan(500)
    await ledger.close()
  })

  it('logs once that its migration begins and ends', async () => {
    await writeFirstSchema()
    const lines: object[] = []
    const logger = { ...SILENT, info: (fields: object) => void lines.push(fields) }
    const opened = () => openSqliteLedger({ path, sync: 'full', logger })
    const opening = opened()
    await vi.waitUntil(() => lines.length > 0, { interval: 1, timeout: 15_000 })
    // The line is logged before the migration begins, which blocks the process.
    const change = { ledger: path, from: 1, to: MIGRATIONS.length }
    expect(lines).toEqual([change])
    await (await opening).close()
    expect(lines).toEqual([change, { ...change, durationMs: expect.any(Number) }])
    await (await opened()).close()
    expect(lines).toHaveLength(2)
  })

  it('is logged with its absolute path when it is new, because another one may be elsewhere', async () => {
    const lines: unknown[] = []
    const logger = { ...SILENT, info: (...line: unknown[]) => void lines.push(line) }
    const opened = () =>
      openSqliteLedger({ path: relative(process.cwd(), path), sync: 'full', logger })
    await (await opened()).close()
    expect(lines).toEqual([[{ ledger: path }, 'new ledger']])
    await (await opened()).close()
    expect(lines).toHaveLength(1)
  })

  it('reports why a migration failed when SQLite has ended the transaction, and can be migrated later', async () => {
    await writeFirstSchema()
    await withFile(async (db) => {
      const exec = (sql: string) => {
        if (sql !== checks) return db.exec(sql)
        // SQLite ends the transaction when the disk is full in the middle of a large step.
        db.exec('ROLLBACK')
        throw new Error('database or disk is full')
      }
      await expect(migrate({ ...db, exec }, path, SILENT)).rejects.toThrow('disk is full')
    })
    await (await open()).close()
  })

  it('is unchanged when one of the migrations fails', async () => {
    await writeFirstSchema()
    await withFile((db) => db.exec('CREATE TABLE idempotency_keys (taken)'))
    await expect(open()).rejects.toThrow('idempotency_keys')
    await withFile((db) => {
      expect(db.prepare('PRAGMA user_version').get()).toEqual({ user_version: 1 })
      expect(db.prepare('SELECT count(*) AS count FROM jobs').get()).toEqual({ count: 6 })
    })
  })
})
