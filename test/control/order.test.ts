import { beforeEach, describe, expect, it, vi } from 'vitest'
import type { ControlMessage, PublishOutcome, Reply } from '../../src/broker/broker.ts'
import { shownMessage } from '../../src/broker/messages/incoming-message.ts'
import { controlDoor } from '../../src/control/consumer.ts'
import { unavailable } from '../../src/errors.ts'
import { WorkerRegistry } from '../../src/operations/workers/worker-registry.ts'
import { uuid7 } from '../../src/uuid.ts'
import { NOW, pushed } from '../ledger/harness.ts'
import { ledgerOfTest, refuseChangesOf } from '../ledger/sqlite/harness.ts'
import { onToldBroker } from '../operations/job-messages/told-broker.ts'
import { SILENT } from '../support/time/silent.ts'

const harness = ledgerOfTest()
let replies: Reply[]
let take: ReturnType<typeof controlDoor>
/** The outcome of each broadcast. */
let broadcastOutcome: () => Promise<PublishOutcome>

beforeEach(() => {
  replies = []
  broadcastOutcome = async () => 'confirmed'
  const { deps } = onToldBroker(harness, {
    // Never confirmed, since the confirmed copy of a dead letter would change the answer to a claim.
    publish: () => new Promise(() => {}),
    broadcast: () => broadcastOutcome(),
    shown: shownMessage,
    reply: async (reply) => {
      replies.push(reply)
      return 'confirmed'
    },
  })
  Object.assign(deps, { workers: new WorkerRegistry(deps.clock) })
  const observer = {
    received() {},
    malformed() {},
    skipped() {},
    refused() {},
    died() {},
    replyDropped() {},
  }
  take = controlDoor({ deps, observer })
})

type Sent = [type: string, body: object]

const report = (...events: object[]): Sent => ['report', { worker_id: 'w1', events }]
const claim = (id: string): Sent => ['claim', { job_id: id, attempt: 1, worker_id: 'w2' }]

function message([type, body]: Sent): ControlMessage {
  const content = Buffer.from(JSON.stringify(body))
  const asker = { replyTo: 'asker', correlationId: 'c' }
  return { queue: 'default', type: `ojs.control.${type}`, content, redelivered: false, ...asker }
}

/** Takes all messages in one turn, and returns the answer to the last one, which is a question. */
async function answered(...sent: Sent[]): Promise<unknown> {
  await Promise.allSettled(sent.map((one) => take(message(one))))
  return JSON.parse(replies.at(-1)?.body ?? 'null')
}

const FAILURE = { code: 'boom', message: 'it went off', retryable: false }

describe('a claim is answered after earlier messages are applied:', () => {
  const said = (id: string, event: string, more: object = {}) =>
    report({ job_id: id, attempt: 1, event, ...more })

  it.each<[what: string, before: (id: string) => Sent[], answer: object]>([
    ['a start', (id) => [said(id, 'started')], { decision: 'drop' }],
    ['a success', (id) => [said(id, 'completed')], { decision: 'drop' }],
    ['a failure', (id) => [said(id, 'failed', { error: FAILURE })], { decision: 'discard' }],
    ['an expiry', (id) => [said(id, 'expired')], { decision: 'drop' }],
    ['a heartbeat', (id) => [['heartbeat', { worker_id: 'w1', job_id: id }]], { decision: 'drop' }],
    ['a cancellation', (id) => [['cancel', { job_id: id }]], { decision: 'drop' }],
    [
      'a start and its release',
      (id) => [said(id, 'started'), said(id, 'released', { token_attempt: 1 })],
      { decision: 'run', attempt: 1 },
    ],
    // The invalid event is replaced by a failure, which is applied with the others.
    [
      'an invalid success',
      (id) => [said(id, 'completed', { result: JSON.parse(`${'['.repeat(33)}${']'.repeat(33)}`) })],
      { decision: 'discard' },
    ],
  ])('%s', async (_, before, answer) => {
    const { id } = await pushed(harness.ledger, { expiresAt: NOW + 1 })
    expect(await answered(...before(id), claim(id))).toMatchObject(answer)
  })

  it('the cancellation of an unknown job', async () => {
    const id = uuid7()
    expect(await answered(['cancel', { job_id: id }], claim(id))).toMatchObject({
      decision: 'drop',
    })
  })

  it('a cancellation whose broadcast is not confirmed', async () => {
    const { id } = await pushed(harness.ledger)
    broadcastOutcome = () => new Promise(() => {})
    void take(message(['cancel', { job_id: id }]))
    expect(await answered(claim(id))).toMatchObject({ decision: 'drop' })
  })

  it('the other events of a report of which the ledger refuses one', async () => {
    const jobs = await Promise.all(Array.from({ length: 3 }, () => pushed(harness.ledger)))
    const [refused, other, last] = jobs.map(({ id }) => id) as [string, string, string]
    refuseChangesOf(harness.db, refused)
    const events = [refused, other, last].map((id) => ({
      job_id: id,
      attempt: 1,
      event: 'completed',
    }))
    expect(await answered(report(...events), claim(last))).toMatchObject({ decision: 'drop' })
  })

  it('but with backend_error when they cannot be written', async () => {
    const { id } = await pushed(harness.ledger)
    harness.ledger.written = () => Promise.reject(unavailable('The disk is full.', 'ledger'))
    expect(await answered(claim(id))).toMatchObject({ error: { code: 'backend_error' } })
  })
})

describe('INFO by message', () => {
  const info = (id: string): Sent => ['info', { job_id: id }]

  it('is answered after earlier messages are applied', async () => {
    const id = uuid7()
    const job = { id, type: 'a.b', args: [] }
    const done = report({ job_id: id, attempt: 1, event: 'completed', job })
    expect(await answered(done, info(id))).toMatchObject({ state: 'completed' })
  })

  it('is answered even if the ledger cannot be written', async () => {
    const { id } = await pushed(harness.ledger)
    harness.ledger.written = () => Promise.reject(unavailable('The disk is full.', 'ledger'))
    expect(await answered(info(id))).toMatchObject({ state: 'available' })
  })
})

it('an invalid event of an unknown job logs only that it was left out', async () => {
  const warn = vi.spyOn(SILENT, 'warn')
  const lost = { job_id: uuid7(), attempt: 1, event: 'completed', at: 7 }
  expect(await take(message(report(lost)))).toBe('handled')
  const lines = warn.mock.calls.map(([, line]) => line)
  warn.mockRestore()
  expect(lines).toEqual(['invalid events of a report left out'])
})
