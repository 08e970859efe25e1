/** How a change of state is added to the history of a job: by the UPDATE that makes the change. */
import { FOLDED } from '../../../job/history/changes.ts'
import type { Database } from './driver.ts'

/** From this size on, the oldest half is dropped at the next change: about a hundred changes are kept. */
const MAX_BYTES = 8_192
const KEPT = `substr(history, -${MAX_BYTES / 2})`

/**
 * Appends `line`, a parameter with a line of `historyLine` (or several). In the UPDATE that changes the
 * state, because a row in a table of its own would cost each change a second B-tree.
 */
export function recorded(line: string): string {
  const folded = `'${FOLDED}' || substr(${KEPT}, instr(${KEPT}, char(10)))`
  return `history = iif(octet_length(history) < ${MAX_BYTES}, history, ${folded}) || ${line}`
}

export function prepareHistory(db: Database) {
  return {
    history: db.prepare<[id: string], { history: string }>('SELECT history FROM jobs WHERE id = ?'),
    setHistory: db.prepare<[id: string, history: string]>(
      'UPDATE jobs SET history = ?2 WHERE id = ?1',
    ),
  }
}
