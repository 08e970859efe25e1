/** How large the ledger is, and how much is in it. */
import type { Ledger } from '../ledger/ledger.ts'
import type { Deps } from './deps.ts'

type LedgerSize = Awaited<ReturnType<Ledger['read']['size']>>

/** The ledger as it was when this process opened it. */
export interface LedgerAtStart extends LedgerSize {
  at: number
}

interface LedgerReport extends LedgerSize {
  jobs: number
  deadLetters: number
  queues: number
  /** Counted up to ten thousand. */
  owedMessages: number
}

const MOST_COUNTED = 10_000

export async function ledgerReport({ ledger }: Pick<Deps, 'ledger'>): Promise<LedgerReport> {
  const queues = ledger.known.queues()
  const counts = queues.flatMap(({ name }) => Object.values(ledger.known.counts(name)))
  return {
    ...(await ledger.read.size()),
    jobs: counts.reduce((sum, count) => sum + count, 0),
    deadLetters: ledger.known.deadLetterCount(),
    queues: queues.length,
    owedMessages: await ledger.read.owedMessages(MOST_COUNTED),
  }
}
