import { beforeEach, expect, it } from 'vitest'
import type { Broadcast, PublishOutcome } from '../../../src/broker/broker.ts'
import { pauseQueue, resumeQueue, tellOwedPauses } from '../../../src/operations/queues/pause.ts'
import { pushed, settleLazily } from '../../ledger/harness.ts'
import { ledgerOfTest } from '../../ledger/sqlite/harness.ts'
import { deferred } from '../../support/time/deferred.ts'
import { onToldBroker, type ToldStage } from '../job-messages/told-broker.ts'

const CONTEXT = { requestId: 'req_1' }

const harness = ledgerOfTest()
let stage: ToldStage
/** The broadcasts to the workers of the queue, in order, and what resolves the outcome of each. */
let broadcasts: string[]
let answers: ((outcome: PublishOutcome) => void)[]

beforeEach(async () => {
  broadcasts = []
  answers = []
  stage = onToldBroker(harness, {
    pauseChanged: () => {},
    broadcast: ({ type }: Broadcast) => {
      const { promise, resolve } = deferred<PublishOutcome>()
      broadcasts.push(type)
      answers.push(resolve)
      return promise
    },
  })
  await pushed(harness.ledger, { queue: 'q' })
})

/** Resolves once the change is broadcast, without waiting for its outcome. */
async function change(operation: typeof pauseQueue | typeof resumeQueue): Promise<void> {
  const before = broadcasts.length
  void operation(stage.deps, 'q', CONTEXT)
  await expect.poll(() => broadcasts.length).toBe(before + 1)
}

async function answer(place: number, outcome: PublishOutcome): Promise<void> {
  answers[place]?.(outcome)
  await settleLazily(harness.ledger)
}

it.each([
  ['paused', [pauseQueue, resumeQueue, pauseQueue]],
  ['resumed', [pauseQueue, resumeQueue, pauseQueue, resumeQueue]],
] as const)(
  'tellOwedPauses repeats the last broadcast until it is confirmed, although earlier ones were: %s',
  async (_, operations) => {
    for (const operation of operations) await change(operation)
    const last = operations.length - 1
    // One of these equals the last broadcast, but the opposite one came after it.
    for (let place = 0; place < last; place++) await answer(place, 'confirmed')
    await answer(last, 'unknown')
    const again = tellOwedPauses(stage.deps)
    expect(broadcasts.at(last + 1)).toBe(broadcasts.at(last))
    await answer(last + 1, 'confirmed')
    await again
    await settleLazily(harness.ledger)
    await tellOwedPauses(stage.deps)
    expect(broadcasts).toHaveLength(last + 2)
    await harness.reopen()
    expect(harness.ledger.known.pauses.owed().has('q')).toBe(last % 2 === 0)
  },
)
