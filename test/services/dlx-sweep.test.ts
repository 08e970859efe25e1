import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import type { DeadLetterCopy, SweptDeadLetters } from '../../src/broker/broker.ts'
import type { Deps } from '../../src/operations/deps.ts'
import { dlxSweep } from '../../src/services/dlx-sweep.ts'
import {
  died,
  FAILED,
  failAttempt,
  fenceOf,
  fetched,
  jobMessage,
  NOW,
  pushed,
  revive,
  rowOf,
  settleLazily,
  staleQueues,
  TERMS,
} from '../ledger/harness.ts'
import { ledgerOfTest } from '../ledger/sqlite/harness.ts'
import { onToldBroker } from '../operations/job-messages/told-broker.ts'
import { inOrder } from '../support/broker/order.ts'

const ALL: SweptDeadLetters = { removed: 1, kept: 0, isComplete: true }

const harness = ledgerOfTest()
let now: number
let isUp: boolean
let service: ReturnType<typeof dlxSweep>
/** The outcome of a sweep, by queue; `ALL` unless set. */
let outcomes: Record<string, SweptDeadLetters | null>
/** The queues that were swept, in order. */
let swept: string[]
let isStale: (copy: DeadLetterCopy) => Promise<boolean>
/** The copies that every sweep finds. */
let copies: DeadLetterCopy[]
let warnings: string[]
/** Called when a sweep begins. */
let onSweep: () => void

beforeEach(async () => {
  now = NOW
  isUp = true
  outcomes = {}
  swept = []
  copies = []
  warnings = []
  onSweep = () => {}
  const { deps } = onToldBroker(harness, {
    status: () => (isUp ? { state: 'up' } : { state: 'down', reason: 'away' }),
    async sweepDeadLetters(queue, _max, stale) {
      swept.push(queue)
      onSweep()
      isStale = (copy) => stale(copy)
      for (const copy of copies) await stale(copy)
      return outcomes[queue] === undefined ? ALL : outcomes[queue]
    },
  })
  const logger = { ...deps.logger, warn: (_: object, text: string) => void warnings.push(text) }
  service = dlxSweep({ ...deps, logger, clock: { now: () => now, wall: () => 0 } } as Deps)
  await service.start()
})
afterEach(async () => {
  await service.stop(AbortSignal.abort())
})

/** Runs one pass of the service. */
async function pass(): Promise<void> {
  const begun = vi.spyOn(harness.ledger.known, 'staleCopies')
  service.wake()
  await vi.waitFor(() => expect(begun).toHaveBeenCalled(), { timeout: 15_000 })
  begun.mockRestore()
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve))
}

/** Makes a job whose copy is stale, since it is discarded and not listed. */
const plainDiscard = (queue: string) => died(harness.ledger, { queue, isDeadLetter: false })

it('the sweep removes only copies of ended jobs that are not listed, and of earlier generations', async () => {
  const { ledger } = harness
  const discarded = await plainDiscard('q')
  const listed = await died(ledger, { queue: 'q' })
  const cancelled = await pushed(ledger, { queue: 'q' })
  await ledger.cancel(cancelled.id, NOW)
  const active = await fetched(ledger, { queue: 'q' })
  const again = await died(ledger, { queue: 'q' })
  await revive(ledger, again.id, NOW)
  await pass()
  const copy = (id: string, generation = 0) => isStale({ id, generation, attempt: 1 })
  const judged = (rows: readonly { id: string }[]) => Promise.all(rows.map(({ id }) => copy(id)))
  expect(await judged([discarded, cancelled, again])).toEqual([true, true, true])
  expect(await judged([listed, active])).toEqual([false, false])
  expect([await copy(again.id, 1), await copy('unknown')]).toEqual([false, false])
})

it('the sweep removes the copy of the first generation when the job died in the second one too', async () => {
  const { ledger } = harness
  const { id } = await died(ledger, { queue: 'q' })
  await revive(ledger, id, NOW)
  await ledger.claim([jobMessage(id, { generation: 1 })], TERMS)
  const change = { ...FAILED, to: 'discarded', isDeadLetter: true, copy: 'nack' } as const
  await failAttempt(ledger, id, fenceOf(await rowOf(ledger, id)), change)
  await settleLazily(ledger)
  await pass()
  const judged = [0, 1].map((generation) => isStale({ id, generation, attempt: 1 }))
  expect(await Promise.all(judged)).toEqual([true, false])
})

it('the sweep clears the stale mark only of queues that it has read to the end', async () => {
  await plainDiscard('whole')
  await plainDiscard('part')
  await plainDiscard('gone')
  outcomes = { part: { ...ALL, isComplete: false }, gone: null }
  await pass()
  expect(inOrder(swept)).toEqual(['gone', 'part', 'whole'])
  expect(staleQueues(harness.ledger)).toEqual(['gone', 'part'])
})

it('a queue is swept less and less often while nothing is removed, with one warning', async () => {
  await plainDiscard('q')
  outcomes = { q: { removed: 0, kept: 65_535, isComplete: false } }
  await pass()
  for (const minutes of [2, 4, 8]) {
    const before = swept.length
    now += minutes * 60_000 - 1
    await pass()
    expect(swept).toHaveLength(before)
    now += 1
    await pass()
    expect(swept).toHaveLength(before + 1)
  }
  expect(warnings).toEqual(['more dead letter copies than a sweep can read'])
})

it('a queue is swept once a minute as long as something is removed', async () => {
  await plainDiscard('q')
  outcomes = { q: { removed: 1, kept: 65_534, isComplete: false } }
  for (const times of [1, 2, 3]) {
    await pass()
    expect(swept).toHaveLength(times)
    now += 60_000
  }
  expect(warnings).toEqual([])
})

it('no further queue is swept once the service is stopped', async () => {
  await plainDiscard('q')
  await plainDiscard('r')
  onSweep = () => void service.stop(AbortSignal.abort())
  await pass()
  expect(swept).toHaveLength(1)
})

it('no warning is logged when a sweep ends early after few copies', async () => {
  await plainDiscard('q')
  outcomes = { q: { removed: 0, kept: 3, isComplete: false } }
  await pass()
  expect([swept, warnings]).toEqual([['q'], []])
})

it('no queue is swept while RabbitMQ is down, and the next pass after that sweeps', async () => {
  await plainDiscard('q')
  isUp = false
  await pass()
  expect(swept).toEqual([])
  isUp = true
  await pass()
  expect(swept).toEqual(['q'])
})

it('a queue with the copy of an active job keeps its stale mark, and is swept again later', async () => {
  const { ledger } = harness
  await plainDiscard('q')
  const { id } = await fetched(ledger, { queue: 'q' })
  copies = [{ id, generation: 0, attempt: 1 }]
  outcomes = { q: { removed: 0, kept: 1, isComplete: true } }
  await pass()
  now += 60_000
  await pass()
  expect([swept, staleQueues(ledger), warnings]).toEqual([['q'], ['q'], []])
  await ledger.complete(id, {}, { now: NOW, result: null })
  now += 60_000
  await pass()
  expect([swept, staleQueues(ledger)]).toEqual([['q', 'q'], []])
})
