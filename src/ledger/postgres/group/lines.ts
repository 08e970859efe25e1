/** The lines of concurrency keys: what is loaded of them, and what the group's writes have changed. */
import { isHeldByKey } from '../../../job/concurrency.ts'
import { type Carry, isTerminal, type JobRow } from '../../../job/job.ts'
import { HELD_BACK, letGo } from '../../../job/transitions/held.ts'
import type { Change, KeptRow } from '../../../job/transitions/row.ts'
import { compare } from '../../../job/values/canonical-json.ts'
import {
  begun,
  freed,
  inTurn,
  type KeyLines,
  type Line,
  MAX_LINES,
  type Waiting,
  wentBack,
} from '../../writes/lines.ts'
import type { Row, Statement } from '../connection.ts'
import type { Changes } from './changes.ts'
import { type SideTable, type SideWant, wanted } from './side.ts'

interface LineWants {
  asked: Statement[]
  sides: SideWant[]
}

/** What the lines need of a `Draft`. */
interface LineDraft {
  readonly schema: string
  readonly changes: Changes
  side<T extends object>(table: SideTable<T>, key: string): T | null
  putSide<T extends object>(table: SideTable<T>, key: string, row: T | null): void
  ask(statement: Statement): readonly Row[]
  require(wants: {
    ids?: readonly string[]
    asked?: readonly Statement[]
    sides?: readonly SideWant[]
  }): void
  row(id: string): KeptRow | null
  job(row: KeptRow): JobRow
  put(row: KeptRow, change: Change): KeptRow
  isNew(id: string): boolean
  nextNonce(): number
}

/** How many jobs of a key run. Without a row: none. */
export const ACTIVE: SideTable<{ active: number }> = {
  name: 'concurrency',
  key: 'key',
  columns: { active: 'bigint' },
}

/** How many rows are read of a line at first; each further step is four times as many. */
const FEW = 8
/** How many jobs are read with their texts at most, if one of them may go. */
const MAX_READ_AHEAD = 8

const WAITING = `j.state = 'available' AND j.concurrency_key = $1`
const HELD = `${WAITING} AND j.holder = 'ledger'`

/** In the order of `KeyLines.first`. */
function heldJobs(schema: string, { key, queue }: Line, limit: number): Statement {
  const text = `SELECT j.id, j.priority, j.enqueued_at AS "enqueuedAt", j.seq, b.carry
    FROM ${schema}.jobs j JOIN ${schema}.job_bodies b USING (id)
    WHERE ${HELD} AND j.queue = $2 ORDER BY j.priority DESC, j.enqueued_at, j.seq LIMIT $3`
  return { text, values: [key, queue, limit] }
}

function jobsOnTheirWay(schema: string, { key, queue }: Line, limit: number): Statement {
  const text = `SELECT j.id FROM ${schema}.jobs j
    WHERE ${WAITING} AND j.holder IS NULL AND j.queue = $2 LIMIT $3`
  return { text, values: [key, queue, limit] }
}

/** The queues after this one in which jobs of the key are held back: one step in the index for each. */
export function heldQueues(schema: string, key: string, after: string, limit: number): Statement {
  const next = (than: string) => `SELECT j.queue FROM ${schema}.jobs j
    WHERE ${HELD} AND j.queue > ${than} ORDER BY j.queue LIMIT 1`
  const text = `WITH RECURSIVE q AS ((${next('$2')})
      UNION ALL SELECT (${next('q.queue')}) FROM q WHERE q.queue IS NOT NULL)
    SELECT queue FROM q WHERE queue IS NOT NULL LIMIT $3`
  return { text, values: [key, after, limit] }
}

/** The keys after this one of which jobs are held back. */
export function heldKeys(schema: string, after: string, limit: number): Statement {
  const next = (than: string) => `SELECT j.concurrency_key AS key FROM ${schema}.jobs j
    WHERE j.state = 'available' AND j.holder = 'ledger' AND j.concurrency_key > ${than}
    ORDER BY j.concurrency_key LIMIT 1`
  const text = `WITH RECURSIVE k AS ((${next('$1')})
      UNION ALL SELECT (${next('k.key')}) FROM k WHERE k.key IS NOT NULL)
    SELECT key FROM k WHERE key IS NOT NULL LIMIT $2`
  return { text, values: [after, limit] }
}

/** What changes of jobs in these lines read. */
export function lineWants(schema: string, lines: readonly Line[]): LineWants {
  const asked = lines.flatMap((line) => [
    heldJobs(schema, line, FEW),
    jobsOnTheirWay(schema, line, FEW),
    ...queuesOf(schema, line),
  ])
  const keys = lines.map(({ key }) => key)
  return { asked, sides: keys.length === 0 ? [] : [wanted(ACTIVE, keys)] }
}

/** Those behind the line's own, and those before it. */
function queuesOf(schema: string, { key, queue }: Line): [Statement, Statement] {
  return [heldQueues(schema, key, queue, MAX_LINES), heldQueues(schema, key, '', MAX_LINES)]
}

/**
 * A job with a key was stored (`before` null) or has changed: what that means for the jobs of its key, if its state
 * is another. Returns the row as it is then.
 */
export function inLine(draft: LineDraft, before: KeptRow | null, after: KeptRow): KeptRow {
  const { concurrencyKey: key, queue, state } = after
  const was = before?.state ?? null
  if (key === null || was === state) return after
  const lines = new DraftLines(draft)
  const line = { key, queue }
  if (state === 'active') {
    const policy = draft.job(after).carry?.concurrency
    if (policy) begun(lines, policy, queue)
  } else if (state === 'available') {
    if (was === 'active') wentBack(lines, line, draft.job(after))
    else inTurn(lines, line, draft.job(after))
  } else if (was !== null && !isTerminal(was) && (isTerminal(state) || state === 'retryable'))
    freed(lines, line, was === 'active')
  return draft.row(after.id) ?? after
}

type Place = Pick<KeptRow, 'id' | 'priority' | 'enqueuedAt' | 'seq'>

export class DraftLines implements KeyLines {
  readonly #draft: LineDraft

  constructor(draft: LineDraft) {
    this.#draft = draft
  }

  active(key: string): number {
    return this.#draft.side(ACTIVE, key)?.active ?? 0
  }

  countActive(key: string, change: 1 | -1): void {
    const active = this.active(key) + change
    this.#draft.putSide(ACTIVE, key, active > 0 ? { active } : null)
  }

  first(line: Line): Waiting | null {
    const [theirs] = this.#unchanged(line)
    const own = this.#own(line).filter(isHeldByKey).reduce<KeptRow | null>(earlier, null)
    const isOwn = own !== null && (theirs === undefined || earlier<Place>(theirs, own) === own)
    if (isOwn) return { id: own.id, limit: limitOf(this.#draft.job(own).carry) }
    if (theirs === undefined) return null
    return { id: theirs.id, limit: limitOf(JSON.parse(theirs.carry) as Carry) }
  }

  isOnItsWay(line: Line, skipped: number): boolean {
    const isWaiting = ({ state, holder }: KeptRow) => state === 'available' && holder === null
    const own = this.#own(line).filter(isWaiting).length
    if (own > skipped) return true
    const limit = this.#limit(line, skipped + 1)
    const found = this.#draft.ask(jobsOnTheirWay(this.#draft.schema, line, limit))
    const theirs = found.filter(({ id }) => !this.#draft.changes.rows.has(String(id)))
    return own + theirs.length > skipped
  }

  queues(line: Line): string[] {
    const { schema } = this.#draft
    const { key, queue } = line
    this.#draft.require(lineWants(schema, [line]))
    const found = queuesOf(schema, line).flatMap((statement) => this.#draft.ask(statement))
    const own = this.#ofKey(key).filter(isHeldByKey)
    const all = [
      ...new Set([...found.map((row) => String(row['queue'])), ...own.map((row) => row.queue)]),
    ]
    const others = all.filter((name) => name !== queue).sort(compare)
    const first = others.findIndex((name) => name > queue)
    const turned = first === -1 ? others : [...others.slice(first), ...others.slice(0, first)]
    const some = turned.slice(0, MAX_LINES)
    const asked = some.flatMap((name) => [
      heldJobs(schema, { key, queue: name }, this.#limit({ key, queue: name }, 1)),
      jobsOnTheirWay(schema, { key, queue: name }, this.#limit({ key, queue: name }, 1)),
    ])
    this.#draft.require({ asked })
    return [queue, ...some]
  }

  holdBack(id: string): JobRow {
    return this.#changed(id, HELD_BACK)
  }

  letGo(line: Line, id: string, room: number): JobRow {
    const next = this.#unchanged(line).slice(0, Math.min(room, MAX_READ_AHEAD))
    this.#draft.require({ ids: [id, ...next.map((one) => one.id)] })
    return this.#changed(id, letGo(this.#draft.nextNonce()))
  }

  released(job: JobRow): void {
    this.#draft.changes.tell({ released: job })
  }

  held(queue: string): void {
    this.#draft.changes.tell({ held: queue })
  }

  #changed(id: string, change: typeof HELD_BACK): JobRow {
    const row = this.#draft.row(id)
    if (row === null) throw new Error(`bug: ${id} stands in a line and is not there`)
    return this.#draft.job(this.#draft.put(row, change))
  }

  /** The first rows that the group has not changed: one at least, if there is one. */
  #unchanged(line: Line) {
    const statement = heldJobs(this.#draft.schema, line, this.#limit(line, 1))
    const { rows } = this.#draft.changes
    const found = this.#draft.ask(statement) as readonly unknown[]
    return (found as (Place & { carry: string })[]).filter(({ id }) => !rows.has(id))
  }

  /** So many rows that `wanted` of them are such as the group has not changed. */
  #limit({ key }: Line, wanted: number): number {
    const changed = this.#draft.changes.jobsWith(key).filter((id) => !this.#draft.isNew(id))
    let limit = FEW
    while (limit < wanted + changed.length) limit *= 4
    return limit
  }

  /** Rows of the line as the group's writes have left them. */
  #own({ key, queue }: Line): KeptRow[] {
    return this.#ofKey(key).filter((row) => row.queue === queue)
  }

  #ofKey(key: string): KeptRow[] {
    const { changes } = this.#draft
    const rows = changes.jobsWith(key).flatMap((id) => changes.rows.get(id) ?? [])
    return rows.filter(({ concurrencyKey }) => concurrencyKey === key)
  }
}

/** Which of two comes first; of two that are not stored yet, `a`. */
function earlier<T extends Place>(a: T | null, b: T): T {
  if (a === null) return b
  const order =
    b.priority - a.priority ||
    a.enqueuedAt - b.enqueuedAt ||
    (a.seq ?? Number.MAX_SAFE_INTEGER) - (b.seq ?? Number.MAX_SAFE_INTEGER)
  return order <= 0 ? a : b
}

function limitOf(carry: Carry | null): number {
  return carry?.concurrency?.limit ?? 1
}
