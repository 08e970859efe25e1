import { expect, it, onTestFinished, vi } from 'vitest'
import { Slots } from '../src/slots.ts'
import { deferred } from './support/time/deferred.ts'

/** Works that end when they are told to; `begun` has their numbers in the order in which they began. */
function stage(slots: Slots) {
  const begun: number[] = []
  const start = (number: number) => {
    const { promise, resolve, reject } = deferred()
    const work = () => {
      begun.push(number)
      return promise
    }
    return { ran: slots.run(work), resolve, reject }
  }
  return { begun, start }
}

it('works begin at once while there are slots, and then in their order as others end', async () => {
  const { begun, start } = stage(new Slots(2))
  const [one, two, three] = [start(1), start(2), start(3), start(4), start(5)]
  expect(begun).toEqual([1, 2])
  two.reject(new Error('broke'))
  await expect(two.ran).rejects.toThrow('broke')
  await vi.waitFor(() => expect(begun).toEqual([1, 2, 3]))
  one.resolve()
  three.resolve()
  await Promise.all([one.ran, three.ran])
  await vi.waitFor(() => expect(begun).toEqual([1, 2, 3, 4, 5]))
})

it('a slot is free again when nobody has waited for it', async () => {
  const { begun, start } = stage(new Slots(1))
  const one = start(1)
  one.resolve()
  await one.ran
  start(2)
  start(3)
  expect(begun).toEqual([1, 2])
})

it('a work that takes too long gives up its slot once, and its end frees no other', async () => {
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
  const { begun, start } = stage(new Slots(1, 5_000))
  const one = start(1)
  start(2)
  await vi.advanceTimersByTimeAsync(4_999)
  expect(begun).toEqual([1])
  await vi.advanceTimersByTimeAsync(1)
  expect(begun).toEqual([1, 2])
  start(3)
  one.resolve()
  await one.ran
  await vi.advanceTimersByTimeAsync(4_999)
  expect(begun).toEqual([1, 2])
  await vi.advanceTimersByTimeAsync(1)
  expect(begun).toEqual([1, 2, 3])
})
