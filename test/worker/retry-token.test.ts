import { expect, test } from 'vitest'
import type { PublishOutcome } from '../../src/broker/broker.ts'
import type { LiveDelivery } from '../../src/broker/delivery.ts'
import type { AmqpLink } from '../../src/worker/link.ts'
import { decideFailure } from '../../src/worker/retry-token.ts'
import type { TokenJob } from '../../src/worker/token-job.ts'

const FAILURE = { code: 'boom', type: 'Boom', message: 'm', retryable: true }

interface Given {
  isKnown?: boolean
  bytes?: number
  isRungReady?: boolean
  attempt?: number
  hasGateway?: boolean
  /** What each look at the retry queue finds, and how late it is then. */
  looks?: (readonly [found: string, now: number])[]
}

/** What becomes of a failed first attempt of three. */
function decide(
  outcome: PublishOutcome,
  {
    isKnown = true,
    bytes = 2,
    isRungReady = true,
    attempt = 1,
    hasGateway = true,
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
    rungs: { isReady: () => isRungReady, ensure },
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
  const token = {
    ...{ job: { id: 'j', type: 't', queue: 'q' }, maxAttempts: 3, isKnown },
    ...{ envelope: () => '{}', carry: () => null },
  } as unknown as TokenJob
  const announced: number[] = []
  const onPublish = () => announced.push(sent.length)
  const run = { delivery, token, attempt, failure: FAILURE, onPublish }
  const decided = decideFailure(link, run, hasGateway)
  return decided.then((said) => ({ said, sent, announced }))
}

const IN_RUNG = { decision: 'retry', rung_ms: expect.any(Number) }
const LEFT = { decision: 'retry', rung_ms: null }

test('the next token is in its retry queue when RabbitMQ has confirmed it', async () => {
  expect(await decide('confirmed')).toMatchObject({ said: IN_RUNG, sent: ['ojs.exchange.retry'] })
})

test('its worker hears of it before it is published, and not where it is not', async () => {
  expect(await decide('unknown')).toMatchObject({ announced: [0], sent: ['ojs.exchange.retry'] })
  expect((await decide('confirmed', { isRungReady: false })).announced).toEqual([])
})

test.each<PublishOutcome>(['nacked', 'returned', 'unknown', 'refused', 'forbidden'])(
  'one that was %s may be nowhere: the retry is left to the gateway',
  async (outcome) => {
    expect((await decide(outcome)).said).toMatchObject(LEFT)
  },
)

test('so is the retry whose queue cannot be used', async () => {
  expect(await decide('confirmed', { isRungReady: false })).toMatchObject({ said: LEFT, sent: [] })
})

const LATE = [['unusable', 4_999] as const, ['ready', 4_999] as const]
const TOO_LATE = [['unusable', 5_000] as const, ['ready', 5_000] as const]

test('with no gateway to hold the job that queue is waited for, and not for ever', async () => {
  const alone = { isRungReady: false, hasGateway: false }
  expect((await decide('confirmed', { ...alone, looks: LATE })).said).toMatchObject(IN_RUNG)
  const over = await decide('confirmed', { ...alone, looks: TOO_LATE })
  expect(over).toMatchObject({ said: LEFT, sent: [] })
})

test('it is for one that no gateway could be shown, too', async () => {
  const huge = { isRungReady: false, isKnown: false, bytes: 900_001 }
  expect((await decide('confirmed', { ...huge, looks: LATE })).said).toMatchObject(IN_RUNG)
  const over = await decide('confirmed', { ...huge, looks: TOO_LATE })
  expect([over.said, over.sent]).toEqual([{ decision: 'discard' }, []])
})

test('a job that no gateway knows, and that is too large to be shown to one, becomes a dead letter', async () => {
  const huge = { isKnown: false, bytes: 900_001 }
  expect((await decide('nacked', huge)).said).toEqual({ decision: 'discard' })
  expect((await decide('confirmed', huge)).said).toMatchObject(IN_RUNG)
  expect((await decide('nacked', { ...huge, bytes: 900_000 })).said).toMatchObject(LEFT)
})

test('the last attempt has no next one', async () => {
  const { said, sent } = await decide('confirmed', { attempt: 3 })
  expect([said, sent]).toEqual([{ decision: 'discard' }, []])
})
