import { expect, test } from 'vitest'
import { Opening } from '../../../src/broker/connection/wait-until-open.ts'

test('Opening forgets those who waited in vain', async () => {
  const opening = new Opening()
  const waits = [1, 2, 3].map((ms) => opening.untilOpen({ isOpen: false }, ms))
  expect(opening.waiting).toBe(3)
  expect(await Promise.all(waits)).toEqual([false, false, false])
  expect(opening.waiting).toBe(0)
})
