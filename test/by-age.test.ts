import { setImmediate as turn } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, it, vi } from 'vitest'
import { ByAge } from '../src/by-age.ts'

setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')

it('drops its entries in the order in which they were last set', () => {
  const map = new ByAge<string, string>()
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

/** What it has deleted at the front a map keeps for a while, and each walk from there steps over it. */
it('does not look for the oldest from the front each time', () => {
  const walks = vi.spyOn(ByAge.prototype, 'keys')
  const map = new ByAge<number, number>()
  for (let i = 0; i < 5_000; i++) {
    map.set(i, i)
    if (map.size > 10) expect(map.dropOldest()).toBe(i - 10)
  }
  expect(walks).toHaveBeenCalledTimes(1)
  walks.mockRestore()
})

/** As an iterator that stands still would, with all that it would still step over. */
it('keeps hardly anything of what was deleted', async () => {
  const map = new ByAge<number, object>()
  map.set(0, {})
  map.dropOldest()
  const deleted: WeakRef<object>[] = []
  for (let i = 0; i < 3_000; i++) {
    const value = {}
    deleted.push(new WeakRef(value))
    map.set(i, value)
    map.delete(i - 3)
  }
  // What a WeakRef was made of lives on until then.
  await turn()
  collectGarbage()
  const kept = deleted.filter((one) => one.deref() !== undefined)
  expect(kept.length).toBeLessThan(10)
})
