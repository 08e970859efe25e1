import { setImmediate as turn } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, it, vi } from 'vitest'
import { InsertionOrderedMap } from '../src/insertion-ordered-map.ts'

setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')

it('InsertionOrderedMap drops its entries in the order in which they were last set', () => {
  const map = new InsertionOrderedMap<string, string>()
  const setAll = (keys: string) => {
    for (const key of keys) map.set(key, key.toUpperCase())
  }
  setAll('abca')
  expect(map.dropOldest()).toBe('B')
  setAll('cda')
  expect(map.dropOldest()).toBe('C')
  map.clear()
  expect(map.dropOldest()).toBeUndefined()
  setAll('efe')
  expect(map.dropOldest()).toBe('F')
  expect([...map]).toEqual([['e', 'E']])
})

/** A Map keeps deleted entries at its front for a while, and each new iterator steps over them. */
it('InsertionOrderedMap does not iterate from the front for each drop', () => {
  const walks = vi.spyOn(InsertionOrderedMap.prototype, 'keys')
  const map = new InsertionOrderedMap<number, number>()
  for (let i = 0; i < 5_000; i++) {
    map.set(i, i)
    if (map.size > 10) expect(map.dropOldest()).toBe(i - 10)
  }
  expect(walks).toHaveBeenCalledTimes(1)
  walks.mockRestore()
})

/** An iterator that stays at its place keeps alive all deleted entries that it would step over. */
it('InsertionOrderedMap keeps hardly any deleted values alive', async () => {
  const map = new InsertionOrderedMap<number, object>()
  map.set(0, {})
  map.dropOldest()
  const deleted: WeakRef<object>[] = []
  for (let i = 0; i < 3_000; i++) {
    const value = {}
    deleted.push(new WeakRef(value))
    map.set(i, value)
    map.delete(i - 3)
  }
  // The target of a new WeakRef stays alive until the end of the turn.
  await turn()
  collectGarbage()
  const kept = deleted.filter((one) => one.deref() !== undefined)
  expect(kept.length).toBeLessThan(10)
})
