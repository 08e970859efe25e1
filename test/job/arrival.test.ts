import { describe, expect, it } from 'vitest'
import { decideArrival } from '../../src/job/arrival.ts'
import { JOB_STATES } from '../../src/job/job.ts'
import { arrivalCells, NOW, WALL } from './arrival-table.ts'

const CELLS = arrivalCells()
const HOLDERS = [null, 'gateway', 'ledger', 'native'] as const

/** Rows for a title with `%s`, because vitest cuts `$name` after 40 characters. */
const NAMED_CELLS = CELLS.map((cell) => [cell.name, cell] as const)

describe('the arrival table', () => {
  it('has a line for every state with every holder', () => {
    const named = new Set(CELLS.map(({ row }) => `${row.state} ${row.holder}`))
    for (const state of [...JOB_STATES, 'withdrawn']) {
      for (const holder of HOLDERS) expect(named).toContain(`${state} ${holder}`)
    }
  })

  it.each(NAMED_CELLS)('%s', (_name, { row, jobMessage, context, expected }) => {
    expect(decideArrival(jobMessage, row, context)).toEqual(expected)
  })

  it('decides the same for a job message of a generation that the ledger does not know yet', () => {
    for (const { row, jobMessage, context, expected } of CELLS) {
      expect(decideArrival({ ...jobMessage, generation: 2 }, row, context)).toEqual(expected)
    }
  })

  it('drops every job message of an older generation, whatever the row says', () => {
    for (const { row, jobMessage, context } of CELLS) {
      expect(decideArrival({ ...jobMessage, generation: 0 }, row, context)).toEqual({ do: 'drop' })
    }
  })

  it('depends on whether the delivery is held only for a job message of the running attempt or an earlier one', () => {
    for (const { row, jobMessage, context, expected } of CELLS) {
      if (row.state === 'active' && jobMessage.attempt <= row.attempt) continue
      const other = { ...context, isHeldDelivery: !context.isHeldDelivery }
      expect(decideArrival(jobMessage, row, other)).toEqual(expected)
    }
  })
})

describe('limits of the arrival table', () => {
  const fresh = {
    generation: 0,
    state: 'available' as const,
    attempt: 0,
    maxAttempts: 3,
    holder: null,
    dueAt: null,
    expiresAt: null,
    deadLetterCopied: false,
  }
  const context = { now: NOW, wall: WALL, isHeldDelivery: false }

  it.each([0, 1])('runs a job with max_attempts %i exactly once', (maxAttempts) => {
    const row = { ...fresh, maxAttempts }
    expect(decideArrival({ generation: 0, attempt: 1 }, row, context)).toMatchObject({ attempt: 1 })
    expect(decideArrival({ generation: 0, attempt: 2 }, row, context).do).toBe('exhaust')
  })

  it("measures a schedule by the wall clock and a retry by the ledger's clock", () => {
    const jobMessage = { generation: 0, attempt: 1 }
    const scheduled = { ...fresh, state: 'scheduled' as const, dueAt: WALL - 1 }
    const retryable = { ...fresh, state: 'retryable' as const, dueAt: NOW + 1000 }
    expect(decideArrival(jobMessage, scheduled, context).do).toBe('claim')
    expect(decideArrival(jobMessage, retryable, context).do).toBe('hold')
  })

  it('records at most 100 skipped attempts, however far a foreign job message jumps ahead', () => {
    const row = { ...fresh, maxAttempts: 2_000_000_000 }
    const arrival = decideArrival({ generation: 0, attempt: 1_000_000_000 }, row, context)
    expect(arrival).toMatchObject({ do: 'claim', attempt: 1_000_000_000 })
    expect('skipped' in arrival && arrival.skipped).toHaveLength(100)
  })
})
