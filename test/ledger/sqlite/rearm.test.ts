import { expect, it } from 'vitest'
import { eventOf, REPORT } from '../contract/reports.ts'
import {
  FAILED,
  failAttempt,
  jobMessage,
  NOW,
  pushed,
  rowOf,
  settleLazily,
  TERMS,
} from '../harness.ts'
import { ledgerOfTest } from './harness.ts'

const LOOKED_AT = 10_000

const harness = ledgerOfTest()

/** Scheduled jobs that the ledger holds, so that their job message was in no queue. */
function plantHeld(count: number): void {
  harness.db.exec(`
    WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ${count})
    INSERT INTO jobs (id, generation, state, attempt, queue, type, priority, max_attempts, timeout_ms,
      token_out, created_at, enqueued_at, due_at, dead_letter_copied, envelope)
    SELECT 'held-' || hex(randomblob(8)), 0, 'scheduled', 0, 'q', 't', 0, 3, 0, 0, 1, 1,
      ${NOW * 2}, 0, '{}' FROM n`)
}

/** How many turns of the event loop pass during `work`. */
async function turnsOf(work: () => Promise<unknown>): Promise<number> {
  let turns = 0
  const count = () => {
    turns += 1
    others = setImmediate(count)
  }
  let others = setImmediate(count)
  await work()
  clearImmediate(others)
  return turns
}

async function plantBetween(): Promise<string> {
  plantHeld(2 * LOOKED_AT + 5)
  const { id, outbox } = await pushed(harness.ledger, { queue: 'q' })
  harness.ledger.confirmed(outbox)
  plantHeld(LOOKED_AT + 5)
  return id
}

it("rearm finds a lost queue's job among many others, a page at a time", async () => {
  const id = await plantBetween()
  const turns = await turnsOf(async () => expect(await harness.ledger.rearm('q', NOW)).toBe(1))
  expect((await harness.ledger.read.find(id))?.outbox).not.toBeNull()
  expect(turns).toBeGreaterThanOrEqual(6)
})

it.each(['report', 'heartbeat', 'claim'] as const)(
  'rearm owes a job message for a job that a worker starts between two pages, by %s',
  async (way) => {
    const { ledger } = harness
    plantHeld(LOOKED_AT + 5)
    const { id, outbox } = await pushed(ledger, { queue: 'q' })
    ledger.confirmed(outbox)
    await settleLazily(ledger)
    const rearming = ledger.rearm('q', NOW)
    // Between the first page and the second.
    const said = { event: 'started' } as const
    const beat = { now: NOW, wall: NOW, workerId: 'w', leaseMs: null, defaultLeaseMs: 1_000 }
    const ways = {
      report: () => ledger.applyReports([eventOf(id, said)], REPORT),
      heartbeat: () => ledger.beatNative([id], beat),
      // FETCH still has a delivery of the lost queue.
      claim: () => ledger.claim([jobMessage(id)], TERMS),
    }
    const started = await ways[way]()
    expect((await rowOf(ledger, id)).state).toBe('active')
    expect(started).toHaveLength(1)
    await rearming
    expect(await rowOf(ledger, id)).toMatchObject({ state: 'active', holder: 'ledger' })
    // The worker dies, and the delivery of the lost queue is not requeued.
    await failAttempt(ledger, id, { generation: 0, attempt: 1 }, { ...FAILED, to: 'available' })
    expect((await rowOf(ledger, id)).outbox).not.toBeNull()
  },
)

it("rearmRetryQueue finds a lost retry queue's job among many others, a page at a time", async () => {
  const id = await plantBetween()
  harness.db.exec(`UPDATE jobs SET state = 'active', attempt = 1 WHERE id = '${id}'`)
  const waiting = `state = 'retryable', due_at = ${NOW}, rung_ms = 250, outbox = NULL`
  harness.db.exec(`UPDATE jobs SET ${waiting} WHERE id = '${id}'`)
  const retryQueue = { queue: 'q', delayMs: 250 }
  const turns = await turnsOf(async () =>
    expect(await harness.ledger.rearmRetryQueue(retryQueue, NOW)).toBe(1),
  )
  expect((await harness.ledger.read.find(id))?.retryQueueMs).toBeNull()
  expect(turns).toBeGreaterThanOrEqual(6)
})

it('a lost queue counts as lost when that cannot be written, and is written the next time', async () => {
  await harness.ledger.recordQueue('q', NOW)
  harness.db.exec('PRAGMA query_only = 1')
  await expect(harness.ledger.lost.mark('q', NOW)).rejects.toMatchObject({ status: 503 })
  expect(harness.ledger.known.lost.all()).toEqual(['q'])
  harness.db.exec('PRAGMA query_only = 0')
  await harness.ledger.lost.mark('q', NOW)
  await harness.reopen()
  expect(harness.ledger.known.lost.all()).toEqual(['q'])
})
