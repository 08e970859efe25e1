import { describe, expect, it } from 'vitest'
import { recordSkipped } from '../../src/job/retry/failure.ts'

const NOW = 1_700_000_000_000
const NEW = { attempt: 0, error: null, errors: null }

describe('the record of skipped attempts', () => {
  const said = { code: 'smtp_down', message: 'no route' }

  it('does not change when no attempt was skipped', () => {
    const row = { attempt: 1, error: '2', errors: '[1]' }
    expect(recordSkipped(row, [], said, NOW)).toEqual({ error: '2', errors: '[1]' })
  })

  it('has one more entry for each skipped attempt, the newest with what the job message reported', () => {
    const row = { attempt: 1, error: '{}', errors: '[{"attempt":1}]' }
    const { error, errors } = recordSkipped(row, [2, 3], said, NOW)
    const occurred = '2023-11-14T22:13:20.000Z'
    const newest = {
      attempt: 3,
      code: 'smtp_down',
      type: 'smtp_down',
      message: 'no route',
      retryable: true,
      occurred_at: occurred,
      timestamp: occurred,
    }
    const silent = {
      attempt: 2,
      code: 'unreported',
      type: 'unreported',
      message: 'Attempt 2 ended without a report.',
      retryable: true,
      occurred_at: occurred,
      timestamp: occurred,
    }
    expect(JSON.parse(errors ?? '')).toEqual([{ attempt: 1 }, silent, newest])
    expect(JSON.parse(error ?? '')).toEqual(newest)
  })

  it.each([
    ['gains no entry', 'of its own generation', '{}', 0],
    ['gains one', 'of an earlier generation', null, 1],
  ])('%s for a first attempt that has an entry %s', (_, __, error, added) => {
    const row = { attempt: 1, error, errors: '[{"attempt":1}]' }
    const { errors } = recordSkipped(row, [1], said, NOW)
    expect(JSON.parse(errors ?? '')).toHaveLength(1 + added)
  })

  it('cuts a code to 255 characters', () => {
    const { error } = recordSkipped(NEW, [1], { code: 'c'.repeat(5_000), message: '' }, NOW)
    const { code, type } = JSON.parse(error ?? '')
    expect([code.length, type]).toEqual([255, code])
  })

  it('keeps the newest 50', () => {
    const hundred = Array.from({ length: 100 }, (_, index) => index + 1)
    const { errors } = recordSkipped(NEW, hundred, null, NOW)
    const attempts = (JSON.parse(errors ?? '') as { attempt: number }[]).map((e) => e.attempt)
    expect(attempts).toEqual(hundred.slice(50))
  })
})
