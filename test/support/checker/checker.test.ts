import { describe, expect, test } from 'vitest'
import { check, type Evidence, Journal, type LedgerRow, report, resultFor } from './checker.ts'

const NOW = 1_000_000_000

describe('check() of a run in which every promise was kept', () => {
  test('finds no problems', () => {
    expect(check(evidence()).problems).toEqual([])
  })

  test('leads to a report() with the numbers of pushes', () => {
    const journal = finished('a')
    push(journal, 'b', 'refused')
    const verdict = check(evidence({ journal }))
    expect(report('gateway killed', verdict)).toContain('pushed 2, answered 2xx 1, refused 1')
  })

  test('accepts that a job whose PUSH was not answered exists or not', () => {
    const journal = finished('a')
    push(journal, 'b', 'unknown')
    expect(check(evidence({ journal })).problems).toEqual([])
    const rows = [completed('a'), row('b', 'available', { attempt: 0 })]
    expect(check(evidence({ journal, rows, jobMessages: ['b'] })).problems).toEqual([])
  })

  test('accepts as many second executions as were in flight', () => {
    const journal = finished('a')
    journal.executed('a')
    const verdict = check(evidence({ journal, inFlight: { publishes: 1, retries: 0, leases: 0 } }))
    expect(verdict).toMatchObject({ executedTwice: 1, problems: [] })
  })

  test('accepts one more execution for each failure and for each lease that ran out', () => {
    const journal = failedOnce('a', 3)
    journal.abandon('a')
    const verdict = check(evidence({ journal, rows: [{ ...completed('a'), attempt: 3 }] }))
    expect(verdict).toMatchObject({ failed: 1, executedTwice: 0, problems: [] })
  })

  test('accepts a second execution for a retry publish that was in flight', () => {
    const inFlight = { publishes: 0, retries: 1, leases: 0 }
    const rows = [{ ...completed('a'), attempt: 2 }]
    const verdict = check(evidence({ journal: failedOnce('a', 3), rows, inFlight }))
    expect(verdict).toMatchObject({ executedTwice: 1, bound: 1, problems: [] })
  })

  test('accepts that a batch whose answer was lost exists as a whole or not at all', () => {
    const journal = batch('a', 'b')
    expect(check(evidence({ journal, rows: [], kept: {} })).problems).toEqual([])
    const rows = [row('a', 'available', { attempt: 0 }), row('b', 'available', { attempt: 0 })]
    expect(check(evidence({ journal, rows, jobMessages: ['a', 'b'] })).problems).toEqual([])
  })

  test('accepts a retry that waits for its time', () => {
    const rows = [row('a', 'retryable', { attempt: 0, dueAt: NOW + 100 })]
    expect(check(evidence({ journal: accepted('a'), rows })).problems).toEqual([])
  })

  test('accepts as many leases without a worker as FETCH answers were lost', () => {
    const journal = accepted('a')
    journal.lostFetchAnswers = 1
    const rows = [row('a', 'active', { leaseExpiresAt: NOW + 1000 })]
    expect(check(evidence({ journal, rows })).problems).toEqual([])
  })
})

describe('check() reports', () => {
  const broken: Record<string, Partial<Evidence>> = {
    'nothing was in flight': { inFlight: { publishes: 0, retries: 0, leases: 0 } },
    'answered 2xx and lost': { rows: [] },
    'available without a job message': { journal: accepted('a'), rows: [row('a', 'available')] },
    'ACK answered 2xx and not completed': { rows: [row('a', 'available')], jobMessages: ['a'] },
    'without an ACK of its own': { journal: accepted('a') },
    "another job's result": {
      rows: [{ ...completed('a'), result: JSON.stringify(resultFor('b')) }],
    },
    'but active': { rows: [row('a', 'active', { leaseExpiresAt: NOW + 1000 })] },
    'leased to nobody': { journal: accepted('a'), rows: [row('a', 'active')] },
    'in a lease that ended': {
      journal: accepted('a'),
      rows: [row('a', 'active', { leaseExpiresAt: NOW - 70_000 })],
    },
    'retryable and past due': {
      journal: accepted('a'),
      rows: [row('a', 'retryable', { attempt: 0, dueAt: NOW - 6_000 })],
      jobMessages: ['b'],
    },
    'past due by more than 60 s': {
      journal: accepted('a'),
      rows: [row('a', 'scheduled', { attempt: 0, dueAt: NOW - 70_000 })],
    },
    'of a batch': {
      journal: batch('a', 'b'),
      rows: [row('a', 'available', { attempt: 0 }), row('b', 'withdrawn', { attempt: 0 })],
      jobMessages: ['a'],
    },
    'fewer attempts than were made': { journal: failedOnce('a') },
    'attempts that no worker made': { rows: [{ ...completed('a'), attempt: 2 }] },
    'discarded with attempts left': { rows: [row('a', 'discarded', { attempt: 2 })] },
    'a job that is over': { jobMessages: ['a'] },
    '1 rows are completed, kept count 0': { kept: {} },
    '0 rows are active, kept count 2': { kept: { completed: 1, active: 2 } },
    'refused and there': { journal: refused('a') },
    'refused and executed': { journal: refused('a', { isExecuted: true }), rows: [] },
    'executions too many': { journal: executedAgain('a', 4) },
    'what nobody should have seen': { journal: complaining('what nobody should have seen') },
  }

  test.each(Object.entries(broken))('%s', (problem, change) => {
    expect(check(evidence(change)).problems.join('\n')).toContain(problem)
  })

  test('a withdrawn job as lost', () => {
    const verdict = check(evidence({ rows: [row('a', 'withdrawn')] }))
    expect(verdict.problems.join('\n')).toContain('answered 2xx and lost')
  })
})

function evidence(change: Partial<Evidence> = {}): Evidence {
  const rows = change.rows ?? [completed('a')]
  const states = rows.map(({ state }) => state).filter((state) => state !== 'withdrawn')
  const kept = Object.fromEntries(
    states.map((state) => [state, states.filter((other) => other === state).length]),
  )
  const usual = { journal: finished('a'), rows, kept, jobMessages: [], now: NOW }
  return { ...usual, inFlight: { publishes: 1, retries: 1, leases: 1 }, ...change }
}

function finished(id: string): Journal {
  const journal = accepted(id)
  journal.executed(id)
  journal.acking(id)
  journal.acked(id)
  return journal
}

function accepted(id: string): Journal {
  const journal = new Journal()
  push(journal, id, 'accepted')
  return journal
}

function refused(id: string, { isExecuted = false } = {}): Journal {
  const journal = new Journal()
  push(journal, id, 'refused')
  if (isExecuted) journal.executed(id)
  return journal
}

function executedAgain(id: string, times: number): Journal {
  const journal = finished(id)
  for (let i = 0; i < times; i++) journal.executed(id)
  return journal
}

/** A job that its worker failed once, and then completed. */
function failedOnce(id: string, executions = 2): Journal {
  const journal = finished(id)
  for (let i = 1; i < executions; i++) journal.executed(id)
  journal.failing(id)
  return journal
}

/** A batch whose answer was lost. */
function batch(...ids: string[]): Journal {
  const journal = new Journal()
  journal.pushingBatch(ids)
  return journal
}

function complaining(text: string): Journal {
  const journal = finished('a')
  journal.complain(text)
  return journal
}

function push(journal: Journal, id: string, outcome: 'accepted' | 'refused' | 'unknown'): void {
  journal.pushing(id)
  journal.pushed(id, outcome)
}

function completed(id: string): LedgerRow {
  return { ...row(id, 'completed'), result: JSON.stringify(resultFor(id)) }
}

function row(id: string, state: string, change: Partial<LedgerRow> = {}): LedgerRow {
  const usual = {
    attempt: 1,
    maxAttempts: 3,
    result: null,
    outbox: null,
    dueAt: null,
    leaseExpiresAt: null,
  }
  return { id, state, ...usual, ...change }
}
