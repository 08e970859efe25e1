import { afterEach, beforeEach, expect, it } from 'vitest'
import type { Broadcast, PublishOutcome } from '../../src/broker/broker.ts'
import { pauseQueue, resumeQueue, tellOwedPauses } from '../../src/operations/pause.ts'
import { pushed, settleLazily } from '../ledger/harness.ts'
import { openSqliteHarness, type SqliteHarness } from '../ledger/sqlite-harness.ts'
import { deferred } from '../support/deferred.ts'
import { onToldBroker, type ToldStage } from './told-broker.ts'

const CONTEXT = { requestId: 'req_1' }

let harness: SqliteHarness
let stage: ToldStage
/** What workers of the queue are told, in order, and how RabbitMQ answers each. */
let said: string[]
let answers: ((outcome: PublishOutcome) => void)[]

beforeEach(async () => {
  harness = await openSqliteHarness()
  said = []
  answers = []
  stage = onToldBroker(harness, {
    pauseChanged: () => {},
    broadcast: ({ type }: Broadcast) => {
      const { promise, resolve } = deferred<PublishOutcome>()
      said.push(type)
      answers.push(resolve)
      return promise
    },
  })
  await pushed(harness.ledger, { queue: 'q' })
})
afterEach(() => harness.destroy())

/** As each is said, and not when its workers have heard of it. */
async function change(operation: typeof pauseQueue | typeof resumeQueue): Promise<void> {
  const before = said.length
  void operation(stage.deps, 'q', CONTEXT)
  await expect.poll(() => said.length).toBe(before + 1)
}

async function answer(place: number, outcome: PublishOutcome): Promise<void> {
  answers[place]?.(outcome)
  await settleLazily(harness.ledger)
}

it.each([
  ['paused', [pauseQueue, resumeQueue, pauseQueue]],
  ['resumed', [pauseQueue, resumeQueue, pauseQueue, resumeQueue]],
] as const)(
  'workers that have heard an earlier word are still owed the last one: %s',
  async (_, operations) => {
    for (const operation of operations) await change(operation)
    const last = operations.length - 1
    // The same as the last, but what was said between them came after it.
    for (let place = 0; place < last; place++) await answer(place, 'confirmed')
    await answer(last, 'unknown')
    const again = tellOwedPauses(stage.deps)
    expect(said.at(last + 1)).toBe(said.at(last))
    await answer(last + 1, 'confirmed')
    await again
    await settleLazily(harness.ledger)
    await tellOwedPauses(stage.deps)
    expect(said).toHaveLength(last + 2)
    await harness.reopen()
    expect(harness.ledger.pauses.owed().has('q')).toBe(last % 2 === 0)
  },
)
