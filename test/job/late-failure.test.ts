import { describe, expect, it } from 'vitest'
import { brokerFailure } from '../../src/job/dead-letter.ts'
import { recordFailure, recordLateFailure, recordSkipped } from '../../src/job/retry/failure.ts'

const NOW = 1_700_000_000_000
const NEW = { attempt: 0, error: null, errors: null }
const failure = { code: 'smtp_down', type: 'Smtp', message: 'no route', retryable: true }

function codesOf(errors: string | undefined): [number, string][] {
  const entries = JSON.parse(errors ?? '[]') as { attempt: number; code: string }[]
  return entries.map(({ attempt, code }) => [attempt, code])
}

describe("a late report of an attempt's failure", () => {
  const { errors: unreported } = recordSkipped(NEW, [1, 2], null, NOW)

  it('replaces "unreported", and is the job\'s error only for the last attempt', () => {
    const late = recordLateFailure(unreported, 2, failure, NOW + 1)
    expect(codesOf(late?.errors)).toEqual([
      [1, 'unreported'],
      [2, 'smtp_down'],
    ])
    expect(JSON.parse(late?.error ?? '')).toEqual(failure)
    const earlier = recordLateFailure(late?.errors ?? '', 1, failure, NOW + 2)
    expect(earlier?.error).toBeNull()
    expect(codesOf(earlier?.errors)).toEqual([
      [1, 'smtp_down'],
      [2, 'smtp_down'],
    ])
  })

  it("replaces RabbitMQ's record of a rejection, in the latest generation that has one", () => {
    const rejected = brokerFailure('rejected')
    const { errors: once } = recordFailure(null, 1, rejected, NOW)
    const { errors: twice } = recordFailure(once, 1, rejected, NOW)
    const late = recordLateFailure(twice, 1, failure, NOW + 1)
    expect(codesOf(late?.errors)).toEqual([
      [1, 'rejected'],
      [1, 'smtp_down'],
    ])
    expect(JSON.parse(late?.error ?? '')).toEqual(failure)
  })

  it('does not change an earlier generation when the latest has a record of its own', () => {
    const { errors: once } = recordSkipped(NEW, [1], null, NOW)
    const { errors: twice } = recordFailure(once, 1, failure, NOW)
    expect(recordLateFailure(twice, 1, { ...failure, code: 'again' }, NOW + 1)).toBeNull()
  })

  it('makes the same record as a report in time', () => {
    const { errors: one } = recordSkipped(NEW, [1], null, NOW)
    expect(recordLateFailure(one, 1, failure, NOW)).toEqual(recordFailure(null, 1, failure, NOW))
  })

  it.each([
    ['nothing is recorded', null],
    ['only another attempt is recorded as unreported', recordSkipped(NEW, [3], null, NOW).errors],
    ['the attempt has an error of its own', recordFailure(null, 1, failure, NOW).errors],
  ])('changes nothing when %s', (_, errors) => {
    expect(recordLateFailure(errors, 1, failure, NOW)).toBeNull()
  })
})
