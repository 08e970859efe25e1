import { describe, expect, it } from 'vitest'
import { decideArrival, recordSkipped } from '../../src/job/arrival.ts'
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

  it.each(NAMED_CELLS)('%s', (_name, { row, token, context, expected }) => {
    expect(decideArrival(token, row, context)).toEqual(expected)
  })

  it('decides the same for a token of a generation that the ledger does not know yet', () => {
    for (const { row, token, context, expected } of CELLS) {
      expect(decideArrival({ ...token, generation: 2 }, row, context)).toEqual(expected)
    }
  })

  it('drops every token of an older generation, whatever the row says', () => {
    for (const { row, token, context } of CELLS) {
      expect(decideArrival({ ...token, generation: 0 }, row, context)).toEqual({ do: 'drop' })
    }
  })

  it('depends on whether the delivery is held only for a token of the running attempt or an earlier one', () => {
    for (const { row, token, context, expected } of CELLS) {
      if (row.state === 'active' && token.attempt <= row.attempt) continue
      const other = { ...context, isHeldDelivery: !context.isHeldDelivery }
      expect(decideArrival(token, row, other)).toEqual(expected)
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
    const token = { generation: 0, attempt: 1 }
    const scheduled = { ...fresh, state: 'scheduled' as const, dueAt: WALL - 1 }
    const retryable = { ...fresh, state: 'retryable' as const, dueAt: NOW + 1000 }
    expect(decideArrival(token, scheduled, context).do).toBe('claim')
    expect(decideArrival(token, retryable, context).do).toBe('hold')
  })

  it('records at most 100 skipped attempts, however far a foreign token jumps ahead', () => {
    const row = { ...fresh, maxAttempts: 2_000_000_000 }
    const arrival = decideArrival({ generation: 0, attempt: 1_000_000_000 }, row, context)
    expect(arrival).toMatchObject({ do: 'claim', attempt: 1_000_000_000 })
    expect('skipped' in arrival && arrival.skipped).toHaveLength(100)
  })
})

describe('the record of skipped attempts', () => {
  const said = { code: 'smtp_down', message: 'no route' }

  it('does not change when no attempt was skipped', () => {
    expect(recordSkipped('[1]', [], said, NOW)).toEqual({ errors: '[1]', last: null })
  })

  it('has one more entry for each skipped attempt, the newest with what the token reported', () => {
    const { errors, last } = recordSkipped('[{"attempt":1}]', [2, 3], said, NOW)
    const occurred = '2023-11-14T22:13:20.000Z'
    const newest = {
      attempt: 3,
      code: 'smtp_down',
      type: 'smtp_down',
      message: 'no route',
      retryable: true,
      occurred_at: occurred,
      timestamp: occurred,
    }
    const silent = {
      attempt: 2,
      code: 'unreported',
      type: 'unreported',
      message: 'Attempt 2 ended without a report.',
      retryable: true,
      occurred_at: occurred,
      timestamp: occurred,
    }
    expect(JSON.parse(errors ?? '')).toEqual([{ attempt: 1 }, silent, newest])
    expect(JSON.parse(last ?? '')).toEqual(newest)
  })

  it('cuts a code to 255 characters', () => {
    const { last } = recordSkipped(null, [1], { code: 'c'.repeat(5_000), message: '' }, NOW)
    const { code, type } = JSON.parse(last ?? '')
    expect([code.length, type]).toEqual([255, code])
  })

  it('keeps the newest 50', () => {
    const hundred = Array.from({ length: 100 }, (_, index) => index + 1)
    const { errors } = recordSkipped(null, hundred, null, NOW)
    const attempts = (JSON.parse(errors ?? '') as { attempt: number }[]).map((e) => e.attempt)
    expect(attempts).toEqual(hundred.slice(50))
  })
})
