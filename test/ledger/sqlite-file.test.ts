import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { type Database, openDatabase } from '../../src/ledger/sqlite/driver.ts'
import { sql as firstSchema } from '../../src/ledger/sqlite/migrations/0001-jobs.ts'
import { openSqliteLedger } from '../../src/ledger/sqlite/open.ts'
import { prepareStatements, type Statements } from '../../src/ledger/sqlite/statements.ts'
import { newJob } from '../support/jobs.ts'
import { NOW, pushed, rowOf } from './harness.ts'
import {
  openSqliteHarness,
  SILENT,
  type SqliteHarness,
  temporaryDirectory,
} from './sqlite-harness.ts'

let directory: ReturnType<typeof temporaryDirectory>
let path: string
beforeEach(() => {
  directory = temporaryDirectory()
  path = join(directory.path, 'ojs.db')
})
afterEach(() => directory.remove())

const open = (sync: 'full' | 'normal' = 'full') => openSqliteLedger({ path, sync, logger: SILENT })

async function withFile(change: (db: Database) => void): Promise<void> {
  const db = await openDatabase(path)
  change(db)
  db.close()
}

describe('opening a ledger file', () => {
  it('creates it with its directory', async () => {
    path = join(directory.path, 'a', 'b', 'ojs.db')
    const ledger = await open()
    await pushed(ledger)
    await ledger.close()
    expect(existsSync(path)).toBe(true)
  })

  it('leaves one file behind after close, which opens again at once', async () => {
    for (const sync of ['full', 'normal', 'full'] as const) {
      const ledger = await open(sync)
      await pushed(ledger)
      await ledger.close()
      expect(readdirSync(directory.path)).toEqual(['ojs.db'])
    }
    const ledger = await open()
    expect(ledger.counts('default').available).toBe(3)
    await ledger.close()
  })

  it('refuses a schema newer than this code, and leaves it alone', async () => {
    await (await open()).close()
    await withFile((db) => db.exec('PRAGMA user_version = 99'))
    await expect(open()).rejects.toThrow(/written by a newer ojs-rabbitmq \(schema 99/)
    await withFile((db) => {
      expect(db.prepare('PRAGMA user_version').get()).toEqual({ user_version: 99 })
    })
  })

  it('refuses an SQLite file of something else', async () => {
    await withFile((db) => db.exec('CREATE TABLE bookmarks (url)'))
    await expect(open()).rejects.toThrow('is an SQLite file, but not a ledger')
  })

  it('refuses a file that is no database', async () => {
    writeFileSync(path, 'nothing that SQLite would know, and long enough to be looked at'.repeat(9))
    await expect(open()).rejects.toThrow('is not an SQLite file')
  })

  it('says so when the path cannot be a file', async () => {
    mkdirSync(path)
    await expect(open()).rejects.toThrow(`ledger ${path} cannot be opened`)
  })

  it('starts nothing over: an applied migration is not applied again', async () => {
    const first = await open()
    const { id } = await pushed(first)
    await first.close()
    const second = await open()
    expect(rowOf(second, id).state).toBe('available')
    await second.close()
  })
})

describe('a ledger of the first schema', () => {
  /** As the first release wrote it: ended and live rows, counts, nonces and queues. */
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

  it('is brought up to date with everything in it', async () => {
    await writeFirstSchema()
    const ledger = await open()
    const same = { generation: 4, priority: -3, maxAttempts: 7, timeoutMs: 9, enqueuedAt: 2 }
    const fresh = { rungMs: null, retryDelayMs: null, activatedAt: null }
    const lease = { holder: 'gateway', workerId: 'w', leaseExpiresAt: 90, timeoutAt: 80 }
    const rows = Object.fromEntries([...'abcdef'].map((id) => [id, rowOf(ledger, id)]))
    expect(rows).toMatchObject({
      a: { ...same, ...fresh, ...lease, state: 'active', envelope: '{"a":1}', isDeadLetter: false },
      b: { ...same, state: 'discarded', isDeadLetter: true, deadLetterCopied: true },
      c: { ...same, state: 'discarded', isDeadLetter: true, deadLetterCopied: false },
      d: { ...same, state: 'available', outbox: 77, carry: { tags: ['x'] }, tokenOut: true },
      e: { ...same, state: 'retryable', dueAt: 60, isDeadLetter: false },
      f: { ...same, state: 'completed', completedAt: 72, tokenOut: false },
    })
    expect(ledger.deadLetters({ queue: null, limit: 10, offset: 0 })).toMatchObject({
      total: 2,
      jobs: [{ id: 'c' }, { id: 'b', error: '{"code":"e"}' }],
    })
    expect([ledger.deadLetterCount('q'), ledger.deadLetterCount('r')]).toEqual([2, 0])
    expect(ledger.counts('q')).toMatchObject({ active: 1, discarded: 2 })
    expect(ledger.queues()).toEqual([
      { name: 'q', createdAt: 1 },
      { name: 'r', createdAt: 2 },
    ])
    expect([ledger.staleCopies(), ledger.rungs()]).toEqual([[], []])
    expect(ledger.nextDue()).toEqual({ retryable: 60, scheduled: null })
    expect(ledger.overdue(80, 10).map(({ id }) => id)).toEqual(['a'])
    expect(ledger.outboxPage(0, 10).map(({ id }) => id)).toEqual(['d'])
    for (const queue of ['q', 'r']) {
      expect(ledger.counts(queue)).toEqual(ledger.recount().get(queue))
      expect(ledger.deadLetterCount(queue)).toBe(ledger.recountDeadLetters().get(queue))
    }
    const { outbox } = await pushed(ledger)
    expect(outbox).toBeGreaterThan(500)
    await ledger.close()
  })

  it('stays as it was when the step fails', async () => {
    await writeFirstSchema()
    await withFile((db) => db.exec('CREATE TABLE rungs (taken)'))
    await expect(open()).rejects.toThrow('rungs')
    await withFile((db) => {
      expect(db.prepare('PRAGMA user_version').get()).toEqual({ user_version: 1 })
      expect(db.prepare('SELECT count(*) AS count FROM jobs').get()).toEqual({ count: 6 })
    })
  })
})

describe('the choice of the binding', () => {
  afterEach(() => vi.restoreAllMocks())

  it("takes Node's own when there is one", async () => {
    const opened: string[] = []
    class DatabaseSync {
      constructor(file: string) {
        opened.push(file)
      }
    }
    vi.spyOn(process, 'getBuiltinModule').mockReturnValue({ DatabaseSync })
    await openDatabase('some.db')
    expect(process.getBuiltinModule).toHaveBeenCalledWith('node:sqlite')
    expect(opened).toEqual(['some.db'])
  })

  it('takes the package when Node has none', async () => {
    vi.spyOn(process, 'getBuiltinModule').mockReturnValue(undefined)
    const db = await openDatabase(path)
    expect(db.prepare('SELECT 1 AS one').get()).toEqual({ one: 1 })
    db.close()
  })
})

/** Statements of request paths and timers, and the index that each has to go by. */
const INDEX_OF: Partial<Record<keyof Statements, string>> = {
  find: 'sqlite_autoindex_jobs_1',
  claimNext: 'sqlite_autoindex_jobs_1',
  complete: 'sqlite_autoindex_jobs_1',
  extend: 'sqlite_autoindex_jobs_1',
  failToRetry: 'sqlite_autoindex_jobs_1',
  failToAvailable: 'sqlite_autoindex_jobs_1',
  failToDiscarded: 'sqlite_autoindex_jobs_1',
  revive: 'sqlite_autoindex_jobs_1',
  deleteDeadLetter: 'sqlite_autoindex_jobs_1',
  promote: 'INTEGER PRIMARY KEY',
  rearm: 'INTEGER PRIMARY KEY',
  nextDue: 'jobs_due',
  due: 'jobs_due',
  expired: 'jobs_expires',
  overdue: 'jobs_lease',
  extendLeases: 'jobs_lease',
  handOverAll: 'jobs_lease',
  deadLetters: 'jobs_dead',
  deadLettersOf: 'jobs_dead_queue',
  prune: 'jobs_prunable',
  pruneCopied: 'jobs_prunable',
  rearmable: 'jobs_live',
  rearmableOfRung: 'jobs_live',
  handOverQueue: 'jobs_live',
  forgetStrays: 'jobs_stray',
  outboxPage: 'jobs_outbox',
  owedTokens: 'jobs_outbox',
  owedCopies: 'jobs_outbox',
  confirmed: 'sqlite_autoindex_jobs_1',
  copyConfirmed: 'sqlite_autoindex_jobs_1',
}

describe('every statement', () => {
  let harness: SqliteHarness
  const plans = new Map<string, string[]>()
  beforeAll(async () => {
    harness = await openSqliteHarness()
    const texts = new Map<unknown, string>()
    const statements = prepareStatements({
      ...harness.db,
      prepare: (sql) => {
        const statement = harness.db.prepare(sql)
        texts.set(statement, sql)
        return statement
      },
    })
    for (const [name, statement] of Object.entries(statements)) {
      const sql = `EXPLAIN QUERY PLAN ${texts.get(statement)}`
      const plan = harness.db.prepare(sql).all() as { detail: string }[]
      plans.set(
        name,
        plan.map(({ detail }) => detail),
      )
    }
  })
  afterAll(() => harness.destroy())

  it('finds its rows by an index and in its order, but for the recount', () => {
    const scans = [...plans].filter(([, plan]) =>
      plan.some((detail) => /SCAN jobs|TEMP B-TREE/.test(detail)),
    )
    expect(plans.size).toBeGreaterThan(45)
    expect(scans.map(([name]) => name)).toEqual(['recount'])
  })

  it.each(Object.entries(INDEX_OF))('%s goes by %s', (name, index) => {
    const reads = (plans.get(name) ?? []).filter((detail) => detail.includes('jobs'))
    const byIndex = new RegExp(`SEARCH jobs USING (COVERING )?(INDEX )?${index}\\b`)
    expect(
      reads.some((detail) => byIndex.test(detail)),
      reads.join('; '),
    ).toBe(true)
  })
})

describe('a full disk', () => {
  it('refuses the whole group with 503, stores nothing of it, and is over with the cause', async () => {
    const harness = await openSqliteHarness()
    const { ledger, db } = harness
    const before = await pushed(ledger)
    const limit = (pages: number) => void db.prepare(`PRAGMA max_page_count = ${pages}`).get()
    const { pages } = db.prepare('SELECT page_count AS pages FROM pragma_page_count').get() as {
      pages: number
    }
    limit(pages + 2)
    const jobs = [newJob(), newJob({ envelope: `"${'x'.repeat(100_000)}"` }), newJob()]
    ledger.confirmed(before.id, before.outbox)
    const refused = await Promise.allSettled([
      ...jobs.map((job) => ledger.insert(job, NOW)),
      ledger.recordQueue('new', NOW),
      ledger.cancel(before.id, NOW),
    ])
    for (const result of refused) {
      expect(result).toMatchObject({ status: 'rejected', reason: { status: 503 } })
    }
    expect(ledger.fault()).toContain('full')
    expect(jobs.map(({ id }) => ledger.find(id))).toEqual([null, null, null])
    expect(rowOf(ledger, before.id)).toMatchObject({ state: 'available', outbox: before.outbox })
    expect(ledger.counts('default')).toMatchObject({ available: 1, cancelled: 0 })
    expect(ledger.queues().map(({ name }) => name)).toEqual(['default'])

    limit(1_000_000)
    const again = await Promise.all(jobs.map((job) => ledger.insert(job, NOW)))
    expect(again.map(({ outcome }) => outcome)).toEqual(Array(3).fill('inserted'))
    expect(ledger.fault()).toBeNull()
    expect(rowOf(ledger, before.id).outbox).toBeNull()
    expect(ledger.counts('default')).toEqual(ledger.recount().get('default'))
    await harness.destroy()
  })
})

describe('a job that no column can hold', () => {
  it('is refused alone; the others of its group are stored', async () => {
    const harness = await openSqliteHarness()
    const { ledger } = harness
    const good = [newJob(), newJob()]
    const notWhole = newJob({ queue: 'lost', maxAttempts: 1.5 })
    const results = await Promise.allSettled(
      [good[0], notWhole, good[1]].map((job) => ledger.insert(job ?? newJob(), NOW)),
    )
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
    expect(results[1]).toMatchObject({ reason: { status: 500, code: 'backend_error' } })
    expect(ledger.find(notWhole.id)).toBeNull()
    expect(ledger.queues().map(({ name }) => name)).toEqual(['default'])
    expect(ledger.counts('lost').available).toBe(0)
    expect(ledger.counts('default')).toEqual(ledger.recount().get('default'))
    expect(ledger.fault()).toBeNull()
    await harness.destroy()
  })
})

describe('another process', () => {
  let build: ReturnType<typeof temporaryDirectory>
  let child: ChildProcess
  beforeAll(() => {
    build = compileLedger()
  }, 60_000)
  afterAll(() => build.remove())
  afterEach(() => child.kill('SIGKILL'))

  /** Its lines so far, and a promise of the nth line. */
  function startWriter(): { lines: string[]; until(count: number): Promise<void> } {
    const module = join(build.path, 'ledger/sqlite/open.js')
    const script = fileURLToPath(new URL('./writer.mjs', import.meta.url))
    child = spawn(process.execPath, [script, module, path], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const lines: string[] = []
    const reader = createInterface({ input: child.stdout ?? process.stdin })
    reader.on('line', (line) => lines.push(line))
    return {
      lines,
      async until(count) {
        while (lines.length < count) await once(reader, 'line')
      },
    }
  }

  it('on the same file is refused with one clear error', async () => {
    await startWriter().until(1)
    await expect(open()).rejects.toThrow(`ledger ${path} is in use by another process`)
  })

  it('that is killed while it writes loses nothing that was acknowledged', async () => {
    const writer = startWriter()
    await writer.until(1500 + Math.floor(Math.random() * 1000))
    child.kill('SIGKILL')
    await once(child, 'close')

    const ledger = await open()
    // The last line may be torn; what was said of a job before is a lower bound of its state.
    const acknowledged = writer.lines.slice(1, -1).map((line) => line.split(' '))
    expect(acknowledged.length).toBeGreaterThan(1000)
    const order = ['available', 'active', 'completed']
    for (const [state = '', id = ''] of acknowledged) {
      const row = ledger.find(id)
      expect(order.indexOf(row?.state ?? ''), `${id} was ${state}`).toBeGreaterThanOrEqual(
        order.indexOf(state),
      )
    }
    expect(ledger.counts('q')).toEqual(ledger.recount().get('q'))
    const owed = ledger.outboxPage(0, 100).map((row) => row.state)
    expect(owed.every((state) => state === 'available')).toBe(true)
    await ledger.close()
  })
})

/** The sources as Node 20 can run them, in a directory that finds this repository's packages. */
function compileLedger(): ReturnType<typeof temporaryDirectory> {
  const root = resolve(import.meta.dirname, '../..')
  const target = temporaryDirectory()
  symlinkSync(join(root, 'node_modules'), join(target.path, 'node_modules'))
  writeFileSync(join(target.path, 'package.json'), '{"type":"module"}')
  writeFileSync(
    join(target.path, 'tsconfig.json'),
    JSON.stringify({
      extends: join(root, 'tsconfig.json'),
      compilerOptions: {
        ...{
          noEmit: false,
          noEmitOnError: true,
          declaration: false,
          outDir: '.',
          rootDir: join(root, 'src'),
        },
        typeRoots: [join(root, 'node_modules/@types')],
      },
      files: [join(root, 'src/ledger/sqlite/open.ts')],
      include: [],
    }),
  )
  const tsc = join(root, 'node_modules/typescript/bin/tsc')
  execFileSync(process.execPath, [tsc, '-p', target.path], { stdio: 'inherit' })
  return target
}
