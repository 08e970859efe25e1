import { OjsError, unavailable } from '../../errors.ts'
import type { Logger } from '../../logger.ts'
import type { Companion } from './companion.ts'
import { type Database, SQLITE, type Statement, sqliteCode } from './driver.ts'
import type { Wal } from './wal.ts'

/** More than this in one turn would keep the event loop from everything else for too long. */
const MAX_WEIGHT = 1000
const LAZY_DELAY_MS = 10
/** A lazy write lost beyond this costs a duplicate token at worst, never a job. */
const MAX_LAZY = 100_000
/** After a failed group, how long until a write is tried that nobody waits for. */
const PROBE_DELAY_MS = 1000

/**
 * Called by a write before its first change when more than one of its statements may change rows:
 * opens a savepoint. A single statement needs none, because SQLite takes back what a failing
 * statement did.
 */
export type Protect = () => void

interface Write {
  run(protect: Protect): unknown
  weight: number
  succeed(result: unknown): void
  fail(error: Error): void
}

interface Settled {
  write: Write
  result: unknown
}

export interface GroupCommitOptions {
  db: Database
  /** Null: nobody waits until his write is on disk. */
  wal: Pick<Wal, 'sync' | 'syncNow'> | null
  companions: readonly Companion[]
  /** A harmless write that tells whether the ledger can be written again. */
  probe: () => void
  /** Called when the writers of a group have been answered, before they can go on. */
  onAnswered: () => void
  logger: Logger
}

/**
 * Writes of two event-loop turns share one transaction and one sync (architecture §7). While one
 * group goes to disk the event loop goes on, and the next group gathers.
 *
 * What fails concerns as little as is safe: a constraint its own write, a bug its own write too
 * (the rest runs again without it), anything else (disk full, I/O, memory) the whole group,
 * because SQLite may have rolled back at the error already and a later statement would then be
 * committed on its own.
 *
 * A group that cannot be put on disk is the end: the kernel may tell such an error once and forget
 * what it could not write, so that a later sync proves nothing. A restart reads what is there.
 */
export class GroupCommit {
  readonly #db: Database
  readonly #wal: GroupCommitOptions['wal']
  readonly #savepoint: Statement
  readonly #release: Statement
  readonly #companions: readonly Companion[]
  readonly #logger: Logger
  readonly #probe: () => void
  readonly #onAnswered: () => void
  #waiting: Write[] = []
  #lazy: Write[] = []
  #turn: NodeJS.Immediate | undefined
  #timer: NodeJS.Timeout | undefined
  /** Committed, and on its way to the disk. */
  #syncing: readonly Settled[] | null = null
  #fault: string | null = null
  /** What every further write gets: closed, or beyond repair. */
  #refusal: OjsError | null = null
  #isProtected = false

  constructor({ db, wal, companions, probe, onAnswered, logger }: GroupCommitOptions) {
    this.#db = db
    this.#wal = wal
    this.#savepoint = db.prepare('SAVEPOINT one_write')
    this.#release = db.prepare('RELEASE one_write')
    this.#companions = companions
    this.#probe = probe
    this.#onAnswered = onAnswered
    this.#logger = logger
  }

  /**
   * Runs with the others of this turn; settles when they are on disk. It may run more than once.
   * `weight`: how many rows it touches, roughly.
   */
  write<T>(run: (protect: Protect) => T, weight = 1): Promise<T> {
    if (this.#refusal !== null) return Promise.reject(this.#refusal)
    return new Promise<T>((resolve, reject) => {
      this.#waiting.push({
        run,
        weight,
        succeed: (result) => resolve(result as T),
        fail: reject,
      })
      this.#schedule()
    })
  }

  /**
   * Rides on the next group, or goes alone a few milliseconds later. No statement of it may fail
   * for a reason of its own. False: too many wait, it is not done.
   */
  writeLazily(run: () => void): boolean {
    if (this.#refusal !== null) return false
    if (this.#lazy.length >= MAX_LAZY) {
      this.#logger.warn({ waiting: MAX_LAZY }, 'ledger: a lazy write is dropped')
      return false
    }
    this.#lazy.push({
      run,
      weight: 1,
      succeed: () => {},
      fail: (error) => this.#logger.error({ err: error }, 'ledger: a lazy write failed'),
    })
    this.#scheduleLater(LAZY_DELAY_MS)
    return true
  }

  /** Why the last group failed; null when it did not. */
  fault(): string | null {
    return this.#fault
  }

  /** Commits what is waiting and puts it on disk; further writes are refused. Idempotent. */
  close(): void {
    this.#refusal ??= unavailable('The ledger is closed.', 'ledger')
    clearImmediate(this.#turn)
    clearTimeout(this.#timer)
    if (this.#syncing !== null) this.#syncNow()
    let hasFailed = false
    while (this.#waiting.length > 0 || (this.#lazy.length > 0 && !hasFailed)) {
      this.#runTurn()
      hasFailed = this.#fault !== null
    }
  }

  /**
   * One more turn than necessary: a group twice as large for a fraction of a millisecond, and a
   * tenth more jobs per second (bench/README.md).
   */
  #schedule(): void {
    if (this.#syncing !== null) return
    this.#turn ??= setImmediate(() => {
      this.#turn = setImmediate(() => {
        this.#turn = undefined
        this.#runTurn()
      })
    })
  }

  /** Never keeps the process alive. */
  #scheduleLater(delayMs: number): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      this.#runTurn()
    }, delayMs).unref()
  }

  #scheduleNext(): void {
    if (this.#refusal !== null) return
    if (this.#waiting.length > 0) this.#schedule()
    else if (this.#fault !== null) this.#scheduleLater(PROBE_DELAY_MS)
    else if (this.#lazy.length > 0) this.#scheduleLater(LAZY_DELAY_MS)
  }

  #runTurn(): void {
    if (this.#syncing !== null) return
    // Lazy writes first: they were there first.
    const lazy = take(this.#lazy)
    const waiting = take(this.#waiting)
    if (lazy.length + waiting.length === 0 && this.#fault === null) return
    let settled: Settled[]
    try {
      settled = this.#runWithoutPoison([...lazy, ...waiting])
    } catch (error) {
      this.#failGroup(error, lazy, waiting)
      this.#scheduleNext()
      return
    }
    if (this.#fault !== null) this.#logger.info({}, 'ledger: writable again')
    this.#fault = null
    this.#sync(settled)
  }

  #sync(group: readonly Settled[]): void {
    this.#syncing = group
    if (this.#wal === null) this.#synced(null)
    else if (this.#refusal !== null) this.#syncNow()
    else this.#wal.sync((error) => this.#synced(error))
  }

  /** At the end: the file is about to be closed. */
  #syncNow(): void {
    try {
      this.#wal?.syncNow()
      this.#synced(null)
    } catch (error) {
      this.#synced(error)
    }
  }

  #synced(error: unknown): void {
    const group = this.#syncing
    // Null: `close` did not wait for it.
    if (group === null) return
    this.#syncing = null
    if (error === null) this.#answer(group)
    else this.#giveUp(error, group)
    this.#scheduleNext()
  }

  #answer(group: readonly Settled[]): void {
    for (const { write, result } of group) write.succeed(result)
    this.#onAnswered()
  }

  /** What a group that could be committed has given; throws when it could not. */
  #runWithoutPoison(group: Write[]): Settled[] {
    for (let rest = group; ; ) {
      try {
        return this.#runGroup(rest)
      } catch (error) {
        this.#rollBack()
        if (!(error instanceof PoisonedGroup)) throw error
        const { write, cause } = error
        write.fail(refusal(cause))
        rest = rest.filter((other) => other !== write)
      }
    }
  }

  #runGroup(group: readonly Write[]): Settled[] {
    const settled: Settled[] = []
    const refused: [Write, unknown][] = []
    this.#db.exec('BEGIN IMMEDIATE')
    for (const write of group) {
      try {
        settled.push({ write, result: this.#runWrite(write) })
        for (const companion of this.#companions) companion.keep()
      } catch (error) {
        this.#survive(write, error)
        refused.push([write, error])
      }
    }
    if (this.#fault !== null) this.#probe()
    for (const companion of this.#companions) companion.store()
    this.#db.exec('COMMIT')
    for (const companion of this.#companions) companion.commit()
    for (const [write, error] of refused) write.fail(refusal(error))
    return settled
  }

  #runWrite(write: Write): unknown {
    this.#isProtected = false
    const result = write.run(this.#protect)
    if (this.#isProtected) this.#release.run()
    return result
  }

  readonly #protect: Protect = () => {
    if (this.#isProtected) return
    this.#savepoint.run()
    this.#isProtected = true
  }

  /** Returns when the group can go on without this write; throws what ends it. */
  #survive(write: Write, error: unknown): void {
    const code = sqliteCode(error)
    const isItsOwn = code === null || code === SQLITE.CONSTRAINT
    if (!isItsOwn || this.#db.isTransaction() === false) throw error
    for (const companion of this.#companions) companion.undo()
    if (this.#isProtected) this.#db.exec('ROLLBACK TO one_write; RELEASE one_write')
    // It may have failed after its statement had succeeded, and there is no savepoint.
    else if (code === null) throw new PoisonedGroup(write, error)
  }

  #rollBack(): void {
    for (const companion of this.#companions) companion.discard()
    try {
      if (this.#db.isTransaction() !== false) this.#db.exec('ROLLBACK')
    } catch {
      // Nothing to roll back: SQLite has done it at the error (or never began).
    }
  }

  #failGroup(error: unknown, lazy: Write[], waiting: Write[]): void {
    if (this.#fault === null) this.#logger.error({ err: error }, 'ledger: a group commit failed')
    this.#fault = reasonOf(error)
    this.#lazy.unshift(...lazy)
    const refused = unavailable('The ledger cannot be written.', 'ledger', error)
    for (const write of waiting) write.fail(refused)
  }

  #giveUp(error: unknown, group: readonly Settled[]): void {
    this.#logger.error({ err: error }, 'ledger: the disk failed; the gateway must be restarted')
    this.#fault = reasonOf(error)
    this.#refusal = unavailable('The ledger cannot be written until a restart.', 'ledger', error)
    for (const { write } of group) write.fail(this.#refusal)
    for (const write of this.#waiting) write.fail(this.#refusal)
    this.#waiting = []
    this.#lazy = []
  }
}

/** Thrown through the group when one write must be taken out and the rest run again. */
class PoisonedGroup extends Error {
  readonly write: Write

  constructor(write: Write, cause: unknown) {
    super('one write of the group failed', { cause })
    this.write = write
  }
}

/** From the head of the queue, up to the weight of one group; at least one. */
function take(queue: Write[]): Write[] {
  let weight = 0
  let count = 0
  for (const write of queue) {
    weight += write.weight
    if (count > 0 && weight > MAX_WEIGHT) break
    count++
  }
  return queue.splice(0, count)
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

function refusal(cause: unknown): Error {
  if (cause instanceof OjsError) return cause
  return new OjsError('backend_error', 'The ledger refused the write.', { cause })
}
