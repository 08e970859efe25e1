import { beforeEach, expect, it, vi } from 'vitest'
import type { OwedMessage } from '../../src/job/job.ts'
import { ANY_JOB } from '../../src/job/search/filter.ts'
import type { JobAction } from '../../src/job/steer.ts'
import type { Deps } from '../../src/operations/deps.ts'
import { BulkSignals } from '../../src/operations/steer/signals.ts'
import { bulkOperations } from '../../src/services/bulk.ts'
import { eventOf, REPORT } from '../ledger/contract/reports.ts'
import { died, NOW, pushed } from '../ledger/harness.ts'
import { ledgerOfTest } from '../ledger/sqlite/harness.ts'
import { onToldBroker } from '../operations/job-messages/told-broker.ts'
import { runningUntil } from './running.ts'

const JOBS = 600
/** Less than the jobs, so that the operation has to wait. */
const MAX_OWED = 200

const harness = ledgerOfTest()
let deps: Deps
let events: ReturnType<typeof onToldBroker>['events']
beforeEach(() => {
  const told = onToldBroker(harness, {})
  deps = { ...told.deps, bulk: new BulkSignals() }
  events = told.events
})

const counts = () => harness.ledger.known.counts('q')

async function begun(
  action: JobAction,
  state: 'cancelled' | 'discarded' | 'available',
  queues: readonly string[] = [],
): Promise<string> {
  const id = deps.newId()
  const steering = { action, states: [state], deadLettersOnly: false, sparesRetried: false }
  await harness.ledger.bulk.begin({
    ...{ id, action, asked: '{}', filter: { ...ANY_JOB, states: [state], queues }, limit: null },
    ...{ steering: { ...steering, scope: null }, expected: { count: 0, isBound: true } },
    ...{ cause: { requestId: 'req_1' }, createdAt: NOW },
  })
  return id
}

async function cancelled(queue = 'q', count = JOBS): Promise<void> {
  const due = { state: 'scheduled', dueAt: NOW + 1e9 } as const
  const one = async () => (await pushed(harness.ledger, { queue, start: due })).id
  const ids = await Promise.all(Array.from({ length: count }, one))
  await Promise.all(ids.map((id) => harness.ledger.cancel(id, NOW)))
  await confirmAll()
}

/** What the relay does. */
async function confirmAll(isTaken: (owed: OwedMessage) => boolean = () => true): Promise<void> {
  const owed = await harness.ledger.read.outboxPage(0, 2 * JOBS)
  for (const { outbox } of owed.filter(isTaken)) harness.ledger.confirmed(outbox)
  await harness.ledger.handOver([])
}

/** What the service does: it finds `room` for messages or is `behind`, and acts on a `page`. */
function watched(): string[] {
  const steps: string[] = []
  const { read, bulk } = harness.ledger
  const ask = read.owedMessages.bind(read)
  vi.spyOn(read, 'owedMessages').mockImplementation(async (most, kind) => {
    const owed = await ask(most, kind)
    steps.push(owed === MAX_OWED ? 'behind' : 'room')
    return owed
  })
  const advance = bulk.advance.bind(bulk)
  vi.spyOn(bulk, 'advance').mockImplementation((...given) => {
    steps.push('page')
    return advance(...given)
  })
  return steps
}

it('an operation waits while the relay is behind, and goes on when it has caught up', async () => {
  await cancelled()
  const id = await begun('retry', 'cancelled')
  const steps = watched()
  let done = 0
  await runningUntil(bulkOperations(deps, MAX_OWED), async () => {
    // Asked again and again: it does not go on by itself.
    if (steps.length > done + 4 && steps.slice(-3).every((step) => step === 'behind')) {
      done = steps.length
      await confirmAll()
    }
    expect(counts().available).toBe(JOBS)
  })
  expect(steps.join(' ')).toContain('behind behind behind')
  expect(steps.join(' ')).not.toContain('behind page')
  expect(await harness.ledger.read.bulk.find(id)).toMatchObject({
    state: 'completed',
    succeeded: JOBS,
  })
  expect(events.filter(({ type }) => type === 'bulk.retry.completed')).toHaveLength(1)
})

it('an operation does nothing as long as native workers may have ended jobs that look as if they waited', async () => {
  const { id: ended } = await pushed(harness.ledger, { queue: 'q' })
  await pushed(harness.ledger, { queue: 'q' })
  const id = await begun('cancel', 'available')
  const steps = watched()
  const looks = [1, 2, 3]
  let isHeard = false
  Object.assign(deps.broker, { controlBacklogConsumed: () => looks.pop() === undefined && isHeard })
  await runningUntil(bulkOperations(deps, MAX_OWED), async () => {
    expect(looks).toEqual([])
    if (!isHeard) {
      expect(steps).toEqual([])
      const report = eventOf(ended, { event: 'completed', result: null })
      await harness.ledger.applyReports([report], REPORT)
      isHeard = true
    }
    expect(counts()).toMatchObject({ cancelled: 1, completed: 1 })
  })
  expect(await harness.ledger.read.bulk.find(id)).toMatchObject({ succeeded: 1, failed: 0 })
})

it('an operation that waits for a full queue keeps neither other queues nor a cancel of its jobs waiting', async () => {
  await cancelled()
  await cancelled('other', 20)
  const stateOf = async (id: string) => (await harness.ledger.read.bulk.find(id))?.state
  const stuck = await begun('retry', 'cancelled', ['q'])
  const service = bulkOperations(deps, MAX_OWED)
  await runningUntil(service, () => expect(counts().available).toBeGreaterThan(MAX_OWED - 20))
  expect(await stateOf(stuck)).toBe('running')
  const others = [await begun('retry', 'cancelled', ['other']), await begun('retry', 'discarded')]
  await runningUntil(service, async () => {
    for (const id of others) expect(await stateOf(id)).toBe('completed')
  })
  expect(await stateOf(stuck)).toBe('running')
  const cancel = await begun('cancel', 'available', ['q'])
  await runningUntil(service, async () => {
    await confirmAll(({ state }) => state === 'cancelled')
    expect(await stateOf(cancel)).toBe('completed')
  })
  expect(harness.ledger.known.counts('other').available).toBe(20)
})

it('a deletion waits for nobody: it owes no messages', async () => {
  await cancelled()
  for (let i = 0; i < 3; i++) await died(harness.ledger, { queue: 'q' })
  await pushed(harness.ledger, { queue: 'q' })
  const id = await begun('delete', 'cancelled')
  await runningUntil(bulkOperations(deps, 1), () => expect(counts().cancelled).toBe(0))
  expect(counts()).toMatchObject({ discarded: 3, available: 1 })
  expect(await harness.ledger.read.bulk.find(id)).toMatchObject({
    state: 'completed',
    succeeded: JOBS,
  })
})
