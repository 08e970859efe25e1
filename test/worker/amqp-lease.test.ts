import { expect, test, vi } from 'vitest'
import type { PublishOutcome } from '../../src/broker/broker.ts'
import type { LiveDelivery } from '../../src/broker/consume/delivery.ts'
import type { ReportedOutcome } from '../../src/job/request.ts'
import { AmqpLease, type LeaseDeps } from '../../src/worker/amqp-lease.ts'
import type { MessageJob } from '../../src/worker/message-job.ts'
import { OneByOne } from '../../src/worker/one-by-one.ts'
import { Reporter, type ReportOutcome } from '../../src/worker/reporter.ts'
import type { FailedRun } from '../../src/worker/retry-message.ts'
import { logger } from '../broker/harness.ts'
import { deferred } from '../support/time/deferred.ts'

const FAILURE = { code: 'boom', type: 'Boom', message: 'm', retryable: true }

/** A lease. Records how its delivery is settled and the events that it reports. */
function open(
  given: Partial<LeaseDeps> = {},
  isRecorded = false,
  isLive = () => true,
  headers: object = {},
  maxAttempts = 3,
) {
  const done: string[] = []
  const told: Record<string, unknown>[] = []
  const events: unknown[] = []
  const content = Buffer.from('{}')
  const delivery = {
    ...{
      id: 'j',
      queue: 'q',
      generation: 0,
      attempt: 2,
      raw: { content, properties: { headers } },
    },
    isLive,
    ack: () => done.push('ack'),
    deadLetter: () => done.push('dead-letter'),
    giveBack: () => done.push('give-back'),
  } as unknown as LiveDelivery
  const job = { id: 'j', type: 't', attempt: 1 }
  const jobMessage = { job, isKnown: true, maxAttempts } as unknown as MessageJob
  const hear = (text: string) => {
    const event = JSON.parse(text)
    told.push(event)
    return events.push(event.event)
  }
  const deps: LeaseDeps = {
    now: () => 0,
    started: (_queue, _key, event) => void hear(event),
    report: async (_queue, _key, event) => {
      hear(event)
      return 'reported'
    },
    decide: async () => ({ decision: 'discard' }),
    lastAttempts: new OneByOne(),
    workerId: () => 'w',
    tell: async () => true,
    checkpointOf: async () => ({}),
    onOver: vi.fn(),
    ...given,
  }
  const lease = new AmqpLease(deps, delivery, jobMessage, { attempt: 2, isRecorded })
  return { lease, done, events, told }
}

/** A `report` that resolves when the test calls `answer`. */
function slowReport() {
  const { promise, resolve } = deferred<ReportOutcome>()
  return { report: () => promise, answer: resolve }
}

test('AmqpLease does not settle a job message whose end could not be reported, so that RabbitMQ redelivers it', async () => {
  for (const end of ['complete', 'fail', 'expire'] as const) {
    const { lease, done } = open({ report: async () => 'given-up' })
    await lease.begin()
    const ended = end === 'fail' ? lease.fail(FAILURE) : lease[end](undefined as never)
    expect([end, await ended, done]).toEqual([end, 'failed', []])
  }
})

/** A `report` that refuses events longer than `bytes` as too large, and records the others. */
function limitedTo(bytes: number) {
  const heard: Record<string, unknown>[] = []
  const report = async (_queue: string, _key: string, event: string): Promise<ReportOutcome> => {
    if (event.length > bytes) return 'too-large'
    heard.push(JSON.parse(event))
    return 'reported'
  }
  return { heard, report }
}

test('AmqpLease fails a job without retry if its result is too large for a message', async () => {
  const { heard, report } = limitedTo(1_000)
  const decide = vi.fn(async (): Promise<ReportedOutcome> => ({ decision: 'discard' }))
  const { lease, done } = open({ report, decide })
  await lease.begin()
  expect([await lease.complete('x'.repeat(1_000)), done]).toEqual(['settled', ['dead-letter']])
  const error = { type: 'ResultError', retryable: false }
  expect(heard).toMatchObject([{ event: 'failed', error }])
  expect(decide.mock.lastCall).toMatchObject([{ failure: error }])
})

const LEFT: ReportedOutcome = { decision: 'retry', delay_ms: 1_000, rung_ms: null }

test.each<[string, ReportedOutcome, number, boolean]>([
  ['without its details', LEFT, 500, true],
  ['and without its job', { decision: 'discard' }, 300, false],
])(
  'AmqpLease reports a failure that is too large for a message %s',
  async (_, outcome, bytes, isShown) => {
    const { heard, report } = limitedTo(bytes)
    const { lease, done } = open({ report, decide: async () => outcome })
    await lease.begin()
    const failure = { ...FAILURE, details: { text: 'x'.repeat(1_000) } }
    expect([await lease.fail(failure), done.length]).toEqual(['settled', 1])
    expect(heard).toMatchObject([
      { event: 'failed', outcome, error: { details: { truncated: true } } },
    ])
    expect('job' in (heard[0] ?? {})).toBe(isShown)
  },
)

test('AmqpLease dead-letters a job whose failure is too large even when shortened', async () => {
  const { heard, report } = limitedTo(200)
  const { lease, done } = open({ report, decide: async () => LEFT })
  await lease.begin()
  expect([await lease.fail(FAILURE), heard, done]).toEqual(['settled', [], ['dead-letter']])
})

test("AmqpLease has the job message's job with the attempt of the lease, and the producer's trace headers if they are texts", () => {
  const plain = open().lease
  expect(plain.job).toEqual({ id: 'j', type: 't', attempt: 2 })
  expect([plain.traceparent, plain.tracestate]).toEqual([undefined, undefined])
  const trace = { 'x-ojs-trace-id': 'a', 'x-ojs-trace-state': 'b' }
  const { traceparent, tracestate } = open({}, false, undefined, trace).lease
  expect([traceparent, tracestate]).toEqual(['a', 'b'])
  const strange = open({}, false, undefined, { 'x-ojs-trace-id': 1, 'x-ojs-trace-state': 2 }).lease
  expect([strange.traceparent, strange.tracestate]).toEqual([undefined, undefined])
})

test('AmqpLease reports a completion with the time at which the handler began', async () => {
  let now = 1_000
  const { lease, told } = open({ now: () => now })
  expect([await lease.begin(), lease.phase]).toEqual([true, 'running'])
  now = 3_000
  await lease.complete({ ok: true })
  expect(told.at(-1)).toEqual({
    ...{ job_id: 'j', generation: 0, attempt: 2, event: 'completed', result: { ok: true } },
    ...{ started_at: '1970-01-01T00:00:01.000Z', at: '1970-01-01T00:00:03.000Z' },
  })
})

test('AmqpLease.expire reports expired and acknowledges the job message', async () => {
  const { lease, done, events } = open()
  expect([await lease.expire(), done, events]).toEqual(['settled', ['ack'], ['expired']])
})

test('AmqpLease stays at work until the retry is published, and ignores a cancel meanwhile', async () => {
  const { promise, resolve } = deferred<ReportedOutcome>()
  const decide = vi.fn((_run: FailedRun) => promise)
  const { lease, done, events } = open({ decide })
  await lease.begin()
  const failed = lease.fail(FAILURE)
  void lease.cancel()
  expect([lease.isAtWork, done]).toEqual([true, []])
  decide.mock.lastCall?.[0].onPublish()
  expect(lease.isAtWork).toBe(false)
  resolve({ decision: 'discard' })
  expect([await failed, done, events]).toEqual(['settled', ['dead-letter'], ['started', 'failed']])
  decide.mock.lastCall?.[0].onPublish()
  expect(lease.isOver).toBe(true)
})

test('AmqpLease is not at work if it fails without having begun', async () => {
  const { promise, resolve } = deferred<ReportedOutcome>()
  const { lease } = open({ decide: () => promise })
  const failed = lease.fail(FAILURE)
  expect(lease.isAtWork).toBe(false)
  resolve({ decision: 'discard' })
  expect(await failed).toBe('settled')
})

test('AmqpLease is not at work while its end is reported', async () => {
  const { report, answer } = slowReport()
  const { lease } = open({ report })
  await lease.begin()
  const failed = lease.fail(FAILURE)
  await new Promise(setImmediate)
  expect([lease.phase, lease.isAtWork]).toEqual(['ending', false])
  answer('reported')
  await failed
})

test('AmqpLease settles once although cancel and release come while the end is reported', async () => {
  const { report, answer } = slowReport()
  const onOver = vi.fn()
  const { lease, done } = open({ report, onOver })
  await lease.begin()
  const ended = lease.complete({ ok: true })
  void lease.cancel()
  const released = lease.release()
  answer('reported')
  expect(await ended).toBe('settled')
  await released
  void lease.cancel()
  expect([await lease.complete(1), await lease.fail(FAILURE), done]).toEqual([
    'stale',
    'stale',
    ['ack'],
  ])
  expect(onOver.mock.calls).toEqual([[lease, 'ack']])
})

test('AmqpLease does not begin if it is cancelled while its start is reported', async () => {
  const { report, answer } = slowReport()
  const { lease, done } = open({ report }, true)
  const begun = lease.begin()
  const dropped = lease.cancel()
  answer('reported')
  expect([await begun, lease.isOver]).toEqual([false, true])
  await dropped
  expect(done).toEqual(['ack'])
})

test('AmqpLease reports a start that is too large for a message without the job', async () => {
  const { heard, report } = limitedTo(150)
  const { lease } = open({ report }, true)
  expect([await lease.begin(), lease.phase]).toEqual([true, 'running'])
  expect(heard).toMatchObject([{ event: 'started' }])
})

test('AmqpLease gives the job message back if its start cannot be reported', async () => {
  const { lease, done } = open({ report: async () => 'given-up' }, true)
  expect([await lease.begin(), done]).toEqual([false, ['give-back']])
})

test('AmqpLease reports released if its job message was lost while its start was reported', async () => {
  const { lease, events } = open({}, true, () => events.length === 0)
  expect([await lease.begin(), lease.isOver]).toEqual([false, true])
  expect(events).toEqual(['started', 'released'])
})

test('AmqpLease begins if its lost job message was redelivered while its start was reported', async () => {
  const { report, answer } = slowReport()
  const { lease } = open({ report }, true, () => false)
  const begun = lease.begin()
  lease.delivery = { ...lease.delivery, isLive: () => true } as LiveDelivery
  answer('reported')
  expect([await begun, lease.phase]).toEqual([true, 'running'])
})

test.each<[ReportedOutcome, string, boolean]>([
  [{ decision: 'retry', delay_ms: 1_000, rung_ms: 1_000 }, 'ack', false],
  [{ decision: 'retry', delay_ms: 1_000, rung_ms: null }, 'ack', true],
  [{ decision: 'discard' }, 'dead-letter', false],
])(
  'AmqpLease with the failure outcome %j settles by %s; the report includes the job: %s',
  async (outcome, how, isShown) => {
    const { lease, done, events, told } = open({ decide: async () => outcome })
    await lease.begin()
    expect([await lease.fail(FAILURE), done, events]).toEqual([
      'settled',
      [how],
      ['started', 'failed'],
    ])
    expect(told.at(-1)).toMatchObject({ error: { message: 'm' }, outcome })
    expect('job' in (told.at(-1) ?? {})).toBe(isShown)
  },
)

test('AmqpLease.release gives the job message back, and reports released only if the handler had begun', async () => {
  const idle = open()
  await idle.lease.release()
  expect([idle.done, idle.events]).toEqual([['give-back'], []])
  const busy = open()
  await busy.lease.begin()
  await busy.lease.release()
  expect([busy.done, busy.events]).toEqual([['give-back'], ['started', 'released']])
})

test('AmqpLease.cancel reports dropped and acknowledges the job message', async () => {
  const { lease, done, events } = open()
  await lease.cancel()
  expect([done, events, await lease.begin()]).toEqual([['ack'], ['dropped'], false])
})

test.each<[ReportOutcome, string[]]>([
  ['reported', ['ack']],
  ['given-up', []],
])(
  'AmqpLease of a cancelled job keeps its job message until the report is %s, then settles it by %j',
  async (told, ending) => {
    const { report, answer } = slowReport()
    const { lease, done } = open({ report })
    await lease.begin()
    const dropped = lease.cancel()
    await new Promise(setImmediate)
    expect([done, lease.isOver, await lease.complete(1)]).toEqual([[], true, 'stale'])
    answer(told)
    await dropped
    expect(done).toEqual(ending)
  },
)

test('AmqpLease.cancel reports nothing if the job message is lost with its channel, because it comes again', async () => {
  const { lease, events } = open({}, false, () => false)
  await lease.cancel()
  expect([events, lease.isOver]).toEqual([[], true])
})

test('AmqpLease does not let an unconfirmed start be repeated after released was reported', async () => {
  const sent: { events: string[]; answer(outcome: PublishOutcome): void }[] = []
  const reporter = new Reporter({
    workerId: 'w',
    logger,
    tell: (_queue, body) =>
      new Promise((answer) => {
        const { events } = JSON.parse(body) as { events: { event: string }[] }
        sent.push({ events: events.map(({ event }) => event), answer })
      }),
    ensure: async () => undefined,
  })
  const { lease, done } = open({ report: (...event) => reporter.report(...event) }, true)
  const begun = lease.begin()
  await expect.poll(() => sent).toHaveLength(1)
  const released = lease.release()
  await expect.poll(() => sent).toHaveLength(2)
  sent[1]?.answer('confirmed')
  await released
  // The connection was lost before RabbitMQ confirmed the start.
  sent[0]?.answer('unknown')
  expect([await begun, done]).toEqual([false, ['give-back']])
  await reporter.stop(AbortSignal.timeout(5_000))
  expect(sent.map(({ events }) => events)).toEqual([['started'], ['released']])
})

test('a last attempt is not told to have started before the one before it runs', async () => {
  const steps: string[] = []
  const lastAttempts = new OneByOne()
  const begin = async (name: string, maxAttempts: number) => {
    const report: LeaseDeps['report'] = async () => {
      steps.push(`${name} told`)
      return 'reported'
    }
    const { lease } = open({ report, lastAttempts }, true, () => true, {}, maxAttempts)
    expect(await lease.begin()).toBe(true)
    steps.push(`${name} runs`)
  }
  await Promise.all(['a', 'b'].map((name) => begin(name, 2)))
  expect(steps).toEqual(['a told', 'a runs', 'b told', 'b runs'])
  steps.length = 0
  await Promise.all(['a', 'b'].map((name) => begin(name, 3)))
  expect(steps).toEqual(['a told', 'b told', 'a runs', 'b runs'])
})

test('a last attempt that is cancelled before its turn is not told to have started', async () => {
  const turn = deferred()
  const lastAttempts = new OneByOne()
  void lastAttempts.run(() => turn.promise)
  const { lease, events } = open({ lastAttempts }, true, () => true, {}, 2)
  const begun = lease.begin()
  await lease.cancel()
  turn.resolve()
  expect([await begun, events.includes('started')]).toEqual([false, false])
})
