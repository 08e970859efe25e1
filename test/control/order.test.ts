import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { ControlMessage, PublishOutcome, Reply } from '../../src/broker/broker.ts'
import { shownMessage } from '../../src/broker/message.ts'
import { controlDoor } from '../../src/control/consumer.ts'
import { unavailable } from '../../src/errors.ts'
import { WorkerRegistry } from '../../src/operations/worker-registry.ts'
import { uuid7 } from '../../src/uuid.ts'
import { NOW, pushed } from '../ledger/harness.ts'
import {
  openSqliteHarness,
  refuseChangesOf,
  SILENT,
  type SqliteHarness,
} from '../ledger/sqlite-harness.ts'
import { onToldBroker } from '../operations/told-broker.ts'

let harness: SqliteHarness
let replies: Reply[]
let take: ReturnType<typeof controlDoor>
/** What is made of a broadcast. */
let told: () => Promise<PublishOutcome>

beforeEach(async () => {
  harness = await openSqliteHarness()
  replies = []
  told = async () => 'confirmed'
  const { deps } = onToldBroker(harness, {
    // A dead letter's copy that was confirmed already would change what a claim is told.
    publish: () => new Promise(() => {}),
    broadcast: () => told(),
    shown: shownMessage,
    reply: async (reply) => {
      replies.push(reply)
      return 'confirmed'
    },
  })
  Object.assign(deps, { workers: new WorkerRegistry(deps.clock) })
  const observer = { received() {}, malformed() {}, skipped() {}, died() {}, replyDropped() {} }
  take = controlDoor({ deps, observer })
})
afterEach(() => harness.destroy())

type Sent = [type: string, body: object]

const report = (...events: object[]): Sent => ['report', { worker_id: 'w1', events }]
const claim = (id: string): Sent => ['claim', { job_id: id, attempt: 1, worker_id: 'w2' }]

function message([type, body]: Sent): ControlMessage {
  const content = Buffer.from(JSON.stringify(body))
  const asker = { replyTo: 'asker', correlationId: 'c' }
  return { queue: 'q', type: `ojs.control.${type}`, content, redelivered: false, ...asker }
}

/** They come in one turn, as from a queue; the last one is a question: its answer. */
async function answered(...sent: Sent[]): Promise<unknown> {
  await Promise.allSettled(sent.map((one) => take(message(one))))
  return JSON.parse(replies.at(-1)?.body ?? 'null')
}

const FAILURE = { code: 'boom', message: 'it went off', retryable: false }

describe('a claim is answered from behind what was said before it:', () => {
  const said = (id: string, event: string, more: object = {}) =>
    report({ job_id: id, attempt: 1, event, ...more })

  it.each<[what: string, before: (id: string) => Sent[], answer: object]>([
    ['a start', (id) => [said(id, 'started')], { decision: 'drop' }],
    ['a success', (id) => [said(id, 'completed')], { decision: 'drop' }],
    ['a failure', (id) => [said(id, 'failed', { error: FAILURE })], { decision: 'discard' }],
    ['an end that nobody can run', (id) => [said(id, 'expired')], { decision: 'drop' }],
    ['a heartbeat', (id) => [['heartbeat', { worker_id: 'w1', job_id: id }]], { decision: 'drop' }],
    ['a cancellation', (id) => [['cancel', { job_id: id }]], { decision: 'drop' }],
    [
      'a start that is taken back',
      (id) => [said(id, 'started'), said(id, 'released', { token_attempt: 1 })],
      { decision: 'run', attempt: 1 },
    ],
    // The result is left out, and what stands in for it is written with the rest.
    [
      'a success that is not valid',
      (id) => [said(id, 'completed', { result: JSON.parse(`${'['.repeat(33)}${']'.repeat(33)}`) })],
      { decision: 'discard' },
    ],
  ])('%s', async (_, before, answer) => {
    const { id } = await pushed(harness.ledger, { expiresAt: NOW + 1 })
    expect(await answered(...before(id), claim(id))).toMatchObject(answer)
  })

  it('a cancellation of a job that nobody knows', async () => {
    const id = uuid7()
    expect(await answered(['cancel', { job_id: id }], claim(id))).toMatchObject({
      decision: 'drop',
    })
  })

  it('a cancellation whose broadcast is not answered', async () => {
    const { id } = await pushed(harness.ledger)
    told = () => new Promise(() => {})
    void take(message(['cancel', { job_id: id }]))
    expect(await answered(claim(id))).toMatchObject({ decision: 'drop' })
  })

  it('a report that is refused for one of its jobs, of all others', async () => {
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

  it('or not at all, where that cannot be written', async () => {
    const { id } = await pushed(harness.ledger)
    harness.ledger.written = () => Promise.reject(unavailable('The disk is full.', 'ledger'))
    expect(await answered(claim(id))).toMatchObject({ error: { code: 'backend_error' } })
  })
})

describe('a question for a job', () => {
  const info = (id: string): Sent => ['info', { job_id: id }]

  it('is answered from behind what was said before it', async () => {
    const id = uuid7()
    const job = { id, type: 'a.b', args: [] }
    const done = report({ job_id: id, attempt: 1, event: 'completed', job })
    expect(await answered(done, info(id))).toMatchObject({ state: 'completed' })
  })

  it('is answered where nothing can be written', async () => {
    const { id } = await pushed(harness.ledger)
    harness.ledger.written = () => Promise.reject(unavailable('The disk is full.', 'ledger'))
    expect(await answered(info(id))).toMatchObject({ state: 'available' })
  })
})

it('what stands in for an event that is left out says nothing of a job that nobody knows', async () => {
  const warn = vi.spyOn(SILENT, 'warn')
  const lost = { job_id: uuid7(), attempt: 1, event: 'completed', at: 7 }
  expect(await take(message(report(lost)))).toBe('handled')
  const lines = warn.mock.calls.map(([, line]) => line)
  warn.mockRestore()
  expect(lines).toEqual(['events left out'])
})
