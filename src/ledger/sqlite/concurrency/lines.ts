/** Concurrency keys on SQLite: who is held back, and who is next. Only jobs with a key come here. */
import { historyLine } from '../../../job/history/changes.ts'
import type { Carry, JobRow } from '../../../job/job.ts'
import { type KeyStanding, MAX_LEASES_ASKED, MAX_WAITING_COUNTED } from '../../concurrency.ts'
import * as shared from '../../writes/lines.ts'
import { type KeyLines, type Line, MAX_LINES } from '../../writes/lines.ts'
import { changed } from '../sql/rows.ts'
import { counted } from '../state/state-counter.ts'
import type { Store } from '../state/store.ts'

type Keyed = Pick<JobRow, 'queue' | 'carry'>

/** May an attempt of this waiting job begin, by its own limit? */
export function mayBegin(store: Store, { carry }: Pick<JobRow, 'carry'>): boolean {
  const policy = carry?.concurrency
  return policy === undefined || shared.mayBegin(linesOf(store), policy)
}

/** An attempt of the job begins; it did not run before. Inside the write that starts it. */
export function begun(store: Store, { carry, queue }: Keyed): void {
  const policy = carry?.concurrency
  if (policy !== undefined) shared.begun(linesOf(store), policy, queue)
}

/** The job does not run or wait for its turn any more; `wasActive`: it ran. Inside the write that says so. */
export function freed(store: Store, { carry, queue }: Keyed, wasActive: boolean): void {
  const key = carry?.concurrency?.key
  if (key !== undefined) shared.freed(linesOf(store), { key, queue }, wasActive)
}

/** As `freed`, for a row whose texts are gone. */
export function freedKey(store: Store, line: Line): void {
  shared.freed(linesOf(store), line, false)
}

/** The job was active and is `available` again. Returns the row as it is then. */
export function wentBack(store: Store, job: JobRow): JobRow {
  const key = job.carry?.concurrency?.key
  if (key === undefined) return job
  return shared.wentBack(linesOf(store), { key, queue: job.queue }, job)
}

/** The job has become `available`, and owes its message (`outbox`). Returns the row as it is then. */
export function inTurn(store: Store, job: JobRow): JobRow {
  const key = job.carry?.concurrency?.key
  if (key === undefined) return job
  return shared.inTurn(linesOf(store), { key, queue: job.queue }, job)
}

/** Notes the key of a job that was just stored. */
export function noteKey({ statements, keyed }: Store, id: string, carry: Carry | null): void {
  if (carry?.concurrency === undefined) return
  statements.setKey.run(id, carry.concurrency.key)
  statements.noteKeyed.run()
  // Not taken back if the write fails: it only says what may be.
  keyed.mayExist = true
}

/** What holds for a job that waits for its next attempt, when the message of a later one has come. */
type Before = Pick<JobRow, 'attempt' | 'error' | 'errors'>

/** Holds a job back whose message has come, and is about to be acknowledged. In the write that read `row`. */
export function holdArrived(store: Store, row: JobRow, before: Before, now: number): JobRow {
  const { attempt, error, errors } = before
  const isDue = row.state !== 'available'
  const line = isDue ? historyLine(now, 'available', attempt, null, { reason: 'due' }) : ''
  const held = changed(store.statements.holdArrived.get(row.id, now, attempt, error, errors, line))
  if (isDue) store.counter.moved(row.queue, counted(row.state), 'available')
  store.counter.left(row.queue, row)
  store.counter.moved(row.queue, null, 'held')
  store.keyed.held(row.queue)
  // Another job of the line may have a higher limit.
  freed(store, held, false)
  return held
}

function linesOf(store: Store): KeyLines {
  const { statements, counter, keyed, nonces } = store
  return {
    active: (key) => activeOf(store, key),
    countActive(key, change) {
      if (change === 1) statements.oneMoreActive.run(key)
      else {
        statements.oneLessActive.run(key)
        statements.forgetIdleKey.run(key)
      }
    },
    first({ key, queue }) {
      const first = statements.firstInLine.get(key, queue)
      return first === undefined ? null : { id: first.id, limit: limitOf(first.carry) }
    },
    isOnItsWay: ({ key, queue }, skipped) =>
      statements.isOnItsWay.get(key, queue, skipped) !== undefined,
    queues: (line) => queuesOf(store, line),
    holdBack(id) {
      const held = changed(statements.holdBack.get(id))
      counter.moved(held.queue, null, 'held')
      return held
    },
    letGo({ queue }, id) {
      counter.moved(queue, 'held', null)
      return changed(statements.letGo.get(id, nonces.next()))
    },
    released: (job) => keyed.released(job),
    held: (queue) => keyed.held(queue),
  }
}

function limitOf(carry: string): number {
  return (JSON.parse(carry) as Carry).concurrency?.limit ?? 1
}

function* queuesOf({ statements }: Store, { key, queue }: Line): Generator<string> {
  yield queue
  let after = queue
  let isBehind = true
  for (let looked = 0; looked < MAX_LINES; looked++) {
    const next = statements.nextLineOfKey.get(key, after)?.queue
    if (next === undefined || (!isBehind && next >= queue)) {
      if (!isBehind) return
      isBehind = false
      after = ''
      continue
    }
    yield next
    after = next
  }
}

export function activeOf({ statements }: Store, key: string): number {
  return statements.activeOfKey.get(key)?.active ?? 0
}

/** See `ConcurrencyReads`. */
export function standingsOf(
  store: Store,
  keys: readonly string[],
): ReadonlyMap<string, KeyStanding> {
  const { activePolicies, limitOfWaiting, heldOfKey } = store.statements
  const ofActive = new Map<string, number>()
  for (const { carry } of activePolicies.all(JSON.stringify(keys), MAX_LEASES_ASKED)) {
    const policy = (JSON.parse(carry) as Carry).concurrency
    if (policy) ofActive.set(policy.key, policy.limit)
  }
  const found = new Map<string, KeyStanding>()
  for (const key of keys) {
    const active = activeOf(store, key)
    const carry = limitOfWaiting.get(key)?.carry ?? null
    if (active === 0 && carry === null) continue
    const limit = carry === null ? (ofActive.get(key) ?? null) : limitOf(carry)
    const waiting = heldOfKey.get(key, MAX_WAITING_COUNTED)?.count ?? 0
    found.set(key, { limit, active, waiting })
  }
  return found
}
