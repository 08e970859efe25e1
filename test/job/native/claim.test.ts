import { describe, expect, it } from 'vitest'
import { type Holder, JOB_STATES, type RowState } from '../../../src/job/job.ts'
import { decideNativeClaim, type NativeClaimDecision } from '../../../src/job/native/claim.ts'

/**
 * The decision about a redelivered job message that the native worker `w` claims, cell by cell. The row is at
 * attempt 2 of 5, generation 1, leased to another worker unless `mine`; the columns are the job message's
 * attempt. `over`: the lease has run out. `drop!`: drop, and hand the lease to the ledger. `drop.`: drop, and
 * the job message is back.
 */
const TABLE = `
  state      holder               condition       | 1     | 2       | 3       | 6

  pending    any                  -               | drop  | drop    | drop    | drop
  completed  any                  -               | drop. | drop.   | drop.   | drop.
  cancelled  any                  -               | drop. | drop.   | drop.   | drop.
  withdrawn  any                  -               | drop. | drop.   | drop.   | drop.
  discarded  any                  copied          | drop. | drop.   | drop.   | drop.
  discarded  any                  -               | discard | discard | discard | discard

  available  none,gateway,ledger  -               | drop  | drop    | run 3   | discard
  available  none,gateway,ledger  last            | drop  | drop    | discard | discard
  available  none,gateway,ledger  expired         | drop  | drop    | discard | discard
  available  native               -               | run 3 | run 3   | run 3   | discard
  available  native               last            | discard | discard | discard | discard
  available  native               expired         | discard | discard | discard | discard
  scheduled  any                  -               | drop  | drop    | run 3   | discard
  scheduled  any                  expired         | drop  | drop    | discard | discard
  retryable  any                  -               | drop  | drop    | run 3   | discard
  retryable  any                  last            | drop  | drop    | discard | discard

  active     none,gateway         -               | drop  | drop!   | drop    | drop
  active     none,gateway         last, expired   | drop  | drop!   | drop    | drop
  active     none,gateway         mine            | drop  | run 3   | drop    | drop
  active     none,gateway         over            | drop  | run 3   | run 3   | discard
  active     none,gateway         over, last      | drop  | discard | discard | discard
  active     ledger               -               | drop  | drop    | drop    | drop
  active     ledger               mine            | drop  | drop    | drop    | drop
  active     ledger               over            | drop  | drop    | run 3   | discard
  active     ledger               over, last      | drop  | drop    | discard | discard
  active     native               -               | drop! | drop!   | run 3   | discard
  active     native               mine            | run 3 | run 3   | run 3   | discard
  active     native               mine, last      | discard | discard | discard | discard
  active     native               over            | run 3 | run 3   | run 3   | discard
  active     native               over, expired   | discard | discard | discard | discard
`

const NOW = 1_700_000_000_000
const WALL = NOW + 7_200_000
const CONTEXT = { now: NOW, wall: WALL, isTombstoned: false, isHeldHere: false }
const HOLDERS: readonly (Holder | null)[] = [null, 'gateway', 'ledger', 'native']

const [heading = '', ...lines] = TABLE.trim()
  .split('\n')
  .filter((line) => line.trim())
const columns = heading.split('|').slice(1).map(Number)

const CELLS = lines.flatMap((line) => {
  const [label = '', ...outcomes] = line.split('|').map((part) => part.trim())
  const [state = '', holders = '', condition = ''] = label.split(/\s{2,}/)
  const named = HOLDERS.filter(
    (holder) => holders === 'any' || holders.split(',').includes(holder ?? 'none'),
  )
  return named.flatMap((holder) =>
    columns.map((attempt, index) => ({
      name: `${state} (${holder ?? 'none'}) ${condition}, ${attempt} → ${outcomes[index]}`,
      row: {
        generation: 1,
        state: state as RowState,
        attempt: 2,
        maxAttempts: condition.includes('last') ? 2 : 5,
        holder,
        workerId: condition.includes('mine') ? 'w' : 'other',
        leaseExpiresAt: state !== 'active' ? null : condition.includes('over') ? NOW : NOW + 1,
        expiresAt: condition.includes('expired') ? WALL : WALL + 1,
        deadLetterCopied: condition.includes('copied'),
      },
      jobMessage: { generation: 1, attempt, workerId: 'w' },
      expected: toDecision(outcomes[index] ?? ''),
    })),
  )
})

function toDecision(outcome: string): NativeClaimDecision {
  const [verb, attempt] = outcome.split(' ')
  if (verb === 'run') return { decision: 'run', attempt: Number(attempt) }
  if (verb === 'discard') return { decision: 'discard' }
  return { decision: 'drop', handOver: verb === 'drop!', isOver: verb === 'drop.' }
}

/** Rows for a title with `%s`, because vitest cuts `$name` after 40 characters. */
const NAMED_CELLS = CELLS.map((cell) => [cell.name, cell] as const)

describe('the claim of a native worker', () => {
  it('has a line for every state with every holder', () => {
    const named = new Set(CELLS.map(({ row }) => `${row.state} ${row.holder}`))
    for (const state of [...JOB_STATES, 'withdrawn']) {
      for (const holder of HOLDERS) expect(named).toContain(`${state} ${holder}`)
    }
  })

  it.each(NAMED_CELLS)('%s', (_name, { row, jobMessage, expected }) => {
    expect(decideNativeClaim(jobMessage, row, CONTEXT)).toEqual(expected)
  })

  it('drops every job message of an older generation', () => {
    for (const { row, jobMessage } of CELLS) {
      const old = decideNativeClaim({ ...jobMessage, generation: 0 }, row, CONTEXT)
      expect(old).toEqual({ decision: 'drop', handOver: false, isOver: false })
    }
  })

  it('decides the same for a job message of a generation that the ledger does not know yet', () => {
    for (const { row, jobMessage, expected } of CELLS) {
      expect(decideNativeClaim({ ...jobMessage, generation: 2 }, row, CONTEXT)).toEqual(expected)
    }
  })

  it('runs a job with max_attempts 0 once', () => {
    const isFirst = ({ row }: (typeof CELLS)[number]) => row.state === 'available' && !row.holder
    const [first] = CELLS.filter(isFirst)
    if (!first) throw new Error('no such cell')
    const row = { ...first.row, attempt: 0, maxAttempts: 0 }
    const claims = [1, 2].map((attempt) =>
      decideNativeClaim({ ...first.jobMessage, attempt }, row, CONTEXT),
    )
    expect(claims).toEqual([{ decision: 'run', attempt: 1 }, { decision: 'discard' }])
  })

  it('hands no lease to the ledger while this gateway holds the delivery of its job message', () => {
    for (const { row, jobMessage, expected } of CELLS) {
      const decision = decideNativeClaim(jobMessage, row, { ...CONTEXT, isHeldHere: true })
      expect(decision).toEqual(
        expected.decision === 'drop' ? { ...expected, handOver: false } : expected,
      )
    }
  })

  it('runs an unknown job, unless it was cancelled before it came', () => {
    const jobMessage = { generation: 0, attempt: 4, workerId: 'w' }
    expect(decideNativeClaim(jobMessage, null, CONTEXT)).toEqual({ decision: 'run', attempt: 4 })
    const tombstoned = { ...CONTEXT, isTombstoned: true }
    expect(decideNativeClaim(jobMessage, null, tombstoned).decision).toBe('drop')
  })
})
