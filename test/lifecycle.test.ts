import { getEventListeners } from 'node:events'
import { describe, expect, it } from 'vitest'
import { untilDeadline } from '../src/lifecycle.ts'

const listeners = (deadline: AbortSignal) => getEventListeners(deadline, 'abort').length

describe('work with a deadline', () => {
  it('is waited for, and leaves no listener behind', async () => {
    const { signal } = new AbortController()
    const waiting = untilDeadline(new Promise(setImmediate), signal)
    expect(listeners(signal)).toBe(1)
    await waiting
    expect(listeners(signal)).toBe(0)
  })

  it('is not waited for any longer', async () => {
    const deadline = new AbortController()
    const waiting = untilDeadline(new Promise(() => {}), deadline.signal)
    deadline.abort()
    await waiting
    expect(listeners(deadline.signal)).toBe(0)
  })

  it('is not waited for when it is over already', async () => {
    await untilDeadline(new Promise(() => {}), AbortSignal.abort())
  })

  it('fails with the work, and leaves no listener behind then either', async () => {
    const { signal } = new AbortController()
    await expect(untilDeadline(Promise.reject(new Error('no')), signal)).rejects.toThrow('no')
    expect(listeners(signal)).toBe(0)
  })
})
