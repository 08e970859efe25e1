import { expect, it } from 'vitest'
import { UnsureJobMessages } from '../../../src/operations/job-messages/tracker.ts'

const BOUND = 50_000

it('UnsureJobMessages remembers 50,000 ids, and beyond that reports every id as unsure', () => {
  const unsure = new UnsureJobMessages()
  for (let i = 0; i < BOUND; i++) unsure.add(`id ${i}`)
  unsure.add('id 7')
  expect([unsure.has('id 7'), unsure.has('another')]).toEqual([true, false])
  unsure.forget('id 7')
  expect(unsure.has('id 7')).toBe(false)
  unsure.add('id 8')
  unsure.add('one more')
  unsure.add('one too many')
  expect(unsure.has('another')).toBe(true)
})
