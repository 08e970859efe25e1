/** Which state may follow which: the one transition table (seed 001 §7). */
import type { RowState } from './job.ts'

/**
 * The one transition table (seed 001 §7): the states that a row can reach from each state;
 * for a client, any other transition is a 409. The ledger's SQL conditions follow this table, and the
 * ledger's tests check every write against it.
 *
 * It has more transitions than the seed's diagram. A native worker may start a job before the gateway marks
 * it as due (`scheduled` or `retryable` → `active`), and a reported success implies the start (`available` →
 * `completed`). An operator may retry jobs that have ended, and delete them. `withdrawn` is the state of erased jobs (`isErased`), whose ids may be used again.
 */
const NEXT: Readonly<Record<RowState, readonly RowState[]>> = {
  available: ['active', 'completed', 'cancelled', 'discarded', 'withdrawn'],
  scheduled: ['available', 'active', 'cancelled', 'discarded', 'withdrawn'],
  pending: ['available', 'scheduled', 'cancelled', 'discarded', 'withdrawn'],
  active: ['completed', 'retryable', 'available', 'cancelled', 'discarded'],
  retryable: ['available', 'active', 'cancelled', 'discarded'],
  completed: ['available', 'withdrawn'],
  cancelled: ['available', 'withdrawn'],
  discarded: ['available', 'withdrawn'],
  withdrawn: ['available', 'scheduled', 'pending'],
}

export function canBecome(from: RowState, to: RowState): boolean {
  return NEXT[from].includes(to)
}
