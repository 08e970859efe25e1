import { expect, test, vi } from 'vitest'
import type { LiveDelivery } from '../../src/broker/delivery.ts'
import type { ReportedOutcome } from '../../src/job/request.ts'
import { AmqpLease, type LeaseDeps } from '../../src/worker/amqp-lease.ts'
import type { TokenJob } from '../../src/worker/token-job.ts'
import { deferred } from '../support/deferred.ts'

const FAILURE = { code: 'boom', type: 'Boom', message: 'm', retryable: true }

/** A lease, what is done with its delivery, and the events that it reports. */
function open(given: Partial<LeaseDeps> = {}, isRecorded = false, isLive = () => true) {
  const done: string[] = []
  const events: string[] = []
  const content = Buffer.from('{}')
  const delivery = {
    ...{ id: 'j', queue: 'q', generation: 0, attempt: 2, raw: { content, properties: {} } },
    isLive,
    ack: () => done.push('ack'),
    deadLetter: () => done.push('dead-letter'),
    block: { giveBack: () => done.push('give-back') },
  } as unknown as LiveDelivery
  const token = { job: { id: 'j' }, isKnown: true, maxAttempts: 3 } as TokenJob
  const hear = (text: string) => events.push(JSON.parse(text).event)
  const deps: LeaseDeps = {
    now: () => 0,
    started: (_queue, _key, event) => void hear(event),
    report: async (_queue, _key, event) => hear(event) > 0,
    decide: async () => ({ decision: 'discard' }),
    onOver: vi.fn(),
    ...given,
  }
  return { lease: new AmqpLease(deps, delivery, token, { attempt: 2, isRecorded }), done, events }
}

/** A report that is answered when the test says so. */
function slowReport() {
  const { promise, resolve } = deferred<boolean>()
  return { report: () => promise, answer: resolve }
}

test('what could not be reported is not settled: the broker gives it to the next one', async () => {
  for (const end of ['complete', 'fail', 'expire'] as const) {
    const { lease, done } = open({ report: async () => false })
    await lease.begin()
    const ended = end === 'fail' ? lease.fail(FAILURE) : lease[end](undefined as never)
    expect([end, await ended, done]).toEqual([end, 'failed', []])
  }
})

test('an end is settled once, whatever else comes while it is reported', async () => {
  const { report, answer } = slowReport()
  const { lease, done } = open({ report })
  await lease.begin()
  const ended = lease.complete({ ok: true })
  lease.cancel()
  const released = lease.release()
  answer(true)
  expect(await ended).toBe('settled')
  await released
  lease.cancel()
  expect([await lease.complete(1), await lease.fail(FAILURE), done]).toEqual([
    'stale',
    'stale',
    ['ack'],
  ])
})

test('a job that is cancelled while its start is put on record does not begin', async () => {
  const { report, answer } = slowReport()
  const { lease, done } = open({ report }, true)
  const begun = lease.begin()
  lease.cancel()
  answer(true)
  expect([await begun, lease.isOver, done]).toEqual([false, true, ['ack']])
})

test('a job whose start cannot be put on record is given back', async () => {
  const { lease, done } = open({ report: async () => false }, true)
  expect([await lease.begin(), done]).toEqual([false, ['give-back']])
})

test('a job whose token was lost while its start was put on record is released', async () => {
  const { lease, events } = open({}, true, () => events.length === 0)
  expect([await lease.begin(), lease.isOver]).toEqual([false, true])
  expect(events).toEqual(['started', 'released'])
})

test('one whose token came again meanwhile begins', async () => {
  const { report, answer } = slowReport()
  const { lease } = open({ report }, true, () => false)
  const begun = lease.begin()
  lease.delivery = { ...lease.delivery, isLive: () => true } as LiveDelivery
  answer(true)
  expect([await begun, lease.phase]).toEqual([true, 'running'])
})

test.each<[ReportedOutcome, string]>([
  [{ decision: 'retry', delay_ms: 1_000, rung_ms: 1_000 }, 'ack'],
  [{ decision: 'retry', delay_ms: 1_000, rung_ms: null }, 'ack'],
  [{ decision: 'discard' }, 'dead-letter'],
])('a failure with %j: %s', async (outcome, how) => {
  const { lease, done, events } = open({ decide: async () => outcome })
  await lease.begin()
  expect([await lease.fail(FAILURE), done, events]).toEqual([
    'settled',
    [how],
    ['started', 'failed'],
  ])
})

test('one that has not begun is given back without a word, and one that runs with one', async () => {
  const idle = open()
  await idle.lease.release()
  expect([idle.done, idle.events]).toEqual([['give-back'], []])
  const busy = open()
  await busy.lease.begin()
  await busy.lease.release()
  expect([busy.done, busy.events]).toEqual([['give-back'], ['started', 'released']])
})

test('of a cancelled job the token is dropped, and told to be', async () => {
  const { lease, done, events } = open()
  lease.cancel()
  expect([done, events, await lease.begin()]).toEqual([['ack'], ['dropped'], false])
})
