import { beforeEach, describe, expect, it, vi } from 'vitest'
import type { ControlMessage, Reply } from '../../src/broker/broker.ts'
import { controlDoor } from '../../src/control/consumer.ts'
import { OjsError, unavailable } from '../../src/errors.ts'
import { fetched, pushed, rowOf } from '../ledger/harness.ts'
import { ledgerOfTest, refuseChangesOf } from '../ledger/sqlite/harness.ts'
import { onToldBroker, type ToldStage } from '../operations/job-messages/told-broker.ts'

const UNKNOWN_ID = '019539a4-b68c-7def-8000-00000000ffff'
const MAX_BYTES = 1_048_576

const harness = ledgerOfTest()
let stage: ToldStage
let replies: Reply[]
/** The calls of the telemetry observer. */
let heard: unknown[][]
let take: ReturnType<typeof controlDoor>

beforeEach(() => {
  replies = []
  heard = []
  stage = onToldBroker(harness, {
    broadcast: async () => 'confirmed',
    reply: async (reply) => {
      replies.push(reply)
      return 'confirmed'
    },
  })
  const observer = Object.fromEntries(
    ['received', 'malformed', 'skipped', 'replyDropped'].map((name) => [
      name,
      (...args: unknown[]) => heard.push([name, ...args]),
    ]),
  ) as unknown as Parameters<typeof controlDoor>[0]['observer']
  take = controlDoor({ deps: stage.deps, observer })
})

function message(type: string, body: unknown, given: Partial<ControlMessage> = {}): ControlMessage {
  const content = Buffer.from(typeof body === 'string' ? body : JSON.stringify(body))
  const asker = { replyTo: null, correlationId: null }
  return { queue: 'default', type, content, redelivered: false, ...asker, ...given }
}

const ASKER = { replyTo: 'amq.rabbitmq.reply-to.x', correlationId: 'c' }
const info = (id: string, given: Partial<ControlMessage> = ASKER) =>
  message('ojs.control.info', { job_id: id }, given)
const cancel = (id: string, given: Partial<ControlMessage> = {}) =>
  message('ojs.control.cancel', { job_id: id }, given)
const bodies = () => replies.map(({ body }) => JSON.parse(body))

describe('a control message', () => {
  it('is handled once its cancellation is committed', async () => {
    const { id } = await fetched(harness.ledger)
    expect(await take(cancel(id))).toBe('handled')
    expect((await rowOf(harness.ledger, id)).state).toBe('cancelled')
    expect(heard).toEqual([['received', 'ojs.control.cancel']])
  })

  it.each([
    ['ojs.control.checkpoint', { state: 'x'.repeat(MAX_BYTES) }],
    ['ojs.control.progress', { data: { text: 'x'.repeat(70_000) } }],
    ['ojs.control.progress', { checkpoint: 'x'.repeat(MAX_BYTES) }],
  ])('%s with more than is kept counts as malformed', async (type, more) => {
    const { id } = await fetched(harness.ledger)
    const sent = message(type, { job_id: id, attempt: 1, worker_id: 'w', ...more })
    expect(await take(sent)).toBe('malformed')
    expect(heard).toEqual([['malformed', type, 'too_large']])
  })

  it('about an ended or unknown job is handled without a reply', async () => {
    const { id } = await fetched(harness.ledger)
    await take(cancel(id))
    expect([await take(cancel(id)), await take(cancel(UNKNOWN_ID))]).toEqual(['handled', 'handled'])
    expect(replies).toEqual([])
  })

  it('a claim that comes again gets the same answer: its first one may be lost, and the attempt has begun', async () => {
    const carry = { concurrency: { key: 'k', limit: 1 } }
    const { id } = await pushed(harness.ledger, { carry, maxAttempts: 1 })
    const claim = (given: Partial<ControlMessage>) => {
      const body = { job_id: id, generation: 0, attempt: 1, worker_id: 'w', keyed: true }
      return take(message('ojs.control.claim', body, { ...ASKER, ...given }))
    }
    // The worker may have gone on since: nothing begins by a question that has been delivered before.
    for (const redelivered of [true, false, true, false]) await claim({ redelivered })
    const run = { decision: 'run', attempt: 1, started: true }
    // Asked anew by a worker that has had its answer: the attempt has died.
    expect(bodies()).toEqual([
      { decision: 'requeue', attempt: 1 },
      ...[run, run],
      { decision: 'discard', attempt: 1 },
    ])
  })

  it('that an operation refuses is handled, since a redelivery would be refused too', async () => {
    const { id } = await fetched(harness.ledger)
    harness.ledger.cancelAny = () => Promise.reject(new OjsError('not_found', 'No such job.'))
    expect(await take(cancel(id))).toBe('handled')
  })

  it('is redelivered as often as the ledger cannot be written', async () => {
    const { id } = await fetched(harness.ledger)
    harness.ledger.cancelAny = () => Promise.reject(unavailable('The disk is full.', 'ledger'))
    for (const redelivered of [false, true]) {
      await expect(take(cancel(id, { redelivered }))).rejects.toMatchObject({ status: 503 })
    }
  })

  it('that fails by a bug is redelivered once, and then malformed', async () => {
    const { id } = await fetched(harness.ledger)
    harness.ledger.cancelAny = () => Promise.reject(new TypeError('bug'))
    await expect(take(cancel(id))).rejects.toThrow('bug')
    expect(await take(cancel(id, { redelivered: true }))).toBe('malformed')
    expect(heard.at(-1)).toEqual(['malformed', 'ojs.control.cancel', 'failed'])
    refuseChangesOf(harness.db, id)
    Reflect.deleteProperty(harness.ledger, 'cancelAny')
    await expect(take(cancel(id))).rejects.toMatchObject({ status: 500 })
    expect(await take(cancel(id, { redelivered: true }))).toBe('malformed')
    harness.ledger.cancelAny = () => Promise.reject(new Error('something else'))
    await expect(take(cancel(id, { redelivered: true }))).rejects.toThrow('something else')
  })

  it.each<[what: string, sent: ControlMessage, type: string, reason: string]>([
    ['an unknown type', message('my.type', {}), 'unknown', 'unknown_type'],
    ['no JSON', message('ojs.control.cancel', '{'), 'ojs.control.cancel', 'invalid_json'],
    ['no type and no reply address', message('', {}), 'unknown', 'unknown_type'],
    ['no id', message('ojs.control.cancel', {}), 'ojs.control.cancel', 'invalid_request'],
    [
      'an invalid command with a reply address',
      message('ojs.control.cancel', {}, ASKER),
      'ojs.control.cancel',
      'invalid_request',
    ],
    [
      'a question without a reply address',
      info(UNKNOWN_ID, { replyTo: null }),
      'ojs.control.info',
      'no_reply_to',
    ],
    [
      'more than a MiB',
      message('ojs.control.cancel', `{"job_id":"${UNKNOWN_ID}"}`.padEnd(MAX_BYTES + 1)),
      'ojs.control.cancel',
      'too_large',
    ],
  ])(
    'is rejected as malformed, with the reason, and not answered: %s',
    async (_, sent, type, reason) => {
      expect(await take(sent)).toBe('malformed')
      expect(heard.at(-1)).toEqual(['malformed', type, reason])
      expect(replies).toEqual([])
    },
  )

  it('with invalid events is handled, and they are counted and logged', async () => {
    const warn = vi.spyOn(stage.deps.logger, 'warn')
    const report = { worker_id: 'w', events: [{}, { event: 'never' }] }
    expect(await take(message('ojs.control.report', report))).toBe('handled')
    expect(heard).toContainEqual(['skipped', 'ojs.control.report', 2])
    const told = warn.mock.calls.map(([fields]) => fields)
    warn.mockRestore()
    expect(told).toMatchObject([{ queue: 'default', type: 'ojs.control.report', count: 2 }])
  })

  it('may have 1 MiB, and a report three times the body limit more', async () => {
    const whole = `{"job_id":"${UNKNOWN_ID}"}`.padEnd(MAX_BYTES)
    expect(await take(message('ojs.control.cancel', whole))).toBe('handled')
    const limit = MAX_BYTES + 3 * stage.deps.settings.maxBodyBytes
    const report = (length: number) =>
      take(message('ojs.control.report', '{"worker_id":"w","events":[]}'.padEnd(length)))
    await report(limit)
    expect(heard.at(-1)).not.toContain('too_large')
    expect(await report(limit + 1)).toBe('malformed')
    expect(heard.at(-1)).toEqual(['malformed', 'ojs.control.report', 'too_large'])
  })
})

it.each([
  ['valid', '[]', ''],
  ['with a number that cannot be kept', '[1e999]', ''],
  ['that is no JSON', '[]', 'x'],
])(
  'a report of millions of values, %s, is refused before any of them is built',
  async (_, value, end) => {
    const parse = vi.spyOn(JSON, 'parse')
    const values = `${value},${'[],'.repeat(2_000_000)}[]`
    const text = `{"worker_id":"w","events":[{"args":[${values}]}]}${end}`
    expect(await take(message('ojs.control.report', text, { isLarge: true }))).toBe('malformed')
    expect(parse).not.toHaveBeenCalled()
    parse.mockRestore()
    expect(heard.at(-1)).toEqual(['malformed', 'ojs.control.report', 'too_large'])
  },
)

describe('a control question', () => {
  it('is answered to its reply address with the job as in HTTP', async () => {
    const { id } = await fetched(harness.ledger)
    expect(await take(info(id))).toBe('handled')
    expect(replies).toMatchObject([{ ...ASKER, type: 'ojs.control.info' }])
    expect(bodies()).toMatchObject([{ job: { id, state: 'active' } }])
  })

  it('without a type is taken for INFO if it has a reply address', async () => {
    const { id } = await fetched(harness.ledger)
    expect(await take(info(id, { ...ASKER, type: '' }))).toBe('handled')
    expect(bodies()).toMatchObject([{ job: { id } }])
    expect(await take(info(id, { type: '' }))).toBe('malformed')
  })

  it.each([
    ['an unknown id', info(UNKNOWN_ID), 'not_found', []],
    ['no id', message('ojs.control.info', {}, ASKER), 'invalid_request', ['invalid_request']],
    ['no JSON', message('ojs.control.info', '{', ASKER), 'invalid_payload', ['invalid_json']],
  ])('that cannot be answered gets an error: %s', async (_, sent, code, malformed) => {
    expect(await take(sent)).toBe('handled')
    expect(bodies()).toMatchObject([{ error: { code } }])
    // An invalid question is counted as malformed only, not as received.
    expect(heard.some(([what]) => what === 'received')).toBe(malformed.length === 0)
    expect(heard.filter(([what]) => what === 'malformed').map(([, , why]) => why)).toEqual(
      malformed,
    )
  })

  it('that fails by a bug gets a backend_error without the message of the bug', async () => {
    harness.ledger.read.find = () => {
      throw new TypeError('secret')
    }
    expect(await take(info(UNKNOWN_ID))).toBe('handled')
    expect(bodies()).toMatchObject([{ error: { code: 'backend_error' } }])
    expect(JSON.stringify(replies)).not.toContain('secret')
  })

  it('whose reply is returned is handled, and the dropped reply counted', async () => {
    stage.deps.broker.reply = async () => 'returned'
    expect(await take(info(UNKNOWN_ID))).toBe('handled')
    expect(heard).toContainEqual(['replyDropped', 'returned'])
  })
})

describe('a late report, which died in its queue', () => {
  const AT = '2026-11-26T12:00:00.000Z'
  const late = (id: string, ...events: object[]) =>
    message(
      'ojs.control.report',
      { worker_id: 'w', events: events.map((one) => ({ job_id: id, attempt: 1, at: AT, ...one })) },
      { isLate: true },
    )

  it('does not start a job, since the attempt may have been released meanwhile', async () => {
    const { id } = await pushed(harness.ledger)
    expect(await take(late(id, { event: 'started' }))).toBe('handled')
    expect(await rowOf(harness.ledger, id)).toMatchObject({ state: 'available', attempt: 0 })
  })

  it('does not release a job, since it may have been started again', async () => {
    const { id } = await pushed(harness.ledger)
    const started = { ...late(id, { event: 'started' }), isLate: false }
    await take(started)
    await take(late(id, { event: 'released', token_attempt: 1 }))
    expect(await rowOf(harness.ledger, id)).toMatchObject({ state: 'active', attempt: 1 })
  })

  it('completes a job', async () => {
    const { id } = await pushed(harness.ledger)
    await take(late(id, { event: 'started' }, { event: 'completed', result: 7 }))
    expect(await rowOf(harness.ledger, id)).toMatchObject({ state: 'completed', result: '7' })
  })
})
