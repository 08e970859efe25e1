/** Writes of one turn of the event loop share a transaction (docs/architecture.md §7). */
import { OjsError, unavailable } from '../../../errors.ts'
import type { Logger } from '../../../logger.ts'
import { TakenBack } from '../../writes/taken-back.ts'
import { adviceOn, type Database, SQLITE, type Statement, sqliteCode } from '../sql/driver.ts'
import type { CommittedState } from './committed-state.ts'

/** Weight (roughly: rows) of a group's lazy writes, and of its others. More would block the event loop. */
const MAX_WEIGHT = 1000
/** A group also stops after this time, whatever its weight: one ACK may begin hundreds of steps. */
export const MAX_TURN_MS = 50
const LAZY_DELAY_MS = 10
const MAX_LAZY_DELAY_MS = 1000
/** Lazy writes wait this many COMMIT durations: commits for them alone take a tenth of the time at most. */
const COMMITS_PER_LAZY = 10
/** A COMMIT on a quick disk takes less than this, even on a busy machine: 0.3 to 0.9 ms for 25 jobs. */
const CHEAP_COMMIT_MS = 3
/** The weight of the newest COMMIT in the moving average. */
const NEWEST = 1 / 8
/**
 * How many lazy writes may wait. Dropping one costs a duplicate job message or an unpruned row, never a job.
 */
const MAX_LAZY = 100_000
/** How long after a failed group the ledger is probed, if no write has come before. */
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

/** A write of a committed group, and its outcome. The promises settle in the order of the writes. */
type Settled = { write: Write } & ({ result: unknown } | { error: unknown })

export interface GroupCommitDeps {
  db: Database
  committedStates: readonly CommittedState[]
  logger: Logger
  /** Runs a harmless write, which shows after a fault whether the ledger can be written again. */
  probe(): void
  /** How many lazy writes may wait. */
  maxLazy?: number
}

/** The outcome of one transaction. */
interface Group {
  settled: Settled[]
  /** Writes that did not run, because the time of the group was up. */
  left: Write[]
}

/**
 * Group commit: the writes of two event-loop turns share one transaction and one sync (docs/architecture.md
 * §7).
 *
 * A failure is kept to as few writes as is safe. A constraint failure fails its own write only. A bug (an
 * error that is not SQLite's) does too, and the rest of the group runs again without that write where
 * needed. Any other error of SQLite (disk full, I/O, memory) fails the whole group: SQLite may have rolled
 * back at the error, and a later statement would then run, and be committed, on its own.
 */
export class GroupCommit {
  readonly #db: Database
  readonly #savepoint: Statement
  readonly #release: Statement
  readonly #committedStates: readonly CommittedState[]
  readonly #logger: Logger
  readonly #probe: () => void
  readonly #maxLazy: number
  #waiting: Write[] = []
  #lazy: Write[] = []
  #turn: NodeJS.Immediate | undefined
  #timer: NodeJS.Timeout | undefined
  #fault: string | null = null
  #obstacle: string | null = null
  /** Moving average of the duration of a COMMIT with its sync. */
  #commitMs = 0
  #isHastened = false
  #isClosed = false
  #isProtected = false

  constructor({ db, committedStates, logger, probe, maxLazy = MAX_LAZY }: GroupCommitDeps) {
    this.#db = db
    this.#savepoint = db.prepare('SAVEPOINT one_write')
    this.#release = db.prepare('RELEASE one_write')
    this.#committedStates = committedStates
    this.#probe = probe
    this.#logger = logger
    this.#maxLazy = maxLazy
  }

  /**
   * Runs the write in the next group; settles after the group's commit. `run` may be called more than once.
   * `weight`: roughly how many rows it touches. `enough`: when this many writes wait, they are committed
   * without waiting for the turn to end. Where a COMMIT takes long, it takes proportionally more of them.
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

  /** Resolves when every write requested before is committed; rejects if the last group of them failed. */
  written(): Promise<void> {
    return this.#waiting.length === 0 ? Promise.resolve() : this.write(() => {}, 0)
  }

  /**
   * Runs the write with the next group, or in a group of lazy writes a little later (`#lazyDelayMs`). It is
   * repeated until a group with it is committed, so no statement of it may fail for a reason of its own.
   * `settled` is called when it is committed, or has failed all the same. Returns false if it is dropped,
   * because too many wait or the ledger is closed; then `settled` is not called.
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

  /**
   * Refuses all writes until called with null. For what is wrong without SQLite noticing: the ledger's file
   * was removed or replaced (`FileWatch`).
   */
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
   * Waits one turn more than necessary: that costs a fraction of a millisecond, doubles the size of a group,
   * and gives a tenth more jobs per second (bench/HISTORY.md).
   */
  #schedule(): void {
    this.#turn ??= setImmediate(() => {
      this.#turn = setImmediate(() => this.#runNow())
    })
  }

  /**
   * Commits as soon as the code that runs now has returned. One turn of the event loop may bring a request
   * of every client; at the end of the turn, the first of them would have waited for all the others.
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

  /** How much slower a COMMIT is than on a quick disk; at least 1. A slow sync needs larger groups. */
  get #slowness(): number {
    return Math.max(1, this.#commitMs / CHEAP_COMMIT_MS)
  }

  get #lazyDelayMs(): number {
    const delayMs = Math.max(LAZY_DELAY_MS, this.#commitMs * COMMITS_PER_LAZY)
    return Math.min(delayMs, MAX_LAZY_DELAY_MS)
  }

  /** The timer does not keep the process alive. */
  #scheduleLater(delayMs: number): void {
    if (this.#isClosed) return
    this.#timer ??= setTimeout(() => this.#runTurn(), delayMs).unref()
  }

  #runTurn(): void {
    // It was set for lazy writes that this group takes. Later ones have their full time: otherwise some would
    // get a commit of their own although the next group is near.
    clearTimeout(this.#timer)
    this.#timer = undefined
    // Lazy writes first, because they were requested before the others.
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

  /**
   * Commits the group and settles its writes. A write that spoils the transaction is refused, and the others
   * run again without it. Throws when the group cannot be committed.
   */
  #runWithoutPoison(group: Write[]): void {
    for (let writes = group; ; ) {
      try {
        const { settled, left } = this.#runGroup(writes)
        this.#putBack(left)
        for (const done of settled) {
          if ('error' in done) refuse(done.write, done.error)
          else done.write.succeed(done.result)
        }
        return
      } catch (error) {
        this.#rollBack()
        if (!(error instanceof PoisonedGroup)) throw error
        const { write, cause } = error
        refuse(write, cause)
        writes = writes.filter((other) => other !== write)
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
        for (const committedState of this.#committedStates) committedState.keep()
      } catch (error) {
        this.#survive(write, error)
        settled.push({ write, error })
      }
    }
    if (this.#fault !== null) this.#probe()
    for (const committedState of this.#committedStates) committedState.store()
    this.#commit()
    for (const committedState of this.#committedStates) this.#tellCommitted(committedState)
    return { settled, left }
  }

  /** Puts the writes that did not run back to the head of their queues. */
  #putBack(left: readonly Write[]): void {
    this.#lazy.unshift(...left.filter(({ isLazy }) => isLazy))
    this.#waiting.unshift(...left.filter(({ isLazy }) => !isLazy))
  }

  /**
   * Catches what the committed state throws: the group is committed, so none of its writes may be rejected
   * now.
   */
  #tellCommitted(committedState: CommittedState): void {
    try {
      committedState.commit()
    } catch (error) {
      this.#logger.error({ err: error }, 'bug: error after a commit of the ledger')
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

  /** Undoes a failed write. Returns if the group can go on without it; throws if the group must end. */
  #survive(write: Write, error: unknown): void {
    const code = sqliteCode(error)
    const isItsOwn = code === null || code === SQLITE.CONSTRAINT
    if (!isItsOwn || this.#db.isTransaction() === false) throw error
    for (const committedState of this.#committedStates) committedState.undo()
    if (this.#isProtected) this.#db.exec('ROLLBACK TO one_write; RELEASE one_write')
    // A bug, and no savepoint: the write may have changed rows before it threw, so roll back everything.
    else if (code === null) throw new PoisonedGroup(write, error)
  }

  #rollBack(): void {
    for (const committedState of this.#committedStates) committedState.discard()
    try {
      if (this.#db.isTransaction() !== false) this.#db.exec('ROLLBACK')
    } catch {
      // There is nothing to roll back: SQLite did so at the error, or BEGIN failed.
    }
  }

  #failGroup(error: unknown, lazy: Write[], waiting: Write[]): void {
    const reason = adviceOn(error)
    if (this.#fault === null) this.#logger.error({ err: error }, 'ledger: a group commit failed')
    this.#fault = reason
    this.#lazy.unshift(...lazy)
    const refused = unavailable('The ledger cannot be written.', 'ledger', error)
    for (const write of waiting) write.fail(refused)
  }
}

/** Thrown to end a group when one of its writes must be taken out and the others run again. */
class PoisonedGroup extends Error {
  readonly write: Write

  constructor(write: Write, cause: unknown) {
    super('one write of the group failed', { cause })
    this.write = write
  }
}

/** Takes writes from the head of the queue, up to the weight of one group; at least one. */
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
  else write.fail(new OjsError('backend_error', 'The write to the ledger failed.', { cause }))
}
