/** Concurrency keys: who is held back, and who is next. Only jobs with a key come here. */
import { historyLine } from '../../../job/history/changes.ts'
import type { Carry, JobRow } from '../../../job/job.ts'
import type { Line } from '../sql/concurrency.ts'
import { changed } from '../sql/rows.ts'
import { counted } from '../state/state-counter.ts'
import type { Store } from '../state/store.ts'

/** Queues of one key that a write looks at; `review` sees to the others. */
const MAX_LINES = 100
/** Jobs that a write lets go: a line whose first job has a higher limit than those before it may have many. */
const MAX_RELEASED = 100
/** Jobs of a line that are on their way at once, however high their limit: each write would count more of them. */
const MAX_ON_THEIR_WAY = 256

type Keyed = Pick<JobRow, 'queue' | 'carry'>

/** May an attempt of this waiting job begin, by its own limit? */
export function mayBegin(store: Store, { carry }: Pick<JobRow, 'carry'>): boolean {
  const policy = carry?.concurrency
  return policy === undefined || activeOf(store, policy.key) < policy.limit
}

/** An attempt of the job begins; it did not run before. Inside the write that starts it. */
export function begun(store: Store, { carry, queue }: Keyed): void {
  const policy = carry?.concurrency
  if (policy === undefined) return
  store.statements.oneMoreActive.run(policy.key)
  // Its line may have been waiting for this one to leave the way.
  if (policy.limit > MAX_ON_THEIR_WAY) freedKey(store, { key: policy.key, queue })
}

/** The job does not run or wait for its turn any more; `wasActive`: it ran. Inside the write that says so. */
export function freed(store: Store, { carry, queue }: Keyed, wasActive: boolean): void {
  const key = carry?.concurrency?.key
  if (key === undefined) return
  if (wasActive) oneLessActive(store, key)
  for (const job of letGo(store, { key, queue })) store.keyed.released(job)
}

/** As `freed`, for a row whose texts are gone. */
export function freedKey(store: Store, line: Line): void {
  for (const job of letGo(store, line)) store.keyed.released(job)
}

/**
 * The job was active and is `available` again. If it owes a message, it waits for its turn first. Returns the row as
 * it is then.
 */
export function wentBack(store: Store, job: JobRow): JobRow {
  const key = job.carry?.concurrency?.key
  if (key === undefined) return job
  if (job.outbox === null) {
    freed(store, job, true)
    return job
  }
  oneLessActive(store, key)
  return inTurn(store, job)
}

/**
 * The job has become `available`, and owes its message (`outbox`): it stands in its line, and all whose turn it is
 * are let go. Returns the row as it is then: it owes its message, or is held back.
 */
export function inTurn(store: Store, job: JobRow): JobRow {
  const key = job.carry?.concurrency?.key
  if (key === undefined || job.outbox === null) return job
  const held = changed(store.statements.holdBack.get(job.id))
  store.counter.moved(job.queue, null, 'held')
  let own: JobRow | null = null
  for (const released of letGo(store, { key, queue: job.queue })) {
    if (released.id === job.id) own = released
    else store.keyed.released(released)
  }
  if (own === null) store.keyed.held(job.queue)
  return own ?? held
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

/** Lets go whose turn it is, in every queue of the key, this one first. */
function letGo(store: Store, { key, queue }: Line): JobRow[] {
  const active = activeOf(store, key)
  const released: JobRow[] = []
  for (const line of linesOf(store, { key, queue })) {
    while (released.length < MAX_RELEASED) {
      const next = nextOf(store, line, active)
      if (next === null) break
      released.push(next)
    }
  }
  return released
}

/** Lets the first of a line go, unless enough of them are on their way already for the room that is left. */
function nextOf(store: Store, { key, queue }: Line, active: number): JobRow | null {
  const { firstInLine, isOnItsWay, letGo: release } = store.statements
  const first = firstInLine.get(key, queue)
  if (first === undefined) return null
  const room = limitOf(first.carry) - active
  const most = Math.min(room, MAX_ON_THEIR_WAY)
  if (most <= 0 || isOnItsWay.get(key, queue, most - 1) !== undefined) return null
  store.counter.moved(queue, 'held', null)
  return changed(release.get(first.id, store.nonces.next()))
}

function limitOf(carry: string): number {
  return (JSON.parse(carry) as Carry).concurrency?.limit ?? 1
}

function* linesOf({ statements }: Store, { key, queue }: Line): Generator<Line> {
  yield { key, queue }
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
    yield { key, queue: next }
    after = next
  }
}

export function activeOf({ statements }: Store, key: string): number {
  return statements.activeOfKey.get(key)?.active ?? 0
}

function oneLessActive({ statements }: Store, key: string): void {
  statements.oneLessActive.run(key)
  statements.forgetIdleKey.run(key)
}
