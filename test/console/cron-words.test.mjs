import cronstrue from 'cronstrue'
import { expect, test, vi } from 'vitest'

vi.stubGlobal('navigator', { languages: ['en'] })
const { clocksOf, dropsZero } = await import('../../src/console/pages/cron/words.ts')
vi.unstubAllGlobals()

test('there are no words for a list from which the library drops the 0', () => {
  const dropped = [
    '0,5,7-30/3 * * * *',
    '0,*/7 1 * * *',
    '0,5,7-30/3 * * * * *',
    '* 00,9/5 * * * *',
  ]
  for (const each of dropped) expect(dropsZero(each), each).toBe(true)
  const whole = [
    '0,5,7-30 * * * *',
    '1,5,7-30/3 * * * *',
    '0 0,5,7-15/2 * * *',
    '10,7-30/3 * * * *',
  ]
  for (const each of whole) expect(dropsZero(each), each).toBe(false)
  // Once it is mended there, this rule can go.
  expect(cronstrue.toString('0,5,7-30/3 * * * *')).not.toMatch(/\b0\b/)
})

test('times have seconds where the expression has some', () => {
  expect(clocksOf('* * * * * *')).toEqual({ hasSeconds: true })
  expect(clocksOf(' */5 * * * * ')).toEqual({ hasSeconds: false })
  expect(clocksOf('@daily')).toEqual({ hasSeconds: false })
})
