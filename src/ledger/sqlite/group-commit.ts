import { messageOf, OjsError, unavailable } from '../../errors.ts'
import type { Logger } from '../../logger.ts'
import type { Companion } from './companion.ts'
import { type Database, SQLITE, type Statement, sqliteCode } from './driver.ts'

/** More than this in one turn would keep the event loop from everything else for too long. */
const MAX_WEIGHT = 1000
/** So does a group or a write that takes this long, whatever it weighs: an ACK may begin hundreds of steps. */
export const MAX_TURN_MS = 50
const LAZY_DELAY_MS = 10
const MAX_LAZY_DELAY_MS = 1000
/** Writes that nobody waits for have a COMMIT of their own for no more than a tenth of the time. */
const COMMITS_PER_LAZY = 10
/** On a quick disk a COMMIT takes less, also on a busy machine: 0.3 to 0.9 ms for 25 jobs. */
const CHEAP_COMMIT_MS = 3
/** How much of the average the newest COMMIT is. */
const NEWEST = 1 / 8
/** A lazy write lost beyond this costs a duplicate token or a row that stays, never a job. */
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
  isLazy: boolean
  succeed(result: unknown): void
  fail(error: Error): void
}

/** Of a group that is committed, in its order: whoever comes later goes on later. */
type Settled = { write: Write } & ({ result: unknown } | { error: unknown })

/**
 * Thrown by a write that takes back all that it has done, and answers with this. What is protected is
 * rolled back; nothing else may have changed.
 */
export class TakenBack extends Error {
  readonly outcome: unknown

  constructor(outcome: unknown) {
    super('a write has taken back what it had done')
    this.outcome = outcome
  }
}

export interface GroupCommitDeps {
  db: Database
  companions: readonly Companion[]
  logger: Logger
  /** A harmless write that tells whether the ledger can be written again. */
  probe(): void
  /** How many lazy writes may wait. */
  maxLazy?: number
}

/** What one transaction has come to. */
interface Group {
  settled: Settled[]
  /** It took too long for these. */
  left: Write[]
}

/**
 * Writes of two event-loop turns share one transaction and one sync (architecture §7).
 *
 * What fails concerns as little as is safe: a constraint its own write, a bug its own write too
 * (the rest runs again without it), anything else (disk full, I/O, memory) the whole group,
 * because SQLite may have rolled back at the error already and a later statement would then be
 * committed on its own.
 */
export class GroupCommit {
  readonly #db: Database
  readonly #savepoint: Statement
  readonly #release: Statement
  readonly #companions: readonly Companion[]
  readonly #logger: Logger
  readonly #probe: () => void
  readonly #maxLazy: number
  #waiting: Write[] = []
  #lazy: Write[] = []
  #turn: NodeJS.Immediate | undefined
  #timer: NodeJS.Timeout | undefined
  #fault: string | null = null
  #obstacle: string | null = null
  /** What a COMMIT has taken of late, with its sync. */
  #commitMs = 0
  #isHastened = false
  #isClosed = false
  #isProtected = false

  constructor({ db, companions, logger, probe, maxLazy = MAX_LAZY }: GroupCommitDeps) {
    this.#db = db
    this.#savepoint = db.prepare('SAVEPOINT one_write')
    this.#release = db.prepare('RELEASE one_write')
    this.#companions = companions
    this.#probe = probe
    this.#logger = logger
    this.#maxLazy = maxLazy
  }

  /**
   * Runs with the others of this turn; settles after their commit. It may run more than once.
   * `weight`: how many rows it touches, roughly. `enough`: as soon as so many writes wait, they are
   * committed without waiting for the turn to end; more of them where a COMMIT takes long.
   */
  write<T>(
    run: (protect: Protect) => T,
    weight = 1,
    enough = Number.POSITIVE_INFINITY,
  ): Promise<T> {
    if (this.#isClosed) return Promise.reject(unavailable('The ledger is closed.', 'ledger'))
    return new Promise<T>((resolve, reject) => {
      this.#waiting.push({
        run,
        weight,
        isLazy: false,
        succeed: (result) => resolve(result as T),
        fail: reject,
      })
      if (this.#waiting.length < enough * this.#slowness) this.#schedule()
      else this.#hasten()
    })
  }

  /** Resolves when what was asked for before is committed; rejects where its last group is not. */
  written(): Promise<void> {
    return this.#waiting.length === 0 ? Promise.resolve() : this.write(() => {}, 0)
  }

  /**
   * Rides on the next group, or goes alone a few milliseconds later; again, until a group with it is
   * committed. No statement of it may fail for a reason of its own. `settled`: it is committed, or
   * has failed all the same. False: too many wait, it is not done.
   */
  writeLazily(run: () => void, settled: () => void = () => {}): boolean {
    if (this.#isClosed) return false
    if (this.#lazy.length >= this.#maxLazy) {
      this.#logger.warn({ waiting: this.#maxLazy }, 'ledger: a lazy write is dropped')
      return false
    }
    this.#lazy.push({
      run,
      weight: 1,
      isLazy: true,
      succeed: settled,
      fail: (error) => {
        this.#logger.error({ err: error }, 'ledger: a lazy write failed')
        settled()
      },
    })
    this.#scheduleLater(this.#lazyDelayMs)
    return true
  }

  /** Nothing is written until it is null: something is wrong that SQLite does not notice. */
  obstruct(obstacle: string | null): void {
    const isNew = this.#obstacle === null && obstacle !== null
    this.#obstacle = obstacle
    if (isNew) this.#runTurn()
  }

  /** Why the last group failed; null when it did not. */
  fault(): string | null {
    return this.#fault
  }

  /** Commits what is waiting; further writes are refused. Idempotent. */
  close(): void {
    this.#isClosed = true
    clearImmediate(this.#turn)
    clearTimeout(this.#timer)
    let hasFailed = false
    while (this.#waiting.length > 0 || (this.#lazy.length > 0 && !hasFailed)) {
      this.#runTurn()
      hasFailed = this.#fault !== null
    }
  }

  /**
   * One more turn than necessary: a group twice as large for a fraction of a millisecond, and a
   * tenth more jobs per second (bench/HISTORY.md).
   */
  #schedule(): void {
    this.#turn ??= setImmediate(() => {
      this.#turn = setImmediate(() => this.#runNow())
    })
  }

  /**
   * As soon as the code that is running has said all it has to say. A turn of the event loop may
   * bring a request of every client there is: the end of it is late for the first of them.
   */
  #hasten(): void {
    if (this.#isHastened) return
    this.#isHastened = true
    queueMicrotask(() => {
      this.#isHastened = false
      if (this.#waiting.length > 0) this.#runNow()
    })
  }

  #runNow(): void {
    clearImmediate(this.#turn)
    this.#turn = undefined
    this.#runTurn()
    if (this.#waiting.length > 0) this.#schedule()
  }

  /** 1: the sync of a quick disk, for which a group need not be large. */
  get #slowness(): number {
    return Math.max(1, this.#commitMs / CHEAP_COMMIT_MS)
  }

  get #lazyDelayMs(): number {
    const delayMs = Math.max(LAZY_DELAY_MS, this.#commitMs * COMMITS_PER_LAZY)
    return Math.min(delayMs, MAX_LAZY_DELAY_MS)
  }

  /** Never keeps the process alive. */
  #scheduleLater(delayMs: number): void {
    if (this.#isClosed) return
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      this.#runTurn()
    }, delayMs).unref()
  }

  #runTurn(): void {
    // Lazy writes first: they were there first.
    const lazy = take(this.#lazy)
    const waiting = take(this.#waiting)
    const isHealthy = this.#fault === null && this.#obstacle === null
    if (lazy.length + waiting.length === 0 && isHealthy) return
    try {
      if (this.#obstacle !== null) throw new Error(this.#obstacle)
      this.#runWithoutPoison([...lazy, ...waiting])
      if (this.#fault !== null) this.#logger.info({}, 'ledger: writable again')
      this.#fault = null
    } catch (error) {
      this.#failGroup(error, lazy, waiting)
    }
    if (this.#fault !== null) this.#scheduleLater(PROBE_DELAY_MS)
    else if (this.#lazy.length > 0) this.#scheduleLater(this.#lazyDelayMs)
  }

  /** Settles every write of a group that could be committed; throws when it could not. */
  #runWithoutPoison(group: Write[]): void {
    for (let rest = group; ; ) {
      try {
        const { settled, left } = this.#runGroup(rest)
        this.#putBack(left)
        for (const one of settled) {
          if ('error' in one) refuse(one.write, one.error)
          else one.write.succeed(one.result)
        }
        return
      } catch (error) {
        this.#rollBack()
        if (!(error instanceof PoisonedGroup)) throw error
        const { write, cause } = error
        refuse(write, cause)
        rest = rest.filter((other) => other !== write)
      }
    }
  }

  #runGroup(group: readonly Write[]): Group {
    const settled: Settled[] = []
    const until = performance.now() + MAX_TURN_MS
    let left: Write[] = []
    this.#db.exec('BEGIN IMMEDIATE')
    for (const [i, write] of group.entries()) {
      if (i > 0 && performance.now() > until) {
        left = group.slice(i)
        break
      }
      try {
        settled.push({ write, result: this.#runWrite(write) })
        for (const companion of this.#companions) companion.keep()
      } catch (error) {
        this.#survive(write, error)
        settled.push({ write, error })
      }
    }
    if (this.#fault !== null) this.#probe()
    for (const companion of this.#companions) companion.store()
    this.#commit()
    for (const companion of this.#companions) this.#tellCommitted(companion)
    return { settled, left }
  }

  /** They come first the next time. */
  #putBack(left: readonly Write[]): void {
    this.#lazy.unshift(...left.filter(({ isLazy }) => isLazy))
    this.#waiting.unshift(...left.filter(({ isLazy }) => !isLazy))
  }

  /** Whatever it does with the news: the group is stored, and nobody may be told that it is not. */
  #tellCommitted(companion: Companion): void {
    try {
      companion.commit()
    } catch (error) {
      this.#logger.error({ err: error }, 'bug: what follows a commit has failed')
    }
  }

  #commit(): void {
    const before = performance.now()
    this.#db.exec('COMMIT')
    this.#commitMs += (performance.now() - before - this.#commitMs) * NEWEST
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
    const reason = messageOf(error)
    if (this.#fault === null) this.#logger.error({ err: error }, 'ledger: a group commit failed')
    this.#fault = reason
    this.#lazy.unshift(...lazy)
    const refused = unavailable('The ledger cannot be written.', 'ledger', error)
    for (const write of waiting) write.fail(refused)
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

function refuse(write: Write, cause: unknown): void {
  if (cause instanceof TakenBack) write.succeed(cause.outcome)
  else if (cause instanceof OjsError) write.fail(cause)
  else write.fail(new OjsError('backend_error', 'The ledger refused the write.', { cause }))
}
