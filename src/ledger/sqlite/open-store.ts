import type { Companion } from './companion.ts'
import { MovedDebts } from './moved-debts.ts'
import { OutboxNonces } from './outbox-nonces.ts'
import { PauseStates } from './pauses.ts'
import { queueRegister, rungRegister } from './register.ts'
import { StaleCopies } from './stale-copies.ts'
import { StateCounter } from './state-counter.ts'
import type { Statements } from './statements.ts'
import type { Store } from './store.ts'
import { Tombstones } from './tombstones.ts'
import { TrafficMinutes } from './traffic.ts'
import type { WorkflowBook } from './workflow-book.ts'

/** Builds the `Store`: reads all that is kept in memory beside the rows from the file. */
export function openStore(
  statements: Statements,
  workflows: WorkflowBook,
  wall: () => number,
): { store: Store; companions: Companion[] } {
  const kept = {
    counter: new StateCounter(statements),
    queues: queueRegister(statements),
    nonces: new OutboxNonces(statements),
    rungs: rungRegister(statements),
    stale: new StaleCopies(statements),
    tombstones: new Tombstones(statements),
    pauses: new PauseStates(statements),
    traffic: new TrafficMinutes(statements),
    workflows,
  }
  const confirming = new Set<number>()
  const moved = new MovedDebts()
  return {
    store: { statements, ...kept, confirming, moved, wall, pruned: new Map<object, number>() },
    companions: Object.values(kept),
  }
}
