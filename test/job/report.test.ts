import { describe, expect, it } from 'vitest'
import { JOB_STATES, type JobRow } from '../../src/job/job.ts'
import { decideReport, planFailure, type Said } from '../../src/job/report.ts'
import { NOW, reportCells, SAID } from './report-table.ts'

const CELLS = reportCells()

describe('the report table', () => {
  it('names every state with every holder', () => {
    const named = new Set(CELLS.map(({ row }) => `${row.state} ${row.holder}`))
    for (const state of [...JOB_STATES, 'withdrawn']) {
      for (const holder of [null, 'gateway', 'ledger', 'native']) {
        expect(named).toContain(`${state} ${holder}`)
      }
    }
  })

  it.each(CELLS)('$name', ({ row, event, expected }) => {
    expect(decideReport(event, row, NOW)).toEqual(expected)
  })

  it('is the same where the worker does not name the generation', () => {
    for (const { row, event, expected } of CELLS) {
      expect(decideReport({ ...event, generation: null }, row, NOW)).toEqual(expected)
    }
  })

  it.each([0, 2])('ignores every event of generation %i', (generation) => {
    for (const { row, event } of CELLS) {
      expect(decideReport({ ...event, generation }, row, NOW)).toEqual({ do: 'ignore' })
    }
  })

  it('takes a success from whoever tells of it: the job is done', () => {
    for (const { row, event, expected } of CELLS) {
      if (event.said.event !== 'completed') continue
      expect(decideReport({ ...event, workerId: 'other' }, row, NOW)).toEqual(expected)
    }
  })

  it('ignores that a token was dropped', () => {
    for (const { row, event } of CELLS) {
      const dropped = { ...event, said: { event: 'dropped' } } as const
      expect(decideReport(dropped, row, NOW)).toEqual({ do: 'ignore' })
    }
  })

  it('lets a job expire that waits for that token, or whose native worker had it', () => {
    const waiting = new Set(['available', 'scheduled', 'retryable'])
    for (const { row, event } of CELLS) {
      const late = { ...event, said: { event: 'expired' } } as const
      expect(decideReport(late, row, NOW)).toEqual({ do: 'ignore' })
      const isToken =
        event.attempt > row.attempt || (event.attempt === row.attempt && row.holder === 'native')
      const expected = waiting.has(row.state) && isToken ? 'expire' : 'ignore'
      // By the worker's clock: ours may be behind.
      const expiring = { ...row, expiresAt: NOW + 5 }
      expect(decideReport(late, expiring, NOW)).toEqual({ do: expected })
    }
  })

  it('lets a worker give back what it runs, and nothing of anybody else', () => {
    for (const { row, event } of CELLS) {
      const released = { ...event, said: { event: 'released', tokenAttempt: 1 } } as const
      const isTheirs = row.state === 'active' && event.attempt === 2 && event.workerId === 'w'
      const isWithoutUs = row.holder === 'native' || row.holder === 'ledger'
      const expected = { do: isTheirs && isWithoutUs ? 'release' : 'ignore' }
      expect(decideReport(released, row, NOW)).toEqual(expected)
      expect(decideReport({ ...released, generation: null }, row, NOW)).toEqual(expected)
      expect(decideReport({ ...released, generation: 0 }, row, NOW)).toEqual({ do: 'ignore' })
      // It is available then: said twice, it says nothing.
      const after = { ...row, state: 'available', attempt: 1, workerId: null } as const
      expect(decideReport(released, after, NOW)).toEqual({ do: 'ignore' })
    }
  })

  it('ignores what it does not know', () => {
    for (const { event } of CELLS) {
      expect(decideReport(event, null, NOW)).toEqual({ do: 'ignore' })
    }
  })

  it('never says less about the same thing twice', () => {
    // What has been applied once is old news: the row then is at the event or beyond it.
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

describe('what becomes of a failed attempt', () => {
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

  it('is what the worker has done: a rung, or the ledger', () => {
    const retry = { decision: 'retry', delay_ms: 700 } as const
    const expected = { to: 'retryable', dueAt: NOW + 700, delayMs: 700 }
    const viaRung = failed({ outcome: { ...retry, rung_ms: 700 } })
    expect(planFailure(row(), viaRung, context)).toEqual({ ...expected, rungMs: 700 })
    for (const rung of [{}, { rung_ms: null }]) {
      const held = failed({ outcome: { ...retry, ...rung } })
      expect(planFailure(row(), held, context)).toEqual({ ...expected, rungMs: null })
    }
    // It has counted the attempts itself, and the token is out.
    expect(planFailure(row({}, { attempt: 9 }), viaRung, context).to).toBe('retryable')
  })

  it.each([
    [{}, true],
    [{ on_exhaustion: 'discard' }, false],
  ] as const)('is a discard by the worker, who nacks: %o', (retry, isDeadLetter) => {
    const discard = failed({ outcome: { decision: 'discard' } })
    const plan = planFailure(row(retry), discard, context)
    expect(plan).toEqual({ to: 'discarded', isDeadLetter, copy: 'nack' })
  })

  it('is ours to decide where the worker says nothing: the ledger holds the retry', () => {
    const second = row({}, { attempt: 2 })
    expect(planFailure(second, failed(), context)).toEqual({
      to: 'retryable',
      dueAt: NOW + 2000,
      delayMs: 2000,
      rungMs: null,
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
  ] as const)('and then publishes the copy of what is over (%#)', (of, said, isDeadLetter) => {
    expect(planFailure(of, said, context)).toEqual({
      to: 'discarded',
      isDeadLetter,
      copy: 'publish',
    })
  })
})
