import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { CommittedState } from '../../../../src/ledger/sqlite/commit/committed-state.ts'
import { GroupCommit } from '../../../../src/ledger/sqlite/commit/group-commit.ts'
import { type Database, openDatabase } from '../../../../src/ledger/sqlite/sql/driver.ts'
import { inOrder } from '../../../support/broker/order.ts'
import { temporaryDirectory } from '../../../support/temporary-directory.ts'
import { SILENT } from '../../../support/time/silent.ts'

const UNAVAILABLE = { code: 'backend_error', status: 503, details: { reason: 'ledger' } }
const REFUSED = { code: 'backend_error', status: 500 }

/** Records the calls of the group commit. */
class Diary implements CommittedState {
  readonly entries: string[] = []
  keep = () => this.entries.push('keep')
  undo = () => this.entries.push('undo')
  store = () => this.entries.push('store')
  commit = () => this.entries.push('commit')
  discard = () => this.entries.push('discard')
}

describe('a group commit', () => {
  let directory: ReturnType<typeof temporaryDirectory>
  let db: Database
  let executed: string[]
  let diary: Diary
  let group: GroupCommit
  /** How long each commit takes by the mocked clock, in ms. */
  let commitTakes: number
  let takeTime: (ms: number) => void

  beforeEach(async () => {
    directory = temporaryDirectory()
    db = await openDatabase(`${directory.path}/group.db`)
    db.exec(`PRAGMA journal_mode = WAL; CREATE TABLE t (n INTEGER UNIQUE, pad TEXT);
      CREATE TABLE probes (n)`)
    executed = []
    commitTakes = 0
    let now = 0
    vi.spyOn(performance, 'now').mockImplementation(() => now)
    takeTime = (ms) => {
      now += ms
    }
    const exec = db.exec.bind(db)
    vi.spyOn(db, 'exec').mockImplementation((sql) => {
      executed.push(sql)
      exec(sql)
      if (sql === 'COMMIT') now += commitTakes
    })
    diary = new Diary()
    const insertProbe = db.prepare('INSERT INTO probes VALUES (1)')
    const probe = () => void insertProbe.run()
    group = new GroupCommit({ db, committedStates: [diary], logger: SILENT, probe })
  })
  afterEach(() => {
    vi.useRealTimers()
    vi.restoreAllMocks()
    group.close()
    db.close()
    directory.remove()
  })

  const insert = (n: number, pad = '') =>
    db.prepare('INSERT INTO t VALUES (?, ?)').run(n, pad).changes
  const stored = () =>
    (db.prepare('SELECT n FROM t ORDER BY n').all() as { n: number }[]).map((row) => row.n)

  it('succeeds when it is stored, even if a listener to its commit throws', async () => {
    diary.commit = () => {
      throw new Error('a listener failed')
    }
    expect(await group.write(() => insert(1))).toBe(1)
    expect([stored(), group.fault()]).toEqual([[1], null])
  })
  const commits = () => executed.filter((sql) => sql === 'COMMIT').length
  /** Limits the file to two more pages; `freeSpace` lifts the limit. */
  const limitSpace = () => {
    const { page_count: pages } = db.prepare('PRAGMA page_count').get() as { page_count: number }
    db.prepare(`PRAGMA max_page_count = ${pages + 2}`).get()
  }
  const freeSpace = () => void db.prepare('PRAGMA max_page_count = 1000000').get()
  const BIG = 'x'.repeat(100_000)
  /** Lets the next `times` commits fail. Returns a function that counts those that have failed. */
  const failCommits = (times: number) => {
    let failed = 0
    const push = executed.push.bind(executed)
    executed.push = (sql) => {
      if (sql !== 'COMMIT' || failed === times) return push(sql)
      failed += 1
      throw Object.assign(new Error('disk I/O error'), { errcode: 10 })
    }
    return () => failed
  }

  describe('of the writes of one turn', () => {
    it('is one transaction', async () => {
      await Promise.all([1, 2, 3].map((n) => group.write(() => insert(n))))
      expect(commits()).toBe(1)
      expect(stored()).toEqual([1, 2, 3])
      expect(diary.entries).toEqual(['keep', 'keep', 'keep', 'store', 'commit'])
    })

    it('settles each write after its commit, with what the write returned', async () => {
      const seen = group.write(() => 'result').then((result) => [result, commits()])
      expect(commits()).toBe(0)
      expect(await seen).toEqual(['result', 1])
    })

    it('ends at the weight limit, and the rest follows in the next turn', async () => {
      await Promise.all(Array.from({ length: 2500 }, (_, n) => group.write(() => insert(n))))
      expect(commits()).toBe(3)
      await Promise.all([1, 2].map((n) => group.write(() => insert(5000 + n), 600)))
      expect(commits()).toBe(5)
      expect(stored()).toHaveLength(2502)
    })

    it('ends when it takes long, and the rest follows in later turns in order', async () => {
      const turns: number[] = []
      const slow = (n: number) => () => {
        takeTime(40)
        turns.push(commits())
        return insert(n)
      }
      group.writeLazily(() => void slow(0)())
      group.writeLazily(() => void slow(10)())
      const writes = [1, 2, 3, 4].map((n) => group.write(slow(n)))
      const behind = group.written().then(stored)
      await Promise.all(writes.slice(0, 1))
      expect(turns.length).toBeLessThan(6)
      expect(await behind).toEqual([0, 1, 2, 3, 4, 10])
      expect(turns).toEqual([0, 0, 1, 1, 2, 2])
    })

    it('rejects all its writes, and stores none, when it ends early and its commit fails', async () => {
      const hasFailed = failCommits(1)
      const slow = (n: number) => () => {
        takeTime(60)
        return insert(n)
      }
      const writes = await Promise.allSettled([1, 2].map((n) => group.write(slow(n))))
      expect(writes.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
      expect([hasFailed(), stored()]).toEqual([1, []])
      await group.write(() => insert(3))
      expect(stored()).toEqual([3])
    })

    it('commits a write alone that is heavier than the limit', async () => {
      await Promise.all([group.write(() => insert(1), 5_000), group.write(() => insert(2))])
      expect([stored(), commits()]).toEqual([[1, 2], 2])
    })
  })

  describe('awaited by written()', () => {
    it('is committed with all writes before it, and none is made when no write waits', async () => {
      await group.written()
      expect(executed).toEqual([])
      const done: number[] = []
      for (const n of [1, 2, 3]) void group.write(() => insert(n), 600).then(() => done.push(n))
      await group.written()
      expect([done, commits()]).toEqual([[1, 2, 3], 3])
    })

    it('rejects written() when an earlier write cannot be committed', async () => {
      const write = expect(group.write(() => insert(1))).rejects.toMatchObject(UNAVAILABLE)
      failCommits(1)
      await expect(group.written()).rejects.toMatchObject(UNAVAILABLE)
      await write
    })
  })

  describe('with writes that ask for an early commit', () => {
    const ENOUGH = 3
    const write = (n: number) => group.write(() => insert(n), 1, ENOUGH)

    it('is made before the end of the turn once it is large enough', async () => {
      const isOver = vi.fn()
      setImmediate(isOver)
      await Promise.all([write(1), write(2), write(3)])
      await Promise.all([write(4), write(5), write(6)])
      expect(isOver).not.toHaveBeenCalled()
      expect(commits()).toBe(2)
      expect(stored()).toEqual([1, 2, 3, 4, 5, 6])
    })

    it('is made at the end of the turn when it stays smaller than that', async () => {
      const isOver = vi.fn()
      setImmediate(isOver)
      await Promise.all([write(1), write(2)])
      expect(isOver).toHaveBeenCalledOnce()
    })

    it('includes what was written before in the turn, and what the same code writes after it', async () => {
      const others = [group.write(() => insert(9)), write(1), write(2), write(3), write(4)]
      await Promise.all(others)
      expect(commits()).toBe(1)
      expect(stored()).toEqual([1, 2, 3, 4, 9])
    })

    it('is followed by later group commits', async () => {
      await Promise.all([write(1), write(2), write(3)])
      await write(4)
      expect(commits()).toBe(2)
      expect(stored()).toEqual([1, 2, 3, 4])
    })

    it('leaves writes beyond the weight limit to the next turn', async () => {
      const heavy = (n: number) => group.write(() => insert(n), 600, ENOUGH)
      await Promise.all([heavy(1), heavy(2), heavy(3)])
      expect(commits()).toBe(3)
    })

    it('is made once when the ledger is closed in the same turn', async () => {
      const written = Promise.all([write(1), write(2), write(3)])
      group.close()
      await written
      expect(commits()).toBe(1)
      expect(stored()).toEqual([1, 2, 3])
    })
  })

  describe('on a slow disk', () => {
    const write = (n: number) => group.write(() => insert(n), 1, 3)
    const isInTurn = async (writes: Promise<unknown>[]) => {
      const isOver = vi.fn()
      setImmediate(isOver)
      await Promise.all(writes)
      return isOver.mock.calls.length === 0
    }

    it('waits for more writes than on a fast disk before it is made early', async () => {
      commitTakes = 40
      await write(1)
      expect(await isInTurn([write(2), write(3), write(4), write(5)])).toBe(false)
      expect(commits()).toBe(2)
    })

    it('is made early once as many writes wait as the slowness of the disk asks for', async () => {
      commitTakes = 48
      await write(1)
      expect(await isInTurn([2, 3, 4, 5, 6, 7].map(write))).toBe(true)
    })

    it('does not wait for more writes once the disk is fast again', async () => {
      commitTakes = 40
      await write(1)
      commitTakes = 0
      for (let n = 2; n < 20; n++) await write(n)
      expect(await isInTurn([20, 21, 22].map(write))).toBe(true)
    })

    it.each([
      ['ten times the duration of a commit', 40, 50],
      ['at most a second', 100_000, 1000],
    ])('with lazy writes only is delayed by %s', async (_, takes, dueMs) => {
      vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
      commitTakes = takes
      await write(1)
      group.writeLazily(() => insert(2))
      vi.advanceTimersByTime(dueMs - 1)
      expect(stored()).toEqual([1])
      vi.advanceTimersByTime(1)
      expect(stored()).toEqual([1, 2])
    })
  })

  describe('with a write that fails on a constraint', () => {
    it('rejects that write only', async () => {
      const results = await Promise.allSettled([1, 1, 2].map((n) => group.write(() => insert(n))))
      expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
      expect(results[1]).toMatchObject({ reason: REFUSED })
      expect(stored()).toEqual([1, 2])
      expect(diary.entries).toEqual(['keep', 'undo', 'keep', 'store', 'commit'])
      expect(group.fault()).toBeNull()
    })

    it('undoes the earlier statements of a protected write', async () => {
      const results = await Promise.allSettled([
        group.write(() => insert(1)),
        group.write((protect) => {
          protect()
          insert(2)
          insert(1)
        }),
        group.write((protect) => {
          protect()
          return [insert(3), insert(4)]
        }),
      ])
      expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
      expect(stored()).toEqual([1, 3, 4])
    })

    it('undoes all statements of a write that was protected twice', async () => {
      const twice = group.write((protect) => {
        protect()
        insert(2)
        protect()
        insert(2)
      })
      await expect(twice).rejects.toMatchObject(REFUSED)
      expect(stored()).toEqual([])
    })
  })

  describe('with a write that has a bug', () => {
    it.each([true, false])('rejects that write only (protected: %s)', async (isProtected) => {
      const results = await Promise.allSettled([
        group.write(() => insert(1)),
        group.write((protect) => {
          if (isProtected) protect()
          insert(2)
          throw new TypeError('a bug after its statement')
        }),
        group.write(() => insert(3)),
      ])
      expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
      expect(results[1]).toMatchObject({ reason: REFUSED })
      expect(stored()).toEqual([1, 3])
      expect(commits()).toBe(1)
      expect(group.fault()).toBeNull()
    })
  })

  describe('on a full disk', () => {
    it('rejects all its writes, stores none, and executes no write after the error', async () => {
      await group.write(() => insert(0))
      limitSpace()
      const after = vi.fn(() => insert(3))
      const results = await Promise.allSettled([
        group.write(() => insert(1)),
        group.write(() => insert(2, BIG)),
        group.write(after),
      ])
      expect(results.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected'])
      for (const result of results) expect(result).toMatchObject({ reason: UNAVAILABLE })
      expect(after).not.toHaveBeenCalled()
      expect(stored()).toEqual([0])
      expect(diary.entries.at(-1)).toBe('discard')
      expect(group.fault()).toContain('full')
    })

    it('succeeds again when there is space', async () => {
      limitSpace()
      await expect(group.write(() => insert(1, BIG))).rejects.toMatchObject(UNAVAILABLE)
      freeSpace()
      await group.write(() => insert(1, BIG))
      expect(stored()).toEqual([1])
      expect(group.fault()).toBeNull()
    })

    it('keeps its lazy writes for a later group commit', async () => {
      limitSpace()
      group.writeLazily(() => insert(1))
      await expect(group.write(() => insert(2, BIG))).rejects.toMatchObject(UNAVAILABLE)
      freeSpace()
      await group.write(() => insert(3))
      expect(stored()).toEqual([1, 3])
    })

    it('finds out by a probe that the disk has space again', async () => {
      vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
      limitSpace()
      await expect(group.write(() => insert(1, BIG))).rejects.toMatchObject(UNAVAILABLE)
      freeSpace()
      expect(group.fault()).not.toBeNull()
      vi.advanceTimersByTime(1000)
      expect(group.fault()).toBeNull()
      expect(db.prepare('SELECT count(*) AS n FROM probes').get()).toEqual({ n: 1 })
      vi.advanceTimersByTime(60_000)
      expect(db.prepare('SELECT count(*) AS n FROM probes').get()).toEqual({ n: 1 })
    })
  })

  it('rejects all its writes when SQLite has rolled it back by itself', async () => {
    const rollingBack = () => db.prepare('INSERT OR ROLLBACK INTO t VALUES (1, NULL)').run()
    const after = vi.fn(() => insert(3))
    const results = await Promise.allSettled([
      group.write(() => insert(1)),
      group.write(rollingBack),
      group.write(after),
    ])
    for (const result of results) expect(result).toMatchObject({ reason: UNAVAILABLE })
    expect(after).not.toHaveBeenCalled()
    expect(stored()).toEqual([])
    await group.write(() => insert(4))
    expect(group.fault()).toBeNull()
  })

  it('rejects all its writes after an error that is neither a constraint nor a bug', async () => {
    const after = vi.fn(() => insert(3))
    const results = await Promise.allSettled([
      group.write(() => insert(1)),
      group.write(() => db.prepare(`SELECT json('{')`).get()),
      group.write(after),
    ])
    for (const result of results) expect(result).toMatchObject({ reason: UNAVAILABLE })
    expect(after).not.toHaveBeenCalled()
    expect(stored()).toEqual([])
  })

  it('rejects all its writes when its commit fails', async () => {
    const results = group.write(() => insert(1))
    failCommits(1)
    await expect(results).rejects.toMatchObject(UNAVAILABLE)
    expect(stored()).toEqual([])
    expect(diary.entries).not.toContain('commit')
    expect(group.fault()).toMatch(/^disk I\/O error: .* read-only/)
  })

  it('rejects all its writes when it cannot begin', async () => {
    const other = await openDatabase(`${directory.path}/group.db`)
    other.exec('BEGIN IMMEDIATE')
    await expect(group.write(() => insert(1))).rejects.toMatchObject(UNAVAILABLE)
    other.exec('ROLLBACK')
    other.close()
    await group.write(() => insert(1))
    expect(stored()).toEqual([1])
  })

  describe('of lazy writes', () => {
    it('is made with the next write, in order', async () => {
      group.writeLazily(() => insert(1))
      group.writeLazily(() => insert(2))
      await group.write(() => insert(3))
      expect(commits()).toBe(1)
      expect(db.prepare('SELECT n FROM t ORDER BY rowid').all()).toMatchObject(
        [1, 2, 3].map((n) => ({ n })),
      )
    })

    it('is made 10 ms later when no other write comes', () => {
      vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
      group.writeLazily(() => insert(1))
      group.writeLazily(() => insert(2))
      vi.advanceTimersByTime(9)
      expect(stored()).toEqual([])
      vi.advanceTimersByTime(1)
      expect(stored()).toEqual([1, 2])
      expect(commits()).toBe(1)
    })

    it('is not made sooner because other lazy writes had waited before the last commit', async () => {
      vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
      group.writeLazily(() => insert(1))
      vi.advanceTimersByTime(6)
      await group.write(() => insert(2))
      group.writeLazily(() => insert(3))
      vi.advanceTimersByTime(9)
      expect(stored()).toEqual([1, 2])
      vi.advanceTimersByTime(1)
      expect(stored()).toEqual([1, 2, 3])
    })

    it('is made 10 ms after each write, and in several commits when there are many', () => {
      vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
      group.writeLazily(() => insert(1))
      vi.advanceTimersByTime(10)
      for (let n = 2; n <= 2_500; n++) group.writeLazily(() => insert(n))
      vi.advanceTimersByTime(30)
      expect([stored().length, commits()]).toEqual([2_500, 4])
    })

    it('loses only a lazy write that fails, and calls back for each', async () => {
      const over: string[] = []
      group.writeLazily(
        () => insert(1),
        () => over.push('first'),
      )
      group.writeLazily(
        () => insert(1),
        () => over.push('failed'),
      )
      group.writeLazily(
        () => insert(2),
        () => over.push('last'),
      )
      await group.write(() => undefined)
      expect(stored()).toEqual([1, 2])
      expect(inOrder(over)).toEqual(['failed', 'first', 'last'])
    })

    it('keeps the order of lazy writes after a commit that failed', async () => {
      for (let n = 1; n <= 1_001; n++) group.writeLazily(() => insert(n))
      failCommits(1)
      await expect(group.write(() => undefined)).rejects.toMatchObject(UNAVAILABLE)
      await group.write(() => undefined)
      await group.write(() => undefined)
      const inserted = db.prepare('SELECT n FROM t ORDER BY rowid').all() as { n: number }[]
      expect(inserted.map(({ n }) => n)).toEqual(Array.from({ length: 1_001 }, (_, i) => i + 1))
    })

    it('is tried once at close, and not again when it fails', () => {
      vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
      for (let n = 1; n <= 3; n++) group.writeLazily(() => insert(n))
      const failed = failCommits(10)
      group.close()
      expect([failed(), stored(), vi.getTimerCount()]).toEqual([1, [], 0])
    })

    it('holds at most maxLazy lazy writes, and refuses more', async () => {
      const deps = { db, committedStates: [], logger: SILENT, probe() {} }
      const small = new GroupCommit({ ...deps, maxLazy: 2 })
      expect([1, 2, 3].map((n) => small.writeLazily(() => insert(n)))).toEqual([true, true, false])
      await small.write(() => undefined)
      expect(small.writeLazily(() => insert(4))).toBe(true)
      small.close()
      expect(stored()).toEqual([1, 2, 4])
    })

    it('is made at close', () => {
      group.writeLazily(() => insert(1))
      group.close()
      expect(stored()).toEqual([1])
      group.writeLazily(() => insert(2))
      group.close()
      expect(stored()).toEqual([1])
    })
  })

  it('is not tried again when it fails at close', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const waiting = group.write(() => insert(1))
    failCommits(1)
    group.close()
    await expect(waiting).rejects.toMatchObject(UNAVAILABLE)
    expect(vi.getTimerCount()).toBe(0)
  })

  it('commits waiting writes at close, and refuses later ones', async () => {
    const waiting = Array.from({ length: 1500 }, (_, n) => group.write(() => insert(n)))
    group.close()
    await Promise.all(waiting)
    expect(stored()).toHaveLength(1500)
    await expect(group.write(() => insert(9999))).rejects.toMatchObject(UNAVAILABLE)
  })
})
