import { describe, expect, it } from 'vitest'
import { brokerFailure, mayDie } from '../../src/job/dead-letter.ts'
import type { Holder, RowState } from '../../src/job/job.ts'

const NOW = 1_700_000_000_000
const WALL = NOW + 7_200_000
const CONTEXT = { now: NOW, wall: WALL }
const REJECTED = { wasInQueue: false }

/**
 * The row is at attempt 2 of generation 1; the columns are the attempt of the dead job message. `dies`:
 * the job is discarded; `-`: the dead letter is acknowledged and the job lives on.
 */
const TABLE = `
  state      holder               condition  | 1 | 2    | 3    | 4

  available  none,gateway,ledger  -          | - | -    | dies | dies
  available  native               -          | dies | dies | dies | dies
  active     none,gateway,ledger  -          | - | -    | -    | -
  active     native               -          | dies | dies | dies | dies
  retryable  any                  due        | - | -    | dies | dies
  retryable  any                  drift      | - | -    | dies | dies
  retryable  any                  early      | - | -    | -    | -
  retryable  any                  queued     | - | -    | dies | dies
  scheduled  any                  due        | - | -    | dies | dies
  scheduled  any                  early      | - | -    | -    | -
  scheduled  any                  queued     | - | -    | dies | dies
  pending    any                  -          | - | -    | -    | -
  completed  any                  -          | - | -    | -    | -
  cancelled  any                  -          | - | -    | -    | -
  cancelled  any                  queued     | - | -    | -    | -
  discarded  any                  -          | - | -    | -    | -
  withdrawn  any                  -          | - | -    | -    | -
`

const HOLDERS: readonly (Holder | null)[] = [null, 'gateway', 'ledger', 'native']
const CELLS = TABLE.trim()
  .split('\n')
  .slice(1)
  .filter((line) => line.trim())
  .flatMap((line) => {
    const [label = '', ...outcomes] = line.split('|').map((part) => part.trim())
    const [state = '', holders = '', condition = ''] = label.split(/\s{2,}/)
    const base = state === 'scheduled' ? WALL : NOW
    // Timers drift: a retry queue may fire up to a second early by the ledger's clock.
    const earlyMs =
      { drift: 1_000, early: state === 'scheduled' ? 1 : 1_001, queued: 60_000 }[condition] ?? 0
    const dueAt = condition === '-' ? null : base + earlyMs
    const retryQueueMs = condition === 'queued' ? 60_000 : null
    return HOLDERS.filter((holder) => named(holders, holder)).flatMap((holder) =>
      outcomes.map((outcome, index) => ({
        name: `${state} (${holder ?? 'none'}) ${condition}, n ${index + 1} → ${outcome}`,
        row: { generation: 1, state: state as RowState, attempt: 2, holder, dueAt, retryQueueMs },
        attempt: index + 1,
        dies: outcome === 'dies',
      })),
    )
  })

function named(holders: string, holder: Holder | null): boolean {
  return holders === 'any' || holders.split(',').includes(holder ?? 'none')
}

/** Rows for a title with `%s`, because vitest cuts `$name` after 40 characters. */
const NAMED_CELLS = CELLS.map((cell) => [cell.name, cell] as const)

describe('whether a job dies with its job message', () => {
  it.each(NAMED_CELLS)('%s', (_name, { row, attempt, dies }) => {
    expect(mayDie({ ...REJECTED, generation: 1, attempt }, row, CONTEXT)).toBe(dies)
  })

  it.each(NAMED_CELLS)('dropped by its queue: %s', (_name, { row, attempt, dies }) => {
    // The native worker that runs the job holds another job message, or has lost this one.
    const isRunning = row.state === 'active' && attempt <= row.attempt
    const dropped = { generation: 1, attempt, wasInQueue: true }
    expect(mayDie(dropped, row, CONTEXT)).toBe(dies && !isRunning)
  })

  it.each([0, 2])('never for a job message of generation %i', (generation) => {
    for (const { row, attempt } of CELLS) {
      expect(mayDie({ ...REJECTED, generation, attempt }, row, CONTEXT)).toBe(false)
    }
  })

  it('treats a missing due time as due', () => {
    const row = {
      generation: 0,
      state: 'retryable' as const,
      attempt: 1,
      holder: null,
      dueAt: null,
      retryQueueMs: null,
    }
    expect(mayDie({ ...REJECTED, generation: 0, attempt: 2 }, row, CONTEXT)).toBe(true)
  })
})

describe('the error record of a job whose job message died in the broker', () => {
  it.each(['rejected', 'expired', 'maxlen', 'delivery_limit'] as const)(
    'has the code %s',
    (reason) => {
      const failure = brokerFailure(reason)
      expect(failure).toMatchObject({ code: reason, type: reason, retryable: false })
      expect(failure.message.length).toBeGreaterThan(20)
    },
  )
})
