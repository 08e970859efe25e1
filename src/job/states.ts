import type { RowState } from './job.ts'

/**
 * The one transition table (seed 001 §7, ojs-digest §1.2): where a row can go from each state; for
 * a job, anything else is a 409. The conditions of the ledger's statements follow it, and the tests
 * of the ledger judge every write by it.
 *
 * Three are no arrows of the seed's picture. A native worker may have begun before we know that the
 * job was due, and its success implies its start. `withdrawn` is what `isErased` tells of; the id may
 * be used again.
 */
const NEXT: Readonly<Record<RowState, readonly RowState[]>> = {
  available: ['active', 'completed', 'cancelled', 'discarded', 'withdrawn'],
  scheduled: ['available', 'active', 'cancelled', 'discarded', 'withdrawn'],
  pending: ['available', 'scheduled', 'cancelled', 'discarded', 'withdrawn'],
  active: ['completed', 'retryable', 'available', 'cancelled', 'discarded'],
  retryable: ['available', 'active', 'cancelled', 'discarded'],
  completed: [],
  cancelled: [],
  discarded: ['available', 'withdrawn'],
  withdrawn: ['available', 'scheduled', 'pending'],
}

export function canBecome(from: RowState, to: RowState): boolean {
  return NEXT[from].includes(to)
}
