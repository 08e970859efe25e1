/** What follows when a commit has held jobs of a concurrency key back, or let them go. */
import type { KeyNews } from '../ledger/concurrency.ts'
import type { Deps } from './deps.ts'
import { sendOrLeave } from './job-messages/send.ts'

/**
 * Publishes the messages of jobs whose turn it is, and counts those that are held back. The handler of
 * `ConcurrencyLedger.onNews`: the commit was that of an ACK, a report or a timer, whose operation knows
 * nothing of the other jobs of its key. At once, before the relay can see that the outbox owes them.
 */
export function followKeys(deps: Deps, { held, released }: KeyNews): void {
  for (const job of released) void sendOrLeave(deps, job)
  for (const queue of held) deps.events.emit({ type: 'job.held', queue })
}

/** Keys that one look takes: their writes share a commit. */
const PAGE = 100

/** Looks at every line. See `ConcurrencyLedger.review`. */
export async function reviewLines({ ledger }: Deps, isStopped: () => boolean): Promise<void> {
  let after: string | null = ''
  while (after !== null && !isStopped()) after = await ledger.concurrency.review(after, PAGE)
}
