/** What operators are told of PostgreSQL and of the other gateways. */
import type { Known, LedgerWarning } from '../known.ts'
import type { LedgerClock } from './clock.ts'
import type { Durability } from './durability.ts'
import { type Leadership, SLOW_MS } from './leadership.ts'

/** More than this, people would wonder about the times that they see. */
const OFFSET_MS = 1_000

export function standingOf(
  durability: Durability,
  leadership?: Leadership,
  clock?: LedgerClock,
): Pick<Known, 'replication' | 'warnings'> {
  return {
    replication: {
      kind: 'postgres',
      isReplicated: () => durability.isReplicated,
      standbys: () => leadership?.standbys ?? 0,
    },
    warnings: () => [
      ...durability.warnings(),
      ...slowWarnings(leadership?.commitMs ?? 0),
      ...clockWarnings(clock?.aheadMs() ?? 0),
    ],
  }
}

function slowWarnings(commitMs: number): LedgerWarning[] {
  if (commitMs < SLOW_MS) return []
  const message = `A commit of the ledger takes ${Math.round(commitMs)} ms, with which every answer to a client is delayed.`
  return [{ code: 'ledger_slow', message, details: { commit_ms: Math.round(commitMs) } }]
}

function clockWarnings(aheadMs: number): LedgerWarning[] {
  if (Math.abs(aheadMs) <= OFFSET_MS) return []
  const side = aheadMs > 0 ? 'ahead of' : 'behind'
  const message = `This machine's clock is ${Math.abs(aheadMs)} ms ${side} PostgreSQL's, which counts. Logs show this machine's.`
  return [{ code: 'clock_offset', message, details: { ahead_ms: aheadMs } }]
}
