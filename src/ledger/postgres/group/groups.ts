/** Gathers writes into groups, commits one group after the other, and settles the writes of each. */
import { setTimeout as sleep } from 'node:timers/promises'
import { messageOf, OjsError, unavailable } from '../../../errors.ts'
import type { Logger } from '../../../logger.ts'
import { TakenBack } from '../../writes/taken-back.ts'
import { DataError, Fenced, type Group, type Slot, Undecided } from '../slot.ts'
import { Draft, type EndStep, type Loaded, Missing, type Wants } from './draft.ts'
import type { Memory } from './memory.ts'
import { committed, NOTHING, together, toLoad, toStore, withLoaded } from './store.ts'

/** Weight (roughly: rows) of a group's lazy writes, and of its others. */
const MAX_WEIGHT = 1_000
const LAZY_DELAY_MS = 10
/** Far more than any write needs: one that lacks something else each time that it runs would never end. */
const MAX_LOADS = 1_000
/** How many lazy writes may wait. Dropping one costs a duplicate job message or an unpruned row, never a job. */
const MAX_LAZY = 100_000
/** How long after a failed group the ledger is probed, if no write has come before. */
const PROBE_DELAY_MS = 1_000
/** Between two looks whether a group was committed, while no host answers. */
const SETTLE_DELAY_MS = 200

/** One write. `run` is pure: it may run any number of times, and only its last run counts. */
export interface Write<T> {
  wants: Wants
  run(draft: Draft): T
  /** Roughly how many rows it touches. */
  weight?: number
  /** A group of its own, because it looks for rows (`Draft.ask`) instead of naming them. */
  isAlone?: boolean
}

interface Waiting extends Required<Write<unknown>> {
  isLazy: boolean
  succeed(result: unknown): void
  fail(error: Error): void
}

type Settled = { result: unknown } | { error: unknown }

export interface GroupsDeps {
  endStep: EndStep
  slot: Slot
  slotId: number
  schema: string
  memory: Memory
  logger: Logger
  /** Another gateway has the slot: this one can write no more. */
  onFenced?: (() => void) | undefined
}

/**
 * Writes that come while a group is on its way form the next one. A write that throws is taken back, and fails
 * alone; one whose values cannot be stored is found by halving its group. When a group cannot be committed,
 * all of its writes fail with 503; when that is unknown, they wait until it is known (`Slot.settle`), and others fail.
 */
export class Groups {
  readonly #deps: GroupsDeps
  #waiting: Waiting[] = []
  #lazy: Waiting[] = []
  #running: Promise<void> | null = null
  #turn: NodeJS.Immediate | undefined
  #timer: NodeJS.Timeout | undefined
  #fault: string | null = null
  /** Set while it is unknown whether the last group was committed, because no host answers. */
  #undecided: Undecided | null = null
  #isClosed = false

  constructor(deps: GroupsDeps) {
    this.#deps = deps
  }

  /** Settles after the commit. */
  write<T>(write: Write<T>): Promise<T> {
    if (this.#isClosed) return Promise.reject(closed())
    if (this.#undecided) return Promise.reject(refusal(this.#undecided))
    return new Promise<T>((resolve, reject) => {
      this.#add(write, (result) => resolve(result as T), reject)
      this.#schedule()
    })
  }

  #add(write: Write<unknown>, succeed: Waiting['succeed'], fail: Waiting['fail']): void {
    this.#waiting.push({ weight: 1, isAlone: false, ...write, isLazy: false, succeed, fail })
  }

  /** Resolves when every write requested before is committed; rejects if the last group of them failed. */
  written(): Promise<void> {
    if (this.#waiting.length === 0 && this.#running === null) return Promise.resolve()
    return this.write({ wants: {}, run: () => {}, weight: 0 })
  }

  /**
   * Runs the write with the next group, or in one of lazy writes a little later; it is repeated until it is
   * committed. `settled` is called then, or when it has failed all the same. False: it is dropped, because too
   * many wait or the ledger is closed; then `settled` is not called.
   */
  lazily(write: Write<void>, settled: () => void = () => {}): boolean {
    if (this.#isClosed) return false
    if (this.#lazy.length >= MAX_LAZY) {
      this.#deps.logger.warn({ waiting: MAX_LAZY }, 'ledger: a lazy write is dropped')
      return false
    }
    const fail = (error: Error) => {
      this.#deps.logger.error({ err: error }, 'ledger: a lazy write failed')
      settled()
    }
    this.#lazy.push({ weight: 1, isAlone: false, ...write, isLazy: true, succeed: settled, fail })
    this.#scheduleLater(LAZY_DELAY_MS)
    return true
  }

  /** Why the last group failed; null when it did not. */
  fault(): string | null {
    return this.#fault
  }

  /**
   * Commits what waits, and then `last`, as long as it gives writes; others are refused. False: it was closed
   * already.
   */
  async close(last: () => Write<void> | null = () => null): Promise<boolean> {
    if (this.#isClosed) return false
    this.#isClosed = true
    clearTimeout(this.#timer)
    clearImmediate(this.#turn)
    await this.#running
    while (this.#waiting.length > 0 || (this.#lazy.length > 0 && this.#fault === null))
      await this.#runGroup()
    for (let write = last(); write !== null && this.#fault === null; write = last()) {
      this.#add(
        write,
        () => {},
        () => {},
      )
      await this.#runGroup()
    }
    await this.#deps.slot.close()
    return true
  }

  /** Waits one turn more than necessary, which doubles the size of a group. */
  #schedule(): void {
    if (this.#running !== null) return
    this.#turn ??= setImmediate(() => {
      this.#turn = setImmediate(() => {
        this.#turn = undefined
        this.#start()
      })
    })
  }

  /** The timer does not keep the process alive. */
  #scheduleLater(delayMs: number): void {
    if (this.#isClosed) return
    this.#timer ??= setTimeout(() => this.#start(), delayMs).unref()
  }

  #start(): void {
    if (this.#running !== null || this.#isClosed) return
    this.#running = this.#runGroup().finally(() => {
      this.#running = null
      if (this.#isClosed) return
      if (this.#waiting.length > 0) this.#schedule()
      else if (this.#fault !== null) this.#scheduleLater(PROBE_DELAY_MS)
      else if (this.#lazy.length > 0) this.#scheduleLater(LAZY_DELAY_MS)
    })
  }

  /** Never rejects. */
  async #runGroup(): Promise<void> {
    clearTimeout(this.#timer)
    this.#timer = undefined
    // Lazy writes first, because they were requested before the others.
    const lazy = this.#lazy.splice(0, MAX_WEIGHT)
    const waiting = take(this.#waiting)
    if (lazy.length + waiting.length === 0 && this.#fault === null) return
    let uncommitted = lazy
    try {
      for (const part of inParts([...lazy, ...waiting])) {
        await this.#commit(part)
        const committed = new Set(part)
        uncommitted = uncommitted.filter((write) => !committed.has(write))
      }
      if (this.#fault !== null) this.#deps.logger.info({}, 'ledger: writable again')
      this.#fault = null
    } catch (error) {
      this.#failGroup(error, uncommitted, waiting)
    }
  }

  /** Commits and settles; writes whose values cannot be stored fail alone. */
  async #commit(writes: readonly Waiting[]): Promise<void> {
    try {
      const done = await this.#commitOnce(writes)
      for (const [i, write] of writes.entries()) settle(write, done[i])
    } catch (error) {
      if (!(error instanceof DataError)) throw error
      const [only] = writes
      if (writes.length <= 1) {
        only?.fail(
          new OjsError('backend_error', 'The write to the ledger failed.', { cause: error }),
        )
        return
      }
      const half = writes.length >> 1
      await this.#commit(writes.slice(0, half))
      await this.#commit(writes.slice(half))
    }
  }

  async #commitOnce(writes: readonly Waiting[]): Promise<Settled[]> {
    const { slot, schema, slotId, memory, endStep } = this.#deps
    const wall = memory.wall()
    for (;;) {
      let last: { draft: Draft; settled: Settled[] } | null = null
      let loads = 0
      const step = (loaded: Loaded): ReturnType<Group['decide']> => {
        const draft = new Draft(loaded, memory, { schema, wall, endStep })
        loads += 1
        const settled = runAll(draft, writes, loads < MAX_LOADS)
        if (Array.isArray(settled)) {
          last = { draft, settled }
          return toStore(schema, slotId, draft)
        }
        return this.#loading(settled.missing, loaded, step)
      }
      const isCommitted = await this.#decided(
        slot.commit(this.#loading(together(writes.map(({ wants }) => wants)), NOTHING, step)),
      )
      if (!isCommitted) continue
      const { draft, settled } = last ?? bug('a group was committed that never ran')
      this.#tell(draft)
      return settled
    }
  }

  #loading(
    wants: Required<Wants>,
    loaded: Loaded,
    step: (loaded: Loaded) => ReturnType<Group['decide']>,
  ): Group {
    const load = toLoad(this.#deps.schema, wants, loaded)
    return { load, decide: (answers) => step(withLoaded(loaded, wants, answers)) }
  }

  /** Whether the group was committed: waits until that is known. */
  async #decided(commit: Promise<void>): Promise<boolean> {
    try {
      await commit
      return true
    } catch (error) {
      if (!(error instanceof Undecided)) throw error
      this.#note(error)
      this.#undecided = error
      // They were not sent: their callers need not wait for PostgreSQL.
      for (const write of this.#waiting.splice(0)) write.fail(refusal(error))
    }
    try {
      return await this.#settled()
    } finally {
      this.#undecided = null
    }
  }

  async #settled(): Promise<boolean> {
    for (;;) {
      try {
        return await this.#deps.slot.settle()
      } catch (error) {
        if (error instanceof Fenced || this.#isClosed) throw error
        await sleep(SETTLE_DELAY_MS)
      }
    }
  }

  /** Catches what the memory throws: the group is committed, so none of its writes may be rejected now. */
  #tell(draft: Draft): void {
    try {
      committed(draft)
    } catch (error) {
      this.#deps.logger.error({ err: error }, 'bug: error after a commit of the ledger')
    }
  }

  #note(error: unknown): void {
    if (this.#fault === null)
      this.#deps.logger.error({ err: error }, 'ledger: a group could not be committed')
    this.#fault = messageOf(error)
    if (error instanceof Fenced) this.#deps.onFenced?.()
  }

  #failGroup(error: unknown, lazy: readonly Waiting[], waiting: readonly Waiting[]): void {
    this.#note(error)
    this.#lazy.unshift(...lazy)
    for (const write of waiting) write.fail(refusal(error))
  }
}

function refusal(cause: unknown): OjsError {
  return unavailable('The ledger cannot be written.', 'ledger', cause)
}

export function closed(): OjsError {
  return unavailable('The ledger is closed.', 'ledger')
}

/**
 * The outcome of each write, in order; or what is missing for them. The writes after one that lacks something run
 * all the same, so that what they lack is loaded with it: a group costs as many loads as its deepest write. When
 * nothing more may be loaded, a write that lacks something fails alone.
 */
function runAll(
  draft: Draft,
  writes: readonly Waiting[],
  mayLoad: boolean,
): Settled[] | { missing: Required<Wants> } {
  const settled: Settled[] = []
  const missing: Wants[] = []
  for (const { run } of writes) {
    try {
      settled.push({ result: run(draft) })
    } catch (error) {
      draft.changes.undo()
      if (error instanceof Missing && mayLoad) missing.push(...error.wants)
      else settled.push(error instanceof TakenBack ? { result: error.outcome } : { error })
    }
    draft.changes.keep()
  }
  return missing.length > 0 ? { missing: together(missing) } : settled
}

function settle(write: Waiting, settled: Settled | undefined): void {
  if (settled === undefined) bug('a write has no outcome')
  if ('result' in settled) write.succeed(settled.result)
  else if (settled.error instanceof OjsError) write.fail(settled.error)
  else {
    const { error: cause } = settled
    write.fail(new OjsError('backend_error', 'The write to the ledger failed.', { cause }))
  }
}

function bug(what: string): never {
  throw new Error(`bug: ${what}`)
}

/** One group, or more if a write is to be one of its own; an empty one, which shows whether the ledger can write. */
function inParts(writes: readonly Waiting[]): Waiting[][] {
  const parts: Waiting[][] = [[]]
  for (const write of writes) {
    if (write.isAlone) parts.push([write], [])
    else parts.at(-1)?.push(write)
  }
  const filled = parts.filter((part) => part.length > 0)
  return filled.length > 0 ? filled : [[]]
}

/** Takes writes from the head of the queue, up to the weight of one group; at least one. */
function take(queue: Waiting[]): Waiting[] {
  let weight = 0
  let count = 0
  for (const write of queue) {
    weight += write.weight
    if (count > 0 && (weight > MAX_WEIGHT || write.isAlone)) break
    count++
    if (write.isAlone) break
  }
  return queue.splice(0, count)
}
