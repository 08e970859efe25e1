/** The history of a job: each change of its state, as one line of the text that is stored in its row. */
import { JOB_STATES, type RowState } from '../job.ts'
import { cut } from '../values/limits.ts'

/** What made a change: a request (its id, and the name of its API key), or something of the gateway's own. */
export interface Cause {
  requestId?: string | undefined
  principal?: string | undefined
  /** In snake_case, e.g. `lease_expired`; absent where the change itself says all. */
  reason?: string | undefined
}

/** One change of state. `from` null: the first one that is known. */
export interface StateChange {
  /** Clock time, ms. */
  at: number
  from: RowState | null
  to: RowState
  attempt: number
  /** The worker that the start, or the end by a native worker, names. */
  workerId: string | null
  requestId: string | null
  principal: string | null
  reason: string | null
}

/** The reason of a line that tells of no other state. */
export const PRIORITY_CHANGED = 'priority_changed'

/** Characters of a name in a line. Lines stay short, because each change writes the job's whole row again. */
const MAX_NAME = 128

/** Marks a text whose oldest lines are gone: see `ledger/sqlite/sql/history.ts`. */
export const FOLDED = '~'

/** Two letters for a state: no two states begin with the same ones. */
const codeOf = (state: RowState): string => state.slice(0, 2)
const CODES = new Map(
  ([...JOB_STATES, 'withdrawn'] as const).map((state): [RowState, string] => [
    state,
    codeOf(state),
  ]),
)
const STATES = new Map([...CODES].map(([state, code]): [string, RowState] => [code, state]))

/**
 * A change as a line of the stored text, line feed first: a JSON array without its brackets. What is absent
 * at the end is left out. `attempt` null: that of the line before.
 */
export function historyLine(
  at: number,
  to: RowState,
  attempt: number | null,
  workerId: string | null,
  { requestId, principal, reason }: Cause = {},
): string {
  // By hand, because JSON.stringify of a list would cost each change a microsecond.
  let line = `\n${at},"${CODES.get(to)}",${attempt}`
  if (!workerId && !requestId && !principal && !reason) return line
  line += `,${quoted(workerId)}`
  if (!requestId && !principal && !reason) return line
  line += `,${quoted(requestId)}`
  if (principal || reason) line += `,${quoted(principal)}`
  return reason ? `${line},${quoted(reason)}` : line
}

const PLAIN = /^[\w .:@/-]{1,128}$/

function quoted(name: string | null | undefined): string {
  if (!name) return '0'
  return PLAIN.test(name) ? `"${name}"` : JSON.stringify(cut(name, MAX_NAME))
}

/** The changes of a stored text, oldest first; `isFolded`: those before them are gone. */
export function readHistory(text: string): { changes: StateChange[]; isFolded: boolean } {
  const isFolded = text.startsWith(FOLDED)
  const changes: StateChange[] = []
  for (const line of text.split('\n').slice(1)) {
    const before = changes.at(-1)
    const [at, to, attempt, ...names]: unknown[] = JSON.parse(`[${line}]`)
    const [workerId, requestId, principal, reason] = [0, 1, 2, 3].map((i) => nameAt(names, i))
    changes.push({
      at: Number(at),
      from: before?.to ?? null,
      to: STATES.get(String(to)) ?? 'withdrawn',
      attempt: typeof attempt === 'number' ? attempt : (before?.attempt ?? 0),
      workerId: workerId ?? null,
      requestId: requestId ?? null,
      principal: principal ?? null,
      reason: reason ?? null,
    })
  }
  // The oldest line that is left only tells from where the next one went.
  return { changes: isFolded ? changes.slice(1) : changes, isFolded }
}

function nameAt(names: readonly unknown[], i: number): string | null {
  const name = names[i]
  return typeof name === 'string' ? name : null
}

/** What is left of a text whose changes are to be forgotten: from where the next change goes. */
export function clearedHistory(text: string): string {
  return FOLDED + text.slice(Math.max(0, text.lastIndexOf('\n')))
}
