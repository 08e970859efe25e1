import { describe, expect, it } from 'vitest'
import { type Holder, JOB_STATES, type RowState } from '../../../src/job/job.ts'
import { type BeatDecision, decideBeat } from '../../../src/job/native/heartbeat.ts'

/** What a heartbeat of `w` does to a job whose lease is of `w`, of another worker, or of none. */
const TABLE = `
  state      holder               due     | w         | other     | none

  pending    any                  -       | ignore    | ignore    | ignore
  completed  any                  -       | ignore    | ignore    | ignore
  discarded  any                  -       | ignore    | ignore    | ignore
  withdrawn  any                  -       | ignore    | ignore    | ignore
  cancelled  any                  -       | cancelled | cancelled | cancelled
  active     none,gateway,ledger  -       | extend    | ignore    | ignore
  active     native               -       | extend    | ignore    | extend
  available  none,gateway,ledger  -       | start     | start     | start
  available  native               -       | resume    | resume    | resume
  retryable  any                  -1s     | start     | start     | start
  retryable  any                  0.9s    | start     | start     | start
  retryable  any                  1.1s    | ignore    | ignore    | ignore
  scheduled  any                  0s      | start     | start     | start
  scheduled  any                  0.1s    | ignore    | ignore    | ignore
`

const NOW = 1_700_000_000_000
const WALL = NOW + 7_200_000
const HOLDERS: readonly (Holder | null)[] = [null, 'gateway', 'ledger', 'native']

const CELLS = TABLE.trim()
  .split('\n')
  .slice(2)
  .flatMap((line) => {
    const [label = '', ...outcomes] = line.split('|').map((part) => part.trim())
    const [state = '', holders = '', due = ''] = label.split(/\s{2,}/)
    const named = HOLDERS.filter(
      (holder) => holders === 'any' || holders.split(',').includes(holder ?? 'none'),
    )
    const dueMs = Number.parseFloat(due) * 1000
    return named.flatMap((holder) =>
      ['w', 'other', null].map((workerId, index) => ({
        name: `${state} (${holder ?? 'none'}) of ${workerId}, due ${due} → ${outcomes[index]}`,
        row: {
          state: state as RowState,
          holder,
          workerId,
          dueAt: Number.isNaN(dueMs) ? null : (state === 'scheduled' ? WALL : NOW) + dueMs,
        },
        expected: outcomes[index] as BeatDecision,
      })),
    )
  })

/** Rows for a title with `%s`, because vitest cuts `$name` after 40 characters. */
const NAMED_CELLS = CELLS.map((cell) => [cell.name, cell] as const)

describe('the heartbeat of a native worker', () => {
  it('has a line for every state with every holder', () => {
    const named = new Set(CELLS.map(({ row }) => `${row.state} ${row.holder}`))
    for (const state of [...JOB_STATES, 'withdrawn']) {
      for (const holder of HOLDERS) expect(named).toContain(`${state} ${holder}`)
    }
  })

  it.each(NAMED_CELLS)('%s', (_name, { row, expected }) => {
    const named = { workerId: 'w', generation: 2 }
    const times = { now: NOW, wall: WALL }
    expect(decideBeat(named, { ...row, generation: 2 }, times)).toBe(expected)
    // Of an older generation than the row's: it begins nothing, and goes on with nothing.
    const begins = expected === 'start' || expected === 'resume'
    expect(decideBeat(named, { ...row, generation: 3 }, times)).toBe(begins ? 'ignore' : expected)
  })
})
