import { expect, test } from 'vitest'
import type { PublishOutcome } from '../../src/broker/broker.ts'
import type { LiveDelivery } from '../../src/broker/consume/delivery.ts'
import type { AmqpLink } from '../../src/worker/connection.ts'
import type { MessageJob } from '../../src/worker/message-job.ts'
import { decideFailure } from '../../src/worker/retry-message.ts'

const FAILURE = { code: 'boom', type: 'Boom', message: 'm', retryable: true }

interface Given {
  isKnown?: boolean
  bytes?: number
  isRetryQueueReady?: boolean
  attempt?: number
  hasGateway?: boolean
  /** Members of the job beside its id, type and queue. */
  members?: object
  /** The state that each check of the retry queue finds, and the time of the check. */
  looks?: (readonly [found: string, now: number])[]
}

/** Decides a failed attempt of three, by default the first. */
function decide(
  outcome: PublishOutcome,
  {
    isKnown = true,
    bytes = 2,
    isRetryQueueReady = true,
    attempt = 1,
    hasGateway = true,
    members = {},
    looks = [],
  }: Given = {},
) {
  const sent: string[] = []
  const left = [...looks]
  let now = 0
  const ensure = async () => {
    const [found, at] = left.shift() ?? ['unusable', now]
    now = at
    return found
  }
  const link = {
    names: { exchange: { retry: 'ojs.exchange.retry' } },
    clock: { now: () => now },
    random: () => 0.5,
    publish: { isUp: true },
    retryQueues: { isReady: () => isRetryQueueReady, ensure },
    publisher: {
      send: async ({ exchange }: { exchange: string }) => {
        sent.push(exchange)
        return outcome
      },
    },
  } as unknown as AmqpLink
  const delivery = {
    ...{ id: 'j', queue: 'q', generation: 0, attempt, priority: 0, message: { properties: {} } },
    raw: { content: Buffer.alloc(bytes), properties: {} },
  } as unknown as LiveDelivery
  const jobMessage = {
    ...{ job: { id: 'j', type: 't', queue: 'q', ...members }, maxAttempts: 3, isKnown },
    ...{ envelope: () => '{}', carry: () => null },
  } as unknown as MessageJob
  const announced: number[] = []
  const onPublish = () => announced.push(sent.length)
  const run = { delivery, jobMessage, attempt, failure: FAILURE, onPublish }
  const decided = decideFailure(link, run, hasGateway)
  return decided.then((said) => ({ said, sent, announced }))
}

const IN_RETRY_QUEUE = { decision: 'retry', rung_ms: expect.any(Number) }
const LEFT = { decision: 'retry', rung_ms: null }

test('decideFailure names the retry queue if RabbitMQ has confirmed the next job message', async () => {
  expect(await decide('confirmed')).toMatchObject({
    said: IN_RETRY_QUEUE,
    sent: ['ojs.exchange.retry'],
  })
})

test('decideFailure calls onPublish before the next job message is published, and not if none is', async () => {
  expect(await decide('unknown')).toMatchObject({ announced: [0], sent: ['ojs.exchange.retry'] })
  expect((await decide('confirmed', { isRetryQueueReady: false })).announced).toEqual([])
})

test.each<PublishOutcome>(['nacked', 'returned', 'unknown', 'refused', 'forbidden'])(
  'decideFailure leaves the retry to the gateway if the next job message was %s',
  async (outcome) => {
    expect((await decide(outcome)).said).toMatchObject(LEFT)
  },
)

test('decideFailure leaves the retry to the gateway if the retry queue cannot be used', async () => {
  expect(await decide('confirmed', { isRetryQueueReady: false })).toMatchObject({
    said: LEFT,
    sent: [],
  })
})

test.each([{ concurrency: { key: 'k', limit: 1 } }, { rate_limit: { key: 'k', concurrency: 1 } }])(
  'decideFailure leaves the retry of a job with %j to the gateway, which alone knows when it has a place',
  async (members) => {
    expect(await decide('confirmed', { members })).toMatchObject({ said: LEFT, sent: [] })
    // Nobody could hold this one.
    const huge = await decide('confirmed', { members, isKnown: false, bytes: 900_001 })
    expect(huge.said).toMatchObject(IN_RETRY_QUEUE)
  },
)

const LATE = [['unusable', 4_999] as const, ['ready', 4_999] as const]
const TOO_LATE = [['unusable', 5_000] as const, ['ready', 5_000] as const]

test('decideFailure without a gateway waits up to 5 s for the retry queue', async () => {
  const alone = { isRetryQueueReady: false, hasGateway: false }
  expect((await decide('confirmed', { ...alone, looks: LATE })).said).toMatchObject(IN_RETRY_QUEUE)
  const over = await decide('confirmed', { ...alone, looks: TOO_LATE })
  expect(over).toMatchObject({ said: LEFT, sent: [] })
})

test('decideFailure waits up to 5 s for the retry queue if the job is too large to show to a gateway', async () => {
  const huge = { isRetryQueueReady: false, isKnown: false, bytes: 900_001 }
  expect((await decide('confirmed', { ...huge, looks: LATE })).said).toMatchObject(IN_RETRY_QUEUE)
  const over = await decide('confirmed', { ...huge, looks: TOO_LATE })
  expect([over.said, over.sent]).toEqual([{ decision: 'discard' }, []])
})

test('decideFailure discards an unpublished retry of an unknown job of more than 900,000 bytes', async () => {
  const huge = { isKnown: false, bytes: 900_001 }
  expect((await decide('nacked', huge)).said).toEqual({ decision: 'discard' })
  expect((await decide('confirmed', huge)).said).toMatchObject(IN_RETRY_QUEUE)
  expect((await decide('nacked', { ...huge, bytes: 900_000 })).said).toMatchObject(LEFT)
})

test('decideFailure discards the last attempt without publishing', async () => {
  const { said, sent } = await decide('confirmed', { attempt: 3 })
  expect([said, sent]).toEqual([{ decision: 'discard' }, []])
})
