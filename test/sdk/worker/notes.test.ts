import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { Notes } from '../../../src/sdk/worker/notes.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

function notesOf(failure?: Error) {
  const sent: unknown[] = []
  const errors: unknown[] = []
  const state = { isRunning: true }
  const lease = {
    progress: async (note: unknown) => {
      sent.push(note)
      if (failure) throw failure
    },
    checkpoint: async (saved: unknown) => void sent.push({ saved }),
    lastCheckpoint: async () => 'last',
  }
  const onError = (error: unknown) => void errors.push(error)
  const notes = new Notes(lease, { isRunning: () => state.isRunning, onError })
  return { notes, sent, errors, state }
}

describe('progress', () => {
  test('is sent at once, and then the newest once a second', async () => {
    const { notes, sent } = notesOf()
    notes.progress(0.1, { message: 'm' })
    for (const progress of [0.2, 0.3, 0.4]) notes.progress(progress)
    await vi.advanceTimersByTimeAsync(999)
    expect(sent).toMatchObject([{ progress: 0.1, message: 'm' }])
    await vi.advanceTimersByTimeAsync(1)
    expect(sent).toMatchObject([{ progress: 0.1 }, { progress: 0.4 }])
    await vi.advanceTimersByTimeAsync(10_000)
    expect(sent).toHaveLength(2)
    notes.progress(0.5)
    await vi.advanceTimersByTimeAsync(0)
    expect(sent).toHaveLength(3)
  })

  test('keeps the message of a report that was not sent for the next one', async () => {
    const { notes, sent } = notesOf()
    notes.progress(0.1)
    notes.progress(0.2, { message: 'm', data: { a: 1 } })
    notes.progress(0.3)
    await vi.advanceTimersByTimeAsync(1_000)
    expect(sent[1]).toEqual({ progress: 0.3, message: 'm', data: { a: 1 } })
  })

  test('that fails is told to the worker, not to the handler, and the next one is sent', async () => {
    const failure = new Error('away')
    const { notes, sent, errors } = notesOf(failure)
    notes.progress(0.1)
    notes.progress(0.2)
    await vi.advanceTimersByTimeAsync(1_000)
    expect(sent).toHaveLength(2)
    expect(errors).toEqual([failure, failure])
  })

  test('is not sent after the end of the job, and leaves no timer behind', async () => {
    const { notes, sent, state } = notesOf()
    notes.progress(0.1)
    await vi.advanceTimersByTimeAsync(0)
    notes.progress(0.2)
    state.isRunning = false
    notes.end()
    await vi.advanceTimersByTimeAsync(5_000)
    notes.progress(0.3)
    await vi.advanceTimersByTimeAsync(5_000)
    expect(sent).toHaveLength(1)
    expect(vi.getTimerCount()).toBe(0)
  })

  test.each([Number.NaN, Number.POSITIVE_INFINITY])('of %d throws', (progress) => {
    expect(() => notesOf().notes.progress(progress)).toThrow(TypeError)
  })
})

describe('checkpoints', () => {
  test('go to the lease, null and false too', async () => {
    const { notes, sent } = notesOf()
    for (const state of [null, false, { a: [1] }]) await notes.checkpoint(state)
    expect(sent).toEqual([{ saved: null }, { saved: false }, { saved: { a: [1] } }])
    expect(await notes.lastCheckpoint()).toBe('last')
  })

  test.each([[undefined], [() => 1], [Number.NaN], [new Map()]])('%s is refused', async (state) => {
    const { notes, sent } = notesOf()
    await expect(notes.checkpoint(state)).rejects.toThrow(TypeError)
    expect(sent).toEqual([])
  })

  test('are refused after the end of the job', async () => {
    const { notes, state } = notesOf()
    state.isRunning = false
    await expect(notes.checkpoint(1)).rejects.toThrow()
  })
})
