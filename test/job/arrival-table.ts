import type { Arrival, ArrivalContext, ArrivingMessage } from '../../src/job/arrival.ts'
import type { Holder, JobRow, RowState } from '../../src/job/job.ts'

/**
 * The arrival table of docs/architecture.md §2, cell by cell. The row is at attempt 2 of 5, generation 1;
 * the columns are the job message's attempt n. `=2 held` is the delivery that the gateway holds for the
 * lease.
 *
 * Holders: `any` stands for all four. Conditions: `due in Xs` is relative to now, `expired` means
 * that `expires_at` has passed, `last` that attempt 2 was the last of 2, `copied` that the copy in
 * the DLX queue is recorded. `claim 5 after 3,4`: attempts 3 and 4 are recorded as unreported.
 */
const TABLE = `
  state      holder               condition        | 1     | =2           | =2 held      | 3                    | 5                        | 6

  pending    any                  -                | drop  | drop         | drop         | drop                 | drop                     | drop
  completed  any                  -                | drop  | drop         | drop         | drop                 | drop                     | drop
  cancelled  any                  -                | drop  | drop         | drop         | drop                 | drop                     | drop
  withdrawn  any                  -                | drop  | drop         | drop         | drop                 | drop                     | drop
  discarded  any                  copied           | drop  | drop         | drop         | drop                 | drop                     | drop
  discarded  any                  -                | dead-letter | dead-letter  | dead-letter  | dead-letter          | dead-letter              | dead-letter

  available  none,gateway,ledger  -                | drop  | drop         | drop         | claim 3              | claim 5 after 3,4        | exhaust after 3,4,5
  available  none,gateway,ledger  expired          | drop  | drop         | drop         | expire               | expire                   | expire
  available  none,gateway,ledger  last             | drop  | drop         | drop         | exhaust              | exhaust after 3,4        | exhaust after 3,4,5
  available  none,gateway,ledger  last, expired    | drop  | drop         | drop         | expire               | expire                   | expire
  available  native               -                | claim 3 | claim 3      | claim 3      | claim 3              | claim 5 after 3,4        | exhaust after 3,4,5
  available  native               expired          | expire | expire       | expire       | expire               | expire                   | expire
  available  native               last             | exhaust | exhaust      | exhaust      | exhaust              | exhaust after 3,4        | exhaust after 3,4,5
  available  native               last, expired    | expire | expire       | expire       | expire               | expire                   | expire

  active     none,gateway,ledger  -                | drop  | hand-over    | keep         | hold                 | hold                     | hold
  active     none,gateway,ledger  expired          | drop  | hand-over    | keep         | hold                 | hold                     | hold
  active     none,gateway,ledger  last             | drop  | hand-over    | keep         | hold                 | hold                     | hold
  active     native               -                | hand-over | hand-over    | keep         | claim 3 after 2      | claim 5 after 2,3,4      | exhaust after 2,3,4,5
  active     native               expired          | hand-over | hand-over    | keep         | expire               | expire                   | expire
  active     native               last             | hand-over | hand-over    | keep         | exhaust after 2      | exhaust after 2,3,4      | exhaust after 2,3,4,5

  scheduled  any                  -                | drop  | drop         | drop         | promote 3            | promote 5 after 3,4      | exhaust after 3,4,5
  scheduled  any                  due in 0s        | drop  | drop         | drop         | promote 3            | promote 5 after 3,4      | exhaust after 3,4,5
  scheduled  any                  due in -5s       | drop  | drop         | drop         | promote 3            | promote 5 after 3,4      | exhaust after 3,4,5
  scheduled  any                  due in 0.001s    | drop  | drop         | drop         | hold until due       | hold until due           | hold until due
  scheduled  any                  due in 60s       | drop  | drop         | drop         | hold until due       | hold until due           | hold until due
  scheduled  any                  due in 60.001s   | drop  | drop         | drop         | rearm                | rearm                    | rearm
  scheduled  any                  expired          | drop  | drop         | drop         | expire               | expire                   | expire
  scheduled  any                  last             | drop  | drop         | drop         | exhaust              | exhaust after 3,4        | exhaust after 3,4,5
  scheduled  any                  due in 5s, last  | drop  | drop         | drop         | hold until due       | hold until due           | hold until due

  retryable  any                  -                | drop  | drop         | drop         | promote 3            | promote 5 after 3,4      | exhaust after 3,4,5
  retryable  any                  due in 0s        | drop  | drop         | drop         | promote 3            | promote 5 after 3,4      | exhaust after 3,4,5
  retryable  any                  due in -5s       | drop  | drop         | drop         | promote 3            | promote 5 after 3,4      | exhaust after 3,4,5
  retryable  any                  due in 0.001s    | drop  | drop         | drop         | hold until due       | hold until due           | hold until due
  retryable  any                  due in 60s       | drop  | drop         | drop         | hold until due       | hold until due           | hold until due
  retryable  any                  due in 60.001s   | drop  | drop         | drop         | rearm                | rearm                    | rearm
  retryable  any                  expired          | drop  | drop         | drop         | expire               | expire                   | expire
  retryable  any                  last             | drop  | drop         | drop         | exhaust              | exhaust after 3,4        | exhaust after 3,4,5
  retryable  any                  due in 5s, last  | drop  | drop         | drop         | hold until due       | hold until due           | hold until due
`

/** The two clocks differ, so that a cell fails when the decision reads the wrong one. */
export const NOW = 1_700_000_000_000
export const WALL = NOW + 7_200_000

type CellRow = Pick<
  JobRow,
  | 'generation'
  | 'state'
  | 'attempt'
  | 'maxAttempts'
  | 'holder'
  | 'dueAt'
  | 'expiresAt'
  | 'deadLetterCopied'
>

export interface Cell {
  name: string
  row: CellRow
  jobMessage: ArrivingMessage
  context: ArrivalContext
  expected: Arrival
}

const HOLDERS: readonly (Holder | null)[] = [null, 'gateway', 'ledger', 'native']

/** Every cell of the table, once for each holder that its line names. */
export function arrivalCells(): Cell[] {
  const [heading = '', ...lines] = TABLE.trim()
    .split('\n')
    .filter((line) => line.trim())
  const columns = heading
    .split('|')
    .slice(1)
    .map((column) => column.trim())
  return lines.flatMap((line) => {
    const [label = '', ...outcomes] = line.split('|').map((part) => part.trim())
    return rowsOf(label).flatMap((row) =>
      columns.map((column, index) => cell(label, row, column, outcomes[index] ?? '')),
    )
  })
}

function rowsOf(label: string): CellRow[] {
  const [state = '', holders = '', condition = ''] = label.split(/\s{2,}/)
  const due = /due in (-?[\d.]+)s/.exec(condition)
  const base = state === 'retryable' ? NOW : WALL
  return HOLDERS.filter((holder) => names(holders, holder)).map((holder) => ({
    generation: 1,
    state: state as RowState,
    attempt: 2,
    maxAttempts: condition.includes('last') ? 2 : 5,
    holder,
    dueAt: due ? base + Math.round(Number(due[1]) * 1000) : null,
    expiresAt: condition.includes('expired') ? WALL : WALL + 1,
    deadLetterCopied: condition.includes('copied'),
  }))
}

function names(holders: string, holder: Holder | null): boolean {
  return holders === 'any' || holders.split(',').includes(holder ?? 'none')
}

function cell(label: string, row: CellRow, column: string, outcome: string): Cell {
  const jobMessage = { generation: 1, attempt: Number.parseInt(column.replace('=', ''), 10) }
  const isHeldDelivery = column.includes('held')
  return {
    name: `${label.replace(/\s{2,}\S+\s{2,}/, ` (${row.holder ?? 'none'}) `)}, n ${column} → ${outcome}`,
    row,
    jobMessage,
    context: { now: NOW, wall: WALL, isHeldDelivery },
    expected: toArrival(outcome, row),
  }
}

/** `claim 5 after 3,4` and the like, as the value that `decideArrival` returns. */
function toArrival(outcome: string, row: CellRow): Arrival {
  const [verb, attempt] = outcome.split(' ')
  const after = /after ([\d,]+)/.exec(outcome)?.[1]
  const skipped = after ? after.split(',').map(Number) : []
  switch (verb) {
    case 'claim':
    case 'promote':
      return { do: 'claim', attempt: Number(attempt), skipped, promote: verb === 'promote' }
    case 'exhaust':
      return { do: 'exhaust', skipped }
    case 'hold':
      return { do: 'hold', until: outcome === 'hold until due' ? dueOnClock(row) : null }
    default:
      return { do: verb } as Arrival
  }
}

/** A delivery is parked by the ledger's clock, whichever clock the due time of its row is of. */
function dueOnClock({ state, dueAt }: CellRow): number | null {
  return dueAt !== null && state === 'scheduled' ? dueAt - WALL + NOW : dueAt
}
