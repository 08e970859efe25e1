import { describe, expect, it } from 'vitest'
import { JOB_STATES, type JobRow } from '../../../src/job/job.ts'
import {
  boundAttempt,
  decideReport,
  planFailure,
  type Said,
} from '../../../src/job/native/report.ts'
import { NOW, reportCells, SAID } from '../report-table.ts'

const CELLS = reportCells()

/** Rows for a title with `%s`, because vitest cuts `$name` after 40 characters. */
const NAMED_CELLS = CELLS.map((cell) => [cell.name, cell] as const)

describe('the report table', () => {
  it('has a line for every state with every holder', () => {
    const named = new Set(CELLS.map(({ row }) => `${row.state} ${row.holder}`))
    for (const state of [...JOB_STATES, 'withdrawn']) {
      for (const holder of [null, 'gateway', 'ledger', 'native']) {
        expect(named).toContain(`${state} ${holder}`)
      }
    }
  })

  it.each(NAMED_CELLS)('%s', (_name, { row, event, expected }) => {
    expect(decideReport(event, row, NOW)).toEqual(expected)
  })

  it('decides the same when the worker does not name the generation', () => {
    for (const { row, event, expected } of CELLS) {
      expect(decideReport({ ...event, generation: null }, row, NOW)).toEqual(expected)
    }
  })

  it.each([0, 2])('ignores every event of generation %i', (generation) => {
    for (const { row, event } of CELLS) {
      expect(decideReport({ ...event, generation }, row, NOW)).toEqual({ do: 'ignore' })
    }
  })

  it('accepts no event about a job that another worker has leased over HTTP, and else from any', () => {
    for (const { row, event, expected } of CELLS) {
      if (event.workerId !== 'w') continue
      const isLeased = row.state === 'active' && row.holder !== 'native'
      const isRefused = isLeased && row.leaseExpiresAt === NOW + 1 && event.attempt >= row.attempt
      const decided = decideReport({ ...event, workerId: 'other' }, row, NOW)
      expect(decided).toEqual(isRefused ? { do: 'refuse' } : expected)
    }
  })

  it.each<[Partial<JobRow>, number, number]>([
    [{ state: 'available', attempt: 0, maxAttempts: 3 }, 3, 3],
    [{ state: 'available', attempt: 0, maxAttempts: 3 }, 2 ** 31 - 1, 3],
    [{ state: 'active', attempt: 3, maxAttempts: 3 }, 4, 3],
    [{ state: 'active', attempt: 1, maxAttempts: 0 }, 9, 1],
    // Adopted from a job message with an attempt beyond its last.
    [{ state: 'available', attempt: 4, maxAttempts: 3 }, 5, 5],
    [{ state: 'active', attempt: 5, maxAttempts: 3 }, 6, 5],
  ])('takes, for %o, attempt %i for %i', (row, attempt, expected) => {
    const event = { id: 'j', generation: 0, attempt, workerId: 'w', said: SAID.started }
    expect(boundAttempt(event, row as JobRow).attempt).toBe(expected)
  })

  it('ignores that a job message was dropped', () => {
    for (const { row, event } of CELLS) {
      const dropped = { ...event, said: { event: 'dropped' } } as const
      expect(decideReport(dropped, row, NOW)).toEqual({ do: 'ignore' })
    }
  })

  it('expires an expired job that waits for that job message, or whose native worker had it', () => {
    const waiting = new Set(['available', 'scheduled', 'retryable'])
    for (const { row, event } of CELLS) {
      const late = { ...event, said: { event: 'expired' } } as const
      expect(decideReport(late, row, NOW)).toEqual({ do: 'ignore' })
      const isJobMessage =
        event.attempt > row.attempt || (event.attempt === row.attempt && row.holder === 'native')
      const expected = waiting.has(row.state) && isJobMessage ? 'expire' : 'ignore'
      // Past by the worker's clock, which may be ahead of the gateway's.
      const expiring = { ...row, expiresAt: NOW + 5 }
      expect(decideReport(late, expiring, NOW)).toEqual({ do: expected })
    }
  })

  it('releases a job for the worker that runs it, and for no other', () => {
    for (const { row, event } of CELLS) {
      const released = { ...event, said: { event: 'released', messageAttempt: 1 } } as const
      const isTheirs = row.state === 'active' && event.attempt === 2 && event.workerId === 'w'
      const isWithoutUs = row.holder === 'native' || row.holder === 'ledger'
      const expected = { do: isTheirs && isWithoutUs ? 'release' : 'ignore' }
      expect(decideReport(released, row, NOW)).toEqual(expected)
      expect(decideReport({ ...released, generation: null }, row, NOW)).toEqual(expected)
      expect(decideReport({ ...released, generation: 0 }, row, NOW)).toEqual({ do: 'ignore' })
      // The job is available afterwards, so a repeated report is ignored.
      const after = { ...row, state: 'available', attempt: 1, workerId: null } as const
      expect(decideReport(released, after, NOW)).toEqual({ do: 'ignore' })
    }
  })

  it('ignores reports of unknown jobs', () => {
    for (const { event } of CELLS) {
      expect(decideReport(event, null, NOW)).toEqual({ do: 'ignore' })
    }
  })

  it('ignores an event that was applied already', () => {
    // After the first application, the row is at the event or beyond it.
    for (const { row, event } of CELLS) {
      const at = { ...row, state: 'active', holder: 'native', attempt: event.attempt } as const
      if (event.said.event === 'started') {
        expect(decideReport(event, at, NOW)).toEqual({ do: 'ignore' })
      }
      const over = { ...at, state: 'retryable', holder: null } as const
      expect(decideReport(event, over, NOW)).toEqual({ do: 'ignore' })
    }
  })
})

describe('the change for a failed attempt', () => {
  const row = (retry: object = {}, over: Partial<JobRow> = {}) =>
    ({
      attempt: 1,
      maxAttempts: 3,
      holder: 'native',
      envelope: JSON.stringify({ retry: { jitter: false, ...retry } }),
      ...over,
    }) as JobRow
  const failed = (over: Partial<Extract<Said, { event: 'failed' }>> = {}) => ({
    ...(SAID.failed as Extract<Said, { event: 'failed' }>),
    ...over,
  })
  const context = { now: NOW, random: () => 0.5 }

  it("follows the worker's decision: a retry in a retry queue, or one that the ledger holds", () => {
    const retry = { decision: 'retry', delay_ms: 700 } as const
    const expected = { to: 'retryable', dueAt: NOW + 700, delayMs: 700 }
    const viaRetryQueue = failed({ outcome: { ...retry, rung_ms: 700 } })
    expect(planFailure(row(), viaRetryQueue, context)).toEqual({ ...expected, retryQueueMs: 700 })
    for (const retryQueue of [{}, { rung_ms: null }]) {
      const held = failed({ outcome: { ...retry, ...retryQueue } })
      expect(planFailure(row(), held, context)).toEqual({ ...expected, retryQueueMs: null })
    }
    // The worker has counted the attempts itself, and has published the next job message.
    expect(planFailure(row({}, { attempt: 9 }), viaRetryQueue, context).to).toBe('retryable')
  })

  it.each([
    [{}, true],
    [{ on_exhaustion: 'discard' }, false],
  ] as const)(
    'is a discard by the worker, whose nack makes the copy: %o',
    (retry, isDeadLetter) => {
      const discard = failed({ outcome: { decision: 'discard' } })
      const plan = planFailure(row(retry), discard, context)
      expect(plan).toEqual({ to: 'discarded', isDeadLetter, copy: 'nack' })
    },
  )

  it('is a retry that the ledger holds when the worker decided nothing', () => {
    const second = row({}, { attempt: 2 })
    expect(planFailure(second, failed(), context)).toEqual({
      to: 'retryable',
      dueAt: NOW + 2000,
      delayMs: 2000,
      retryQueueMs: null,
    })
  })

  it.each([
    [row({}, { attempt: 3 }), failed(), true],
    [row({ on_exhaustion: 'discard' }, { attempt: 3 }), failed(), false],
    [row({ non_retryable_errors: ['e'] }), failed(), true],
    [
      row(),
      failed({ failure: { code: 'DISCARD', type: 'x', message: '', retryable: true } }),
      false,
    ],
  ] as const)(
    'is a discard with a published copy when the worker decided nothing and no attempt is left (%#)',
    (of, said, isDeadLetter) => {
      expect(planFailure(of, said, context)).toEqual({
        to: 'discarded',
        isDeadLetter,
        copy: 'publish',
      })
    },
  )
})
