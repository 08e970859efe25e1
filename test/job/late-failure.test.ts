import { describe, expect, it } from 'vitest'
import { recordSkipped } from '../../src/job/arrival.ts'
import { brokerFailure } from '../../src/job/dead-letter.ts'
import { recordFailure, recordLateFailure } from '../../src/job/failure.ts'

const NOW = 1_700_000_000_000
const failure = { code: 'smtp_down', type: 'Smtp', message: 'no route', retryable: true }

function codesOf(errors: string | undefined): [number, string][] {
  const entries = JSON.parse(errors ?? '[]') as { attempt: number; code: string }[]
  return entries.map(({ attempt, code }) => [attempt, code])
}

describe('the late word on an attempt', () => {
  const { errors: unreported } = recordSkipped(null, [1, 2], null, NOW)

  it('takes the place of "unreported", and is the error while it is the last one', () => {
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

  it('takes the place of what RabbitMQ knows of a rejection, in the last life that had one', () => {
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

  it('leaves the word on an earlier life alone where this one has its own', () => {
    const { errors: once } = recordSkipped(null, [1], null, NOW)
    const { errors: twice } = recordFailure(once, 1, failure, NOW)
    expect(recordLateFailure(twice, 1, { ...failure, code: 'again' }, NOW + 1)).toBeNull()
  })

  it('says the same as a report in time', () => {
    const { errors: one } = recordSkipped(null, [1], null, NOW)
    expect(recordLateFailure(one, 1, failure, NOW)).toEqual(recordFailure(null, 1, failure, NOW))
  })

  it.each([
    ['nothing is recorded', null],
    ['it was not that attempt', recordSkipped(null, [3], null, NOW).errors],
    ['the attempt has an error of its own', recordFailure(null, 1, failure, NOW).errors],
  ])('changes nothing where %s', (_, errors) => {
    expect(recordLateFailure(errors, 1, failure, NOW)).toBeNull()
  })
})
