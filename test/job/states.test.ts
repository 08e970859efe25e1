import { describe, expect, it } from 'vitest'
import { JOB_STATES } from '../../src/job/job.ts'
import { type JobEvent, nextState, statesBefore } from '../../src/job/states.ts'

/** Seed 001 §7 as a picture: one line per state, one column per event, `-` = 409. */
const TABLE = `
             activate   promote    claim   complete   retry      discard    cancel     release    expire     revive
  available  -          -          active  -          -          -          cancelled  -          discarded  -
  scheduled  -          available  -       -          -          -          cancelled  -          discarded  -
  pending    available  -          -       -          -          -          cancelled  -          discarded  -
  active     -          -          -       completed  retryable  discarded  cancelled  available  -          -
  retryable  -          available  -       -          -          -          cancelled  -          discarded  -
  completed  -          -          -       -          -          -          -          -          -          -
  cancelled  -          -          -       -          -          -          -          -          -          -
  discarded  -          -          -       -          -          -          -          -          -          available
`

const [heading = '', ...lines] = TABLE.trim().split('\n')
const EVENTS = heading.trim().split(/\s+/) as JobEvent[]
const CELLS = lines.flatMap((line) => {
  const [from = '', ...targets] = line.trim().split(/\s+/)
  return targets.map((to, column) => ({ from, event: EVENTS[column] as JobEvent, to }))
})

describe('the transition table', () => {
  it('is covered: every state with every event', () => {
    const states = new Set(CELLS.map((cell) => cell.from))
    expect(states).toEqual(new Set(JOB_STATES))
    expect(CELLS).toHaveLength(JOB_STATES.length * 10)
  })

  it.each(CELLS)('$from + $event → $to', ({ from, event, to }) => {
    const state = JOB_STATES.find((known) => known === from)
    expect(state && nextState(state, event)).toBe(to === '-' ? null : to)
  })

  it.each(EVENTS)('lists the states before %s', (event) => {
    const expected = CELLS.filter((cell) => cell.event === event && cell.to !== '-')
    expect(new Set<string>(statesBefore(event))).toEqual(new Set(expected.map((c) => c.from)))
  })
})
