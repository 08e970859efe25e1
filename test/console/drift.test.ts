import { expect, test } from 'vitest'
import { driftOf } from '../../src/console/pages/queues/drift.ts'

const NO_JOBS = { scheduled: 0, pending: 0, retryable: 0, completed: 0, cancelled: 0, discarded: 0 }
const seen = (
  jobs: { available: number; active?: number },
  messages: { ready: number; held?: number; unacknowledged?: number },
  more: { held_back?: number; missing?: number } = {},
) =>
  driftOf({
    counts: { ...NO_JOBS, active: 0, ...jobs },
    rabbitmq: { consumers: 0, held: 0, held_back: 0, missing: 0, ...messages, ...more },
  })

test('a queue of which RabbitMQ tells nothing has no drift', () => {
  const counts = { ...NO_JOBS, active: 0, available: 1 }
  expect(driftOf({ counts })).toBeNull()
})

test.each([
  [{ available: 3, active: 2 }, { ready: 3, held: 2 }, {}],
  [{ available: 3, active: 2 }, { ready: 2, held: 3, unacknowledged: 3 }, {}],
  // A native worker has one that this gateway does not hold.
  [{ available: 1, active: 1 }, { ready: 1, held: 0, unacknowledged: 1 }, {}],
  // The count of all is older than that of this gateway.
  [{ available: 0, active: 2 }, { ready: 0, held: 2, unacknowledged: 0 }, {}],
  // What a concurrency key holds back has no message.
  [{ available: 5 }, { ready: 2 }, { held_back: 3 }],
])('jobs %o with messages %o agree', (jobs, messages, more) => {
  expect(seen(jobs, messages, more)).toEqual({ isBad: false, reasons: [{ what: 'none' }] })
})

test('more messages than jobs are of jobs that have ended', () => {
  expect(seen({ available: 1 }, { ready: 3, held: 1, unacknowledged: 1 })).toEqual({
    isBad: false,
    reasons: [{ what: 'more', count: 3 }],
  })
})

test('fewer have harmless reasons as long as nothing is known to be lost', () => {
  const fewer = seen({ available: 0, active: 4 }, { ready: 0, held: 1 })
  const reasons = [{ what: 'fewer', count: 3 }, { what: 'leases' }, { what: 'elsewhere' }]
  expect(fewer).toEqual({ isBad: false, reasons })
  const counted = seen({ available: 2 }, { ready: 0, unacknowledged: 0 })
  const reasonsOfLoss = [{ what: 'fewer', count: 2 }, { what: 'lost' }]
  expect(counted).toEqual({ isBad: false, reasons: reasonsOfLoss })
})

test('messages that are known to be lost are told first', () => {
  const lost = seen({ available: 500 }, { ready: 100, unacknowledged: 0 }, { missing: 400 })
  expect(lost?.isBad).toBe(true)
  expect(lost?.reasons[0]).toEqual({ what: 'missing', count: 400 })
})
