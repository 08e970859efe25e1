/** What an error of PostgreSQL, or of the connection to it, means for the group that met it. */

/** Raised by `take_slot`. */
const FENCED = 'OJ001'
/** Every statement after the one that failed. */
const TRANSACTION_FAILED = '25P02'
/**
 * Serialisation failure, deadlock, lock not available in time, and a key that another transaction inserted after
 * the group had looked for it: the same group may succeed now.
 */
const TO_REPEAT = ['40001', '40P01', '55P03', '23505']
/**
 * Beside shutdowns (57P) and connection exceptions (08): the transaction was idle too long, and the host has
 * become a standby, which only a new connection can get away from.
 */
const LOST = ['25P03', '25006']

/** Classes of errors about the values of a statement. */
const UNSTORABLE = ['22', '23', '54']

/**
 * - `data`: the values of some write cannot be stored (class 22, 23; 54: too large for an index), others of its
 *   group can
 * - `repeat`: the group met another one; nothing was written
 * - `fenced`: another gateway has the slot
 * - `lost`: no answer came, or the server is going away; whether a COMMIT was done is unknown
 * - `other`: a fault of the statement, of the schema or of the server, such as a full disk; nothing was written
 */
export type FailureKind = 'data' | 'repeat' | 'fenced' | 'lost' | 'other'

/** The failure that the others follow from, which is the first; null if none failed. */
export function failureOf(
  results: readonly PromiseSettledResult<unknown>[],
): { error: unknown; kind: FailureKind } | null {
  const failed = results.find((result) => result.status === 'rejected')
  return failed ? { error: failed.reason, kind: kindOf(failed.reason) } : null
}

export function kindOf(error: unknown): FailureKind {
  const state = sqlStateOf(error)
  // Errors of the network and of `pg` itself have no SQLSTATE.
  if (state === null) return 'lost'
  if (state === FENCED) return 'fenced'
  if (TO_REPEAT.includes(state)) return 'repeat'
  if (state.startsWith('57P') || state.startsWith('08') || LOST.includes(state)) return 'lost'
  // A failed transaction whose cause was not seen: never taken for one that may be split.
  if (state === TRANSACTION_FAILED) return 'other'
  return UNSTORABLE.includes(state.slice(0, 2)) ? 'data' : 'other'
}

/** Errors of Node's have a code, too, but no severity. */
function sqlStateOf(error: unknown): string | null {
  if (!(error instanceof Error) || !('code' in error) || !('severity' in error)) return null
  return typeof error.code === 'string' ? error.code : null
}
