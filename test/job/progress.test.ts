import { describe, expect, test } from 'vitest'
import { noted, type ProgressNote, shownProgress } from '../../src/job/progress.ts'

const ATTEMPT = { generation: 0, attempt: 1 }
const said = (progress: number | null, more: object = {}) => ({
  progress,
  data: null,
  message: null,
  ...more,
})
const at = (now: number, progress: number | null, before: ProgressNote | null = null) =>
  noted(before, ATTEMPT, said(progress), now)

describe('PRG-002: progress is a number from 0 to 1', () => {
  test.each([
    [1.5, 1],
    [-3, 0],
    [0, 0],
    [0.25, 0.25],
  ])('%d is noted as %d', (given, kept) => expect(at(0, given).note.progress).toBe(kept))
})

describe('PRG-003: progress never decreases within an attempt', () => {
  test('a lower number is ignored; the message and data of its report are not', () => {
    const { note } = at(0, 0.7)
    const lower = said(0.2, { message: 'back', data: '{"a":1}' })
    expect(noted(note, ATTEMPT, lower, 1).note).toMatchObject({
      progress: 0.7,
      message: 'back',
      data: '{"a":1}',
      updatedAt: 1,
    })
  })

  test('what a report leaves out stays', () => {
    const { note } = noted(null, ATTEMPT, said(0.5, { message: 'm', data: '{}' }), 0)
    expect(noted(note, ATTEMPT, said(null), 1).note).toMatchObject({ ...note, updatedAt: 1 })
  })

  test.each([
    { generation: 0, attempt: 2 },
    { generation: 1, attempt: 1 },
  ])('another attempt begins without progress: %j', (next) => {
    const { note } = noted(null, ATTEMPT, said(0.9, { message: 'm', data: '{}' }), 0)
    expect(noted(note, next, said(0.1), 1).note).toMatchObject({
      ...next,
      progress: 0.1,
      message: null,
      data: null,
    })
  })
})

test('events come no faster than one a second, whatever the pace of the reports', () => {
  let note: ProgressNote | null = null
  const told: number[] = []
  for (let now = 10_000; now <= 13_000; now += 100) {
    const next = noted(note, ATTEMPT, said(0.5), now)
    note = next.note
    if (next.isTold) told.push(now)
  }
  expect(told).toEqual([10_000, 11_000, 12_000, 13_000])
})

test('an event is due at once when the clock was set back', () => {
  const { note } = at(10_000, 0.1)
  expect(at(10_999, 0.2, note).isTold).toBe(false)
  expect(at(9_999, 0.2, note)).toMatchObject({ isTold: true, note: { toldAt: 9_999 } })
  expect(at(10_000, 0.2, note)).toMatchObject({ isTold: false, note: { toldAt: 10_000 } })
})

describe('what is shown', () => {
  const { note } = at(0, 0.4)
  const row = (state: 'active' | 'completed' | 'retryable' | 'discarded', attempt = 1) => ({
    state,
    attempt,
    generation: 0,
  })
  test('PRG-005: a completed job is at 1, if it has said how far it was', () => {
    expect(shownProgress(row('completed'), note)?.progress).toBe(1)
    const silent = noted(null, ATTEMPT, said(null, { message: 'm' }), 0).note
    expect(shownProgress(row('completed'), silent)?.progress).toBe(null)
    expect(shownProgress(row('completed'), null)).toBe(null)
  })

  test('PRG-006: a failure keeps the last value', () => {
    for (const state of ['retryable', 'discarded'] as const) {
      expect(shownProgress(row(state), note)?.progress).toBe(0.4)
    }
  })

  test('nothing of an earlier attempt or life', () => {
    expect(shownProgress(row('active', 2), note)).toBe(null)
    expect(shownProgress({ ...row('active'), generation: 1 }, note)).toBe(null)
  })
})
