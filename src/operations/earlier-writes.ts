/** Lets a control request wait for the commits of what was said before it. */
import type { Deps } from './deps.ts'

/**
 * Waits for the commit of what control messages said before. The answer to a control request must count it,
 * for example a report that RabbitMQ confirmed long ago, on whatever connection. This sees only writes that
 * the ledger was already asked for: the handler of a control message must therefore ask for its only write
 * before it awaits anything. Rejects (503) when such a write fails.
 */
export async function earlierWrites({ ledger }: Pick<Deps, 'ledger'>): Promise<void> {
  await ledger.written()
  // The second wait is for a report that the ledger refused as a whole in the first: `report.ts` then writes
  // it again, event by event.
  await ledger.written()
}
