import type { Holder, RowState } from '../../src/job/job.ts'
import type { Decision, decideReport, ReportedEvent, Said } from '../../src/job/native/report.ts'

/**
 * What a report does, cell by cell. The row is at attempt 2, generation 1, and leased to `w`. Each column
 * is an event of an attempt, from `w` unless it says `other`.
 *
 * `-`: ignored. `refused`: another worker has the lease over HTTP. `start`: begins that attempt; `promote` also makes the job available before. `end`: ends
 * the running attempt. `begin+end`, `promote+end`: both. `resume+end`: the lease had run out.
 * `after 3,4`: attempts 3 and 4 are recorded as unreported.
 */
const TABLE = `
  state      holder               lease | started 1 | started 2 | started 3     | started 5         | completed 1 | completed 2 | completed 3       | completed 5           | failed 1 | failed 2   | failed 2 other | failed 3          | failed 5

  pending    any                  -     | -         | -         | -             | -                 | -           | -           | -                 | -                     | -        | -          | -              | -                 | -
  withdrawn  any                  -     | -         | -         | -             | -                 | -           | -           | -                 | -                     | -        | -          | -              | -                 | -
  completed  any                  -     | -         | -         | -             | -                 | -           | -           | -                 | -                     | amend    | -          | -              | -                 | -
  cancelled  any                  -     | -         | -         | -             | -                 | -           | -           | -                 | -                     | amend    | -          | -              | -                 | -
  discarded  any                  -     | -         | -         | -             | -                 | -           | -           | -                 | -                     | amend    | amend      | amend          | -                 | -

  available  none,gateway,ledger  -     | -         | -         | start         | start after 3,4   | -           | -           | begin+end         | begin+end after 3,4   | amend    | amend      | amend          | begin+end         | begin+end after 3,4
  available  native               -     | -         | -         | start         | start after 3,4   | -           | resume+end  | begin+end         | begin+end after 3,4   | amend    | resume+end | resume+end     | begin+end         | begin+end after 3,4

  active     none,gateway,ledger  live  | -         | -         | start after 2 | start after 2,3,4 | -           | end         | begin+end after 2 | begin+end after 2,3,4 | amend    | end        | refused        | begin+end after 2 | begin+end after 2,3,4
  active     none,gateway,ledger  over  | -         | -         | start after 2 | start after 2,3,4 | -           | end         | begin+end after 2 | begin+end after 2,3,4 | amend    | end        | end            | begin+end after 2 | begin+end after 2,3,4
  active     native               live  | -         | -         | start after 2 | start after 2,3,4 | -           | end         | begin+end after 2 | begin+end after 2,3,4 | amend    | end        | end            | begin+end after 2 | begin+end after 2,3,4
  active     native               over  | -         | -         | start after 2 | start after 2,3,4 | -           | end         | begin+end after 2 | begin+end after 2,3,4 | amend    | end        | end            | begin+end after 2 | begin+end after 2,3,4

  scheduled  any                  -     | -         | -         | promote       | promote after 3,4 | -           | -           | promote+end       | promote+end after 3,4 | amend    | -          | -              | promote+end       | promote+end after 3,4
  retryable  any                  -     | -         | -         | promote       | promote after 3,4 | -           | -           | promote+end       | promote+end after 3,4 | amend    | -          | -              | promote+end       | promote+end after 3,4
`

export const NOW = 1_700_000_000_000

type Row = NonNullable<Parameters<typeof decideReport>[1]>

export interface Cell {
  name: string
  row: Row
  event: ReportedEvent
  expected: Decision
}

const HOLDERS: readonly (Holder | null)[] = [null, 'gateway', 'ledger', 'native']

export const SAID: Record<'started' | 'completed' | 'failed', Said> = {
  started: { event: 'started' },
  completed: { event: 'completed', result: null },
  failed: {
    event: 'failed',
    failure: { code: 'e', type: 'e', message: 'm', retryable: true },
    outcome: null,
  },
}

/** Every cell of the table, once for each holder that its line names. */
export function reportCells(): Cell[] {
  const [heading = '', ...lines] = TABLE.trim()
    .split('\n')
    .filter((line) => line.trim())
  const columns = parts(heading).slice(1)
  return lines.flatMap((line) => {
    const [label = '', ...outcomes] = parts(line)
    return rowsOf(label).flatMap((row) =>
      columns.map((column, index) => cell(row, column, outcomes[index] ?? '')),
    )
  })
}

function parts(line: string): string[] {
  return line.split('|').map((part) => part.trim())
}

function rowsOf(label: string): Row[] {
  const [state = '', holders = '', lease = ''] = label.split(/\s{2,}/)
  const names = (holder: Holder | null) =>
    holders === 'any' || holders.split(',').includes(holder ?? 'none')
  const leaseExpiresAt = { live: NOW + 1, over: NOW }[lease] ?? null
  return HOLDERS.filter(names).map((holder) => ({
    generation: 1,
    state: state as RowState,
    attempt: 2,
    holder,
    workerId: 'w',
    leaseExpiresAt,
    expiresAt: null,
  }))
}

function cell(row: Row, column: string, outcome: string): Cell {
  const [verb = '', attempt, other] = column.split(' ')
  const lease = row.leaseExpiresAt === null ? '' : ` lease ${row.leaseExpiresAt - NOW}`
  return {
    name: `${row.state} (${row.holder ?? 'none'})${lease}, ${column} → ${outcome}`,
    row,
    event: {
      id: 'a',
      generation: 1,
      attempt: Number(attempt),
      workerId: other ?? 'w',
      said: SAID[verb as keyof typeof SAID],
    },
    expected: toDecision(verb, outcome),
  }
}

function toDecision(verb: string, outcome: string): Decision {
  const [what = '', , list] = outcome.split(' ')
  const skipped = list ? list.split(',').map(Number) : []
  const end = verb === 'completed' ? 'complete' : 'fail'
  switch (what) {
    case '-':
      return { do: 'ignore' }
    case 'refused':
      return { do: 'refuse' }
    case 'amend':
      return { do: 'amend' }
    case 'start':
    case 'promote':
      return { do: 'start', begins: { skipped, promote: what === 'promote' } }
    case 'end':
      return { do: end, begins: null }
    case 'resume+end':
      return { do: end, begins: 'resumed' }
    case 'begin+end':
    case 'promote+end':
      return { do: end, begins: { skipped, promote: what === 'promote+end' } }
    default:
      throw new Error(`no such cell: ${outcome}`)
  }
}
