import type { Deps } from './deps.ts'

/**
 * For the answer to a control message: what came before it counts, and may wait for its commit still
 * (a report that RabbitMQ has confirmed long ago, on whatever connection). Nothing that is said by a
 * message may await anything before it asks the ledger for its only write, or this does not see it.
 * Rejects (503) where that cannot be written.
 */
export async function earlierWrites({ ledger }: Pick<Deps, 'ledger'>): Promise<void> {
  await ledger.written()
  // A report that the ledger refused as a whole is being written anew, event by event (`report.ts`).
  await ledger.written()
}
