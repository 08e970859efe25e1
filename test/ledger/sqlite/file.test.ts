import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  it,
  onTestFinished,
  vi,
} from 'vitest'
import { openLedgerFile, openSqliteLedger } from '../../../src/ledger/sqlite/open.ts'
import { type Database, openDatabase } from '../../../src/ledger/sqlite/sql/driver.ts'
import { newJob } from '../../support/gateway/jobs.ts'
import { temporaryDirectory } from '../../support/temporary-directory.ts'
import { SILENT } from '../../support/time/silent.ts'
import { NOW, pushed, rowOf } from '../harness.ts'
import { openSqliteHarness } from './harness.ts'

let directory: ReturnType<typeof temporaryDirectory>
let path: string
beforeEach(() => {
  directory = temporaryDirectory()
  path = join(directory.path, 'ojs.db')
})
afterEach(() => directory.remove())

const NOBODY = 65_534

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

  it.each([
    ['full', 2],
    ['normal', 1],
  ] as const)(
    'applies the synchronous and journal modes of sync: %s',
    async (sync, synchronous) => {
      const db = await openLedgerFile({ path, sync, logger: SILENT })
      expect(db.prepare('PRAGMA synchronous').get()).toEqual({ synchronous })
      expect(db.prepare('PRAGMA journal_mode').get()).toEqual({ journal_mode: 'wal' })
      db.close()
    },
  )

  it('creates the file and its log for its own user only, and keeps the mode that an operator set', async () => {
    const modes = () =>
      readdirSync(directory.path).map((name) => statSync(join(directory.path, name)).mode & 0o777)
    const ledger = await open()
    await pushed(ledger)
    expect(modes()).toEqual([0o600, 0o600])
    await ledger.close()
    chmodSync(path, 0o640)
    const again = await open()
    await pushed(again)
    expect(modes()).toEqual([0o640, 0o640])
    await again.close()
  })

  it('leaves a single file after close, which opens again at once', async () => {
    for (const sync of ['full', 'normal', 'full'] as const) {
      const ledger = await open(sync)
      await pushed(ledger)
      await ledger.close()
      expect(readdirSync(directory.path)).toEqual(['ojs.db'])
    }
    const ledger = await open()
    expect(ledger.known.counts('default').available).toBe(3)
    await ledger.close()
  })

  it('ignores a second close, which must not miss the log that the first has deleted', async () => {
    const error = vi.fn()
    const ledger = await openSqliteLedger({ path, sync: 'full', logger: { ...SILENT, error } })
    await pushed(ledger)
    await ledger.close()
    await ledger.close()
    expect(error).not.toHaveBeenCalled()
    expect(ledger.known.fault()).toBeNull()
  })

  it('refuses a newer schema, and leaves the file unchanged', async () => {
    await (await open()).close()
    await withFile((db) => db.exec('PRAGMA user_version = 99'))
    await expect(open()).rejects.toThrow(/written by a newer ojs-rabbitmq \(schema 99/)
    await withFile((db) => {
      expect(db.prepare('PRAGMA user_version').get()).toEqual({ user_version: 99 })
    })
  })

  it('refuses an SQLite file that is not a ledger', async () => {
    await withFile((db) => db.exec('CREATE TABLE bookmarks (url)'))
    await expect(open()).rejects.toThrow('is an SQLite file, but not a ledger')
  })

  it.each(['wal', 'delete'])(
    'writes nothing to a file that it refuses, in journal mode %s',
    async (mode) => {
      const expectUntouched = async (change: string) => {
        const db = await openDatabase(path)
        db.exec(`PRAGMA journal_mode = ${mode}; ${change}`)
        db.closeAsItIs()
        const before = readFileSync(path)
        await expect(open()).rejects.toThrow(/but not a ledger|a newer ojs-rabbitmq/)
        expect(readFileSync(path).equals(before)).toBe(true)
      }
      await (await open()).close()
      await expectUntouched('PRAGMA user_version = 99')
      path = join(directory.path, 'bookmarks.db')
      await expectUntouched('CREATE TABLE bookmarks (url)')
    },
  )

  it('refuses a file that is not an SQLite file', async () => {
    writeFileSync(path, 'nothing that SQLite would know, and long enough to be looked at'.repeat(9))
    await expect(open()).rejects.toThrow('is not an SQLite file')
  })

  it('names the damaged file, and releases it', async () => {
    const ledger = await open()
    await pushed(ledger)
    await ledger.close()
    const sound = readFileSync(path)
    let page = 0
    await withFile((db) => {
      const root = db.prepare(`SELECT rootpage AS page FROM sqlite_schema WHERE name = 'settings'`)
      page = (root.get() as { page: number }).page
    })
    writeFileSync(path, Buffer.from(sound).fill(0xa5, (page - 1) * 4096, page * 4096))
    await expect(open()).rejects.toThrow(
      /cannot be opened: database disk image .* restore a backup/,
    )
    writeFileSync(path, sound)
    await (await open()).close()
  })

  it('names a file of which many pages are damaged', async () => {
    const ledger = await open()
    await pushed(ledger)
    await ledger.close()
    writeFileSync(path, readFileSync(path).fill(0xff, 2 * 4096, 12 * 4096))
    await expect(open()).rejects.toThrow(`ledger ${path} cannot be opened: database disk image`)
  })

  it('names a path that is a directory', async () => {
    mkdirSync(path)
    await expect(open()).rejects.toThrow(`ledger ${path} cannot be opened`)
  })

  it('says why the file cannot be created', async () => {
    // Not even root can create a file there.
    path = '/proc/ojs.db'
    await expect(open()).rejects.toThrow(
      /^ledger \/proc\/ojs\.db cannot be opened: (E[A-Z]+: |\/proc is not writable by this user)/,
    )
  })

  it('says that a link leads nowhere', async () => {
    symlinkSync(join(directory.path, 'unmounted', 'ojs.db'), path)
    await expect(open()).rejects.toThrow('a symbolic link to a file that does not exist')
  })

  it('does not apply a migration again, and keeps the rows', async () => {
    const first = await open()
    const { id } = await pushed(first)
    await first.close()
    const second = await open()
    expect((await rowOf(second, id)).state).toBe('available')
    await second.close()
  })
})

describe('the choice of the SQLite binding', () => {
  afterEach(() => vi.restoreAllMocks())

  it("takes Node's own when Node has one", async () => {
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

describe('a full disk', () => {
  it('fails the whole group commit with 503 and stores none of it, until there is space', async () => {
    const harness = await openSqliteHarness()
    const { ledger, db } = harness
    const before = await pushed(ledger)
    // Where time passes, a group is cut after 50 ms, and the lazy write runs alone and with the probe: it has room.
    vi.useFakeTimers({ toFake: ['performance', 'setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    const limit = (pages: number) => void db.prepare(`PRAGMA max_page_count = ${pages}`).get()
    const { pages } = db.prepare('SELECT page_count AS pages FROM pragma_page_count').get() as {
      pages: number
    }
    limit(pages + 2)
    const jobs = [newJob(), newJob({ envelope: `"${'x'.repeat(100_000)}"` }), newJob()]
    ledger.confirmed(before.outbox)
    const refused = await Promise.allSettled([
      ...jobs.map((job) => ledger.insert(job, NOW)),
      ledger.recordQueue('new', NOW),
      ledger.cancel(before.id, NOW),
    ])
    for (const result of refused) {
      expect(result).toMatchObject({ status: 'rejected', reason: { status: 503 } })
    }
    expect(ledger.known.fault()).toContain('full')
    const stored = await Promise.all(jobs.map(({ id }) => ledger.read.find(id)))
    expect(stored).toEqual([null, null, null])
    expect(await rowOf(ledger, before.id)).toMatchObject({
      state: 'available',
      outbox: before.outbox,
    })
    expect(ledger.known.counts('default')).toMatchObject({ available: 1, cancelled: 0 })
    expect(ledger.known.queues().map(({ name }) => name)).toEqual(['default'])

    limit(1_000_000)
    const again = await Promise.all(jobs.map((job) => ledger.insert(job, NOW)))
    expect(again.map(({ outcome }) => outcome)).toEqual(Array(3).fill('inserted'))
    expect(ledger.known.fault()).toBeNull()
    expect((await rowOf(ledger, before.id)).outbox).toBeNull()
    expect(ledger.known.counts('default')).toEqual(ledger.recount().states.get('default'))
    await harness.destroy()
  })
})

describe('a job with a value that no column can hold', () => {
  it('is refused alone, and the other jobs of the group commit are stored', async () => {
    const harness = await openSqliteHarness()
    const { ledger } = harness
    const good = [newJob(), newJob()]
    const notWhole = newJob({ queue: 'lost', maxAttempts: 1.5 })
    const results = await Promise.allSettled(
      [good[0], notWhole, good[1]].map((job) => ledger.insert(job ?? newJob(), NOW)),
    )
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
    expect(results[1]).toMatchObject({ reason: { status: 500, code: 'backend_error' } })
    expect(await ledger.read.find(notWhole.id)).toBeNull()
    expect(ledger.known.queues().map(({ name }) => name)).toEqual(['default'])
    expect(ledger.known.counts('lost').available).toBe(0)
    expect(ledger.known.counts('default')).toEqual(ledger.recount().states.get('default'))
    expect(ledger.known.fault()).toBeNull()
    await harness.destroy()
  })
})

describe('another process', () => {
  let build: ReturnType<typeof temporaryDirectory>
  let child: ChildProcess
  beforeAll(() => {
    build = compileLedger()
  }, 120_000)
  afterAll(() => build.remove())
  afterEach(() => child?.kill('SIGKILL'))

  /** Starts `writer.mjs`. Returns its lines so far, a wait for the nth line, and its stderr. */
  function startWriter(
    at = path,
    uid?: number,
  ): {
    lines: string[]
    until(count: number): Promise<void>
    complaints: string[]
  } {
    const module = join(build.path, 'ledger/sqlite/open.js')
    const script = fileURLToPath(new URL('./writer.mjs', import.meta.url))
    const as = uid === undefined ? [] : [String(uid)]
    child = spawn(process.execPath, [script, module, at, ...as], {
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const lines: string[] = []
    const complaints: string[] = []
    child.stderr?.on('data', (chunk) => complaints.push(String(chunk)))
    const reader = createInterface({ input: child.stdout ?? process.stdin })
    reader.on('line', (line) => lines.push(line))
    return {
      lines,
      complaints,
      async until(count) {
        while (lines.length < count) await once(reader, 'line')
      },
    }
  }

  it('that opens the same file is refused with one clear error', async () => {
    await startWriter().until(1)
    await expect(open()).rejects.toThrow(`ledger ${path} is in use by another process`)
  })

  it.runIf(mayBecomeNobody()).each(['ojs.db', 'ojs.db-wal', '.'])(
    'whose user may not write %s says so (skipped unless the test can become another user)',
    async (name) => {
      // Not in this run's folder for temporary files, which another user may not enter.
      const folder = mkdtempSync('/tmp/ojs-ledger-')
      onTestFinished(() => rmSync(folder, { recursive: true }))
      const ledger = join(folder, 'ojs.db')
      await (await openSqliteLedger({ path: ledger, sync: 'full', logger: SILENT })).close()
      writeFileSync(`${ledger}-wal`, '')
      chmodSync(folder, 0o777)
      for (const file of [ledger, `${ledger}-wal`]) chmodSync(file, 0o666)
      const forbidden = join(folder, name)
      chmodSync(forbidden, statSync(forbidden).isDirectory() ? 0o755 : 0o644)
      const { complaints } = startWriter(ledger, NOBODY)
      await once(child, 'close')
      const line = `ledger ${ledger} cannot be opened: ${forbidden} is not writable by this user (uid ${NOBODY})`
      expect(complaints.join('')).toContain(line)
    },
  )

  it.runIf(mayBecomeNobody())(
    'whose user may not create the file says so (skipped unless the test can become another user)',
    async () => {
      const folder = mkdtempSync('/tmp/ojs-ledger-')
      onTestFinished(() => rmSync(folder, { recursive: true }))
      chmodSync(folder, 0o755)
      const { complaints } = startWriter(join(folder, 'ojs.db'), NOBODY)
      await once(child, 'close')
      const line = `cannot be opened: ${folder} is not writable by this user (uid ${NOBODY})`
      expect(complaints.join('')).toContain(line)
    },
  )

  it.runIf(mayMount())(
    'on a read-only file system says so (skipped unless the test can mount one)',
    () => {
      const module = join(build.path, 'ledger/sqlite/open.js')
      const folder = directory.path
      const script = fileURLToPath(new URL('./writer.mjs', import.meta.url))
      const run = ['-m', 'sh', '-c', `${MOUNT_READ_ONLY} && shift && exec "$@"`, 'sh', folder]
      const { stderr } = spawnSync('unshare', [...run, process.execPath, script, module, path])
      expect(String(stderr)).toContain(`${folder} is on a read-only file system: make it writable`)
    },
  )

  it('prints no warning of Node to stderr', async () => {
    const { until, complaints } = startWriter()
    await until(100)
    expect(complaints).toEqual([])
  })

  it('that is killed while it writes has lost nothing that it acknowledged', async () => {
    const writer = startWriter()
    await writer.until(1500 + Math.floor(Math.random() * 1000))
    child.kill('SIGKILL')
    await once(child, 'close')

    const ledger = await open()
    // The last line may be torn. A line is a lower bound of the state that its job has reached.
    const acknowledged = writer.lines.slice(1, -1).map((line) => line.split(' '))
    expect(acknowledged.length).toBeGreaterThan(1000)
    const order = ['available', 'active', 'completed']
    for (const [state = '', id = ''] of acknowledged) {
      const row = await ledger.read.find(id)
      expect(order.indexOf(row?.state ?? ''), `${id} was ${state}`).toBeGreaterThanOrEqual(
        order.indexOf(state),
      )
    }
    expect(ledger.known.counts('q')).toEqual(ledger.recount().states.get('q'))
    const owed = (await ledger.read.outboxPage(0, 100)).map((row) => row.state)
    expect(owed.every((state) => state === 'available')).toBe(true)
    await ledger.close()
  })
  it.each(['is missing', 'is empty'])(
    'that was killed leaves a log, which is kept when the ledger file %s',
    async (what) => {
      await startWriter().until(100)
      child.kill('SIGKILL')
      await once(child, 'close')
      const [file, log] = [readFileSync(path), readFileSync(`${path}-wal`)]
      if (what === 'is missing') rmSync(path)
      else truncateSync(path)
      await expect(open()).rejects.toThrow(`${path}-wal exists`)
      expect(readFileSync(`${path}-wal`).equals(log)).toBe(true)
      writeFileSync(path, file)
      const ledger = await open()
      expect(ledger.read.find('job-0')).not.toBeNull()
      await ledger.close()
    },
  )
})

/** Shell: mounts over the folder `$1`, in the mount namespace of the shell. */
const MOUNT_READ_ONLY = 'mount -t tmpfs -o ro none "$1"'

function mayMount(): boolean {
  const run = ['-m', 'sh', '-c', MOUNT_READ_ONLY, 'sh', import.meta.dirname]
  return spawnSync('unshare', run).status === 0
}

/** Needs root. With io_uring (Debian 13), Node refuses to change its user. */
function mayBecomeNobody(): boolean {
  if (process.getuid?.() !== 0) return false
  const script = `process.setuid(${NOBODY})`
  return spawnSync(process.execPath, ['-e', script]).status === 0
}

/** Compiles the sources for Node 20 into a directory that finds this repository's packages. */
function compileLedger(): ReturnType<typeof temporaryDirectory> {
  const root = resolve(import.meta.dirname, '../../..')
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

describe('a ledger file that is moved or replaced while it is open', () => {
  const LOST = { status: 503, details: { reason: 'ledger' } }
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'setTimeout', 'clearTimeout'] })
  })
  afterEach(() => {
    vi.useRealTimers()
  })
  const copyOver = (name: string) => {
    cpSync(name, `${name}.copy`)
    renameSync(`${name}.copy`, name)
  }

  it.each([
    ['removed', () => rmSync(path)],
    ['moved', () => renameSync(path, `${path}.old`)],
    ['replaced', () => copyOver(path)],
    ['without its log', () => rmSync(`${path}-wal`)],
    ['with another log', () => copyOver(`${path}-wal`)],
    ['without its folder', () => rmSync(directory.path, { recursive: true })],
  ])('is not written any more and reports a fault once: %s', async (_, change) => {
    const lines: string[] = []
    const logger = { ...SILENT, error: (_: object, line: string) => void lines.push(line) }
    const ledger = await openSqliteLedger({ path, sync: 'full', logger })
    await pushed(ledger)
    change()
    vi.advanceTimersByTime(2_000)
    expect(ledger.known.fault()).toContain('removed or replaced')
    await expect(pushed(ledger)).rejects.toMatchObject(LOST)
    vi.advanceTimersByTime(10_000)
    expect(ledger.known.fault()).toContain('removed or replaced')
    expect(lines).toEqual(['ledger: a group commit failed'])
    await ledger.close()
  })

  it('is written again once it is back', async () => {
    const ledger = await open()
    renameSync(path, `${path}.old`)
    vi.advanceTimersByTime(2_000)
    await expect(pushed(ledger)).rejects.toMatchObject(LOST)
    renameSync(`${path}.old`, path)
    vi.advanceTimersByTime(4_000)
    expect(ledger.known.fault()).toBeNull()
    const job = await pushed(ledger)
    await ledger.close()
    expect((await open()).read.find(job.id)).not.toBeNull()
  })

  it('keeps the log of the file that took its place on close', async () => {
    const ledger = await open()
    await pushed(ledger)
    for (const name of [path, `${path}-wal`]) copyOver(name)
    await ledger.close()
    expect(existsSync(`${path}-wal`)).toBe(true)
  })

  it('keeps its log on close while it is away, and deletes it when another file has its place', async () => {
    const ledger = await open()
    await pushed(ledger)
    renameSync(path, `${path}.old`)
    await ledger.close()
    expect(existsSync(`${path}-wal`)).toBe(true)
    rmSync(`${path}-wal`)

    const next = await open()
    await pushed(next)
    copyOver(path)
    await next.close()
    expect(existsSync(`${path}-wal`)).toBe(false)
  })
})
