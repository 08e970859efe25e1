import type { ConsumeMessage } from 'amqplib'
import { expect, onTestFinished, test, vi } from 'vitest'
import type { ConsumerChannel } from '../../src/broker/consume/consumer-channel.ts'
import { LiveDelivery } from '../../src/broker/consume/delivery.ts'
import type { ReportedOutcome } from '../../src/job/request.ts'
import type { Lease, SourceSink } from '../../src/sdk/worker/source.ts'
import type { LeaseDeps } from '../../src/worker/amqp-lease.ts'
import { Dispatcher, type DispatcherDeps } from '../../src/worker/dispatcher.ts'
import type { Claimed } from '../../src/worker/gateway-rpc.ts'
import { OneByOne } from '../../src/worker/one-by-one.ts'
import type { ReportOutcome } from '../../src/worker/reporter.ts'
import { logger } from '../broker/harness.ts'
import { deferred } from '../support/time/deferred.ts'

const BODY = { specversion: '1.0', id: 'j', type: 't', args: [], timeout_ms: 0, max_attempts: 3 }

/**
 * A dispatcher whose claims no gateway answers. Records how job messages are settled and what is reported.
 */
function open(more: object = {}, told: ReportOutcome = 'reported', given: Partial<LeaseDeps> = {}) {
  const settled: string[] = []
  const delivered: Lease[] = []
  const claim = vi.fn<DispatcherDeps['claim']>(async () => null)
  const reported: string[] = []
  const consumerChannel = {
    queue: 'q',
    settle(delivery: LiveDelivery, how: string) {
      delivery.place = 'gone'
      settled.push(how)
      return 'settled'
    },
    giveBack: () => settled.push('given back'),
  } as unknown as ConsumerChannel
  const dispatcher = new Dispatcher({
    sink: {
      capacity: () => 10,
      deliver: (lease: Lease) => delivered.push(lease),
      abort() {},
    } as unknown as SourceSink,
    logger,
    lease: {
      now: () => 0,
      started: () => {},
      report: async (_queue, _key, event) => {
        reported.push(JSON.parse(event).event)
        // Includes what is already settled: nothing may be settled before the report is answered.
        reported.push(...settled)
        return told
      },
      decide: async () => ({ decision: 'discard' }),
      lastAttempts: new OneByOne(),
      workerId: () => 'w',
      tell: async () => true,
      checkpointOf: async () => ({}),
      ...given,
    },
    context: () => ({ newId: () => 'x', now: 0, wall: 0, timeoutMs: 0, prefix: '' }),
    claim,
    claimsAll: () => false,
  })
  const arrive = (redelivered = false, attempt = 1, messageId = 'j') => {
    const headers = { 'x-ojs-enqueued-at': '2026-01-01T00:00:00.000Z', 'x-ojs-attempt': attempt }
    const raw = {
      content: Buffer.from(JSON.stringify({ ...BODY, ...more })),
      fields: { redelivered },
      properties: { messageId, headers },
    }
    const delivery = new LiveDelivery(consumerChannel, raw as unknown as ConsumeMessage, 1)
    dispatcher.arrive(delivery)
    return delivery
  }
  return { arrive, claim, delivered, dispatcher, reported, settled }
}

test.each([
  ['completed', 'ack'],
  ['failed', 'dead-letter'],
] as const)(
  'the job message of an attempt that has %s on this worker is settled again when redelivered, and not run',
  async (end, how) => {
    const { arrive, claim, delivered, settled } = open()
    arrive()
    const [lease] = delivered
    await lease?.begin()
    if (end === 'completed') await lease?.complete(1)
    else await lease?.fail({ code: 'boom', type: 'Boom', message: 'm', retryable: false })
    expect(settled).toEqual([how])
    arrive(true)
    expect([settled, delivered.length, claim.mock.calls]).toEqual([[how, how], 1, []])
  },
)

test('a copy of the job message of an earlier attempt than the one that ran here is acknowledged, and not run', async () => {
  const { arrive, claim, delivered, settled } = open()
  arrive(false, 2)
  await delivered[0]?.begin()
  await delivered[0]?.fail({ code: 'boom', type: 'Boom', message: 'm', retryable: false })
  arrive(false, 1)
  expect([settled, delivered.length]).toEqual([['dead-letter', 'ack'], 1])
  // The job message of a later attempt runs.
  arrive(false, 3)
  expect([delivered.length, claim.mock.calls]).toEqual([2, []])
})

test('redelivered messages without an id are not taken for copies of each other', () => {
  const { arrive, settled } = open({ id: undefined })
  arrive(true, 1, '')
  arrive(true, 1, '')
  expect(settled).toEqual(['dead-letter', 'dead-letter'])
})

test.each([
  [1, []],
  [2, ['started']],
])('attempt %i: the events reported before its handler runs are %j', async (attempt, before) => {
  const { arrive, claim, delivered, reported } = open()
  arrive(false, attempt)
  await delivered[0]?.begin()
  expect([reported, claim.mock.calls]).toEqual([before, []])
})

test('the next job message of a running job is given back when its queue is paused', async () => {
  const { arrive, delivered, dispatcher, settled } = open()
  arrive()
  const [lease] = delivered
  await lease?.begin()
  arrive(false, 2)
  dispatcher.giveBack('other')
  expect(settled).toEqual([])
  dispatcher.giveBack('q')
  expect(settled).toEqual(['given back'])
  await lease?.complete(1)
  await Promise.resolve()
  expect([settled, delivered.length]).toEqual([['given back', 'ack'], 1])
})

test('the next job message of a running job is forgotten when its channel is lost', async () => {
  const { arrive, delivered, dispatcher, settled } = open()
  arrive()
  await delivered[0]?.begin()
  const lost = arrive(false, 2)
  lost.place = 'gone'
  dispatcher.forget([lost])
  arrive(false, 3)
  dispatcher.giveBack('q')
  expect(settled).toEqual(['given back'])
})

test('the next job message of a running job is claimed when the job has completed', async () => {
  const { arrive, claim, delivered } = open()
  arrive()
  const [lease] = delivered
  await lease?.begin()
  arrive(false, 2)
  await lease?.complete(1)
  await vi.waitFor(() => expect(claim).toHaveBeenCalledTimes(1), 15_000)
})

test('shortestLeaseMs() counts only the leases of running handlers', async () => {
  const { arrive, delivered, dispatcher } = open({ visibility_timeout_ms: 600 })
  arrive()
  expect(dispatcher.shortestLeaseMs()).toBe(Number.POSITIVE_INFINITY)
  await delivered[0]?.begin()
  expect(dispatcher.shortestLeaseMs()).toBe(600)
  await delivered[0]?.complete(1)
  expect(dispatcher.shortestLeaseMs()).toBe(Number.POSITIVE_INFINITY)
})

test.each<[ReportOutcome, string[]]>([
  ['reported', ['ack']],
  ['given-up', []],
])(
  'a job that is cancelled during its claim: with its drop %s, the job message is settled by %j',
  async (told, endings) => {
    const { arrive, delivered, dispatcher, reported, settled } = open({}, told)
    arrive(true)
    dispatcher.cancel('j')
    await new Promise(setImmediate)
    expect([settled, delivered, reported]).toEqual([endings, [], ['dropped']])
  },
)

test('the cancellation of an older generation does not undo that of a newer one', async () => {
  const { arrive, delivered, dispatcher, settled } = open()
  dispatcher.cancel('j', 1)
  dispatcher.cancel('j', -1)
  arrive()
  await new Promise(setImmediate)
  expect([settled, delivered]).toEqual([['ack'], []])
})

test('a failed job is still named in heartbeats while its retry is being decided', async () => {
  const { promise: outcome, resolve } = deferred<ReportedOutcome>()
  const { arrive, delivered, dispatcher } = open({ visibility_timeout_ms: 900 }, 'reported', {
    lastAttempts: new OneByOne(),
    decide: () => outcome,
  })
  arrive()
  const [lease] = delivered
  await lease?.begin()
  const failed = lease?.fail({ code: 'boom', type: 'Boom', message: 'm', retryable: true })
  expect([[...dispatcher.running()], dispatcher.shortestLeaseMs()]).toEqual([
    [['q', [{ id: 'j', generation: 0 }]]],
    900,
  ])
  resolve({ decision: 'discard' })
  await failed
  expect([...dispatcher.running()]).toEqual([])
})

const KEYED = { concurrency: { key: 'k', limit: 1 } }

test('a job with a concurrency key is claimed before it runs, and needs no report of its start', async () => {
  const { arrive, claim, delivered, reported } = open(KEYED)
  claim.mockResolvedValueOnce({ decision: 'run', attempt: 1, isStarted: true })
  arrive()
  expect(delivered).toEqual([])
  await vi.waitFor(() => expect(delivered).toHaveLength(1))
  expect(claim.mock.calls).toEqual([[expect.anything(), { again: false, shown: '' }]])
  expect(await delivered[0]?.begin()).toBe(true)
  expect(reported).toEqual([])
  // The gateway has begun the attempt, so it must hear that it did not run.
  await delivered[0]?.release()
  expect(reported).toEqual(['released'])
})

test('a job that only mentions "concurrency" runs without a claim', () => {
  const { arrive, claim, delivered } = open({ args: [{ concurrency: 3 }] })
  arrive()
  expect([delivered.length, claim.mock.calls]).toEqual([1, []])
})

test('a job with a concurrency key does not run while no gateway answers; the question is asked again', async () => {
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
  const { arrive, claim, delivered, settled } = open(KEYED)
  arrive()
  await vi.advanceTimersByTimeAsync(3_500)
  expect(claim.mock.calls.map(([, keyed]) => keyed?.again)).toEqual([false, true, true, true])
  expect([delivered, settled]).toEqual([[], []])
  claim.mockResolvedValueOnce({ decision: 'run', attempt: 1, isStarted: true })
  await vi.advanceTimersByTimeAsync(1_000)
  expect(delivered).toHaveLength(1)
})

test('a job that was held back may come once more before the answer that says so: that message is kept', async () => {
  const { arrive, claim, delivered, settled } = open(KEYED)
  const answer = deferred<Claimed>()
  claim.mockReturnValueOnce(answer.promise)
  arrive()
  arrive()
  expect(settled).toEqual([])
  claim.mockResolvedValueOnce({ decision: 'run', attempt: 1, isStarted: true })
  answer.resolve({ decision: 'drop', attempt: 1 })
  await vi.waitFor(() => expect(delivered).toHaveLength(1))
  expect(settled).toEqual(['ack'])
  expect(claim).toHaveBeenCalledTimes(2)
})

test.each<[string, Claimed | null, string[]]>([
  ['not answered', null, ['released']],
  ['answered in vain', { decision: 'run', attempt: 1, isStarted: true }, ['released']],
  ['answered without a begin', { decision: 'drop', attempt: 1 }, []],
])(
  'an attempt that may have begun for a message that is lost with its channel is given back first: %s',
  async (_, answer, told) => {
    const { arrive, claim, delivered, reported, settled } = open(KEYED)
    const first = deferred<Claimed | null>()
    claim.mockReturnValueOnce(first.promise)
    const lost = arrive()
    lost.place = 'gone'
    // RabbitMQ delivers the message again before the question is given up.
    arrive(true)
    expect([delivered, claim.mock.calls.length]).toEqual([[], 1])
    claim.mockImplementationOnce(async () => {
      reported.push('claimed anew')
      return { decision: 'run', attempt: 1, isStarted: true }
    })
    first.resolve(answer)
    await vi.waitFor(() => expect(delivered).toHaveLength(1))
    expect(reported).toEqual([...told, 'claimed anew'])
    // That question may still be on its way, and begin the attempt once more.
    expect(claim.mock.calls.at(-1)?.[1]?.again).toBe(told.length > 0)
    expect(settled).not.toContain('dead-letter')
  },
)
