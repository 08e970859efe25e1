import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import type { PublishOutcome } from '../../src/broker/broker.ts'
import type { Deps } from '../../src/operations/deps.ts'
import { sendThenSettle } from '../../src/operations/lease-end.ts'
import { push } from '../../src/operations/push.ts'
import { type Relay, relay } from '../../src/services/relay.ts'
import { fetched, NOW } from '../ledger/harness.ts'
import { openSqliteHarness, type SqliteHarness } from '../ledger/sqlite-harness.ts'
import { onToldBroker } from '../operations/told-broker.ts'
import { eventually } from '../support/in-process.ts'

const DELAY_MS = 125

let harness: SqliteHarness
let deps: Deps
let outbox: Relay
let publishes: ((outcome: PublishOutcome) => void)[]
beforeEach(async () => {
  harness = await openSqliteHarness()
  publishes = []
  const publish = () => new Promise<PublishOutcome>((resolve) => publishes.push(resolve))
  const stage = onToldBroker(harness, { publish })
  deps = { ...stage.deps, wakeRelay: (what) => outbox.wake(what) }
  outbox = relay(deps)
  await outbox.start()
})
afterEach(async () => {
  await outbox.stop(AbortSignal.timeout(1_000))
  await harness.destroy()
})

/** A look of the relay, to the last page. */
async function looked(): Promise<void> {
  const pages = vi.spyOn(harness.ledger, 'outboxPage')
  outbox.wake()
  await eventually(() => {
    const last = pages.mock.results.at(-1)
    return last?.type === 'return' && last.value.length === 0
  })
  pages.mockRestore()
}

/** A leaderless rung does not confirm, and its job is due long before that is known. */
it('publishes a retry that was due while its publish into a rung was under way, and failed', async () => {
  const { ledger } = harness
  const { id } = await fetched(ledger)
  const row = await ledger.fail(
    id,
    { generation: 0, attempt: 1 },
    {
      ...{ now: NOW, error: null, errors: null, to: 'retryable', isTokenBack: true },
      ...{ dueAt: NOW + DELAY_MS, delayMs: DELAY_MS, rungMs: DELAY_MS },
    },
  )
  if (row === 'stale') throw new Error('the job is leased')
  const sent = sendThenSettle(deps, row, undefined)
  await ledger.promote(NOW + DELAY_MS, NOW, 10)
  await looked()
  expect(publishes).toHaveLength(1)
  publishes[0]?.('unknown')
  await sent
  await eventually(() => publishes.length === 2)
  publishes[1]?.('confirmed')
})

it('leaves alone what was in hand when it looked, and is confirmed since', async () => {
  const pushed = push(deps, { type: 'a', args: [] }, { requestId: 'req_1' })
  await eventually(() => publishes.length === 1)
  await looked()
  publishes[0]?.('confirmed')
  const { job } = await pushed
  // Its row owes the token until the confirm has its commit.
  expect(harness.ledger.find(job.id)?.outbox).toBe(job.outbox)
  await looked()
  expect(publishes).toHaveLength(1)
})
