import { describe, expect, it, vi } from 'vitest'
import type { EnsureOutcome } from '../../../src/broker/broker.ts'
import { TOUCHABLE } from '../../../src/job/steer.ts'
import { sync } from '../../../src/operations/native/sync.ts'
import { died, NOW, pushed, revive } from '../../ledger/harness.ts'
import { ledgerOfTest } from '../../ledger/sqlite/harness.ts'
import { Stopwatch } from '../../support/time/stopwatch.ts'
import { onToldBroker } from '../job-messages/told-broker.ts'

const harness = ledgerOfTest()

it('sync answers the generation of a cancelled job that was retried from the dead letters', async () => {
  const { ledger } = harness
  const [first, second] = [await pushed(ledger), await died(ledger)]
  await revive(ledger, second.id, NOW)
  await ledger.cancel(first.id, NOW)
  await ledger.cancel(second.id, NOW + 1)
  const { deps } = onToldBroker(harness, { recheckQueue: async () => 'ready' as const })
  expect(await sync(deps, { queues: ['default'] })).toMatchObject({
    tombstones: [second.id, first.id],
    generations: { [second.id]: 1 },
  })
})

it('sync answers the last generation of a job that has left messages of two', async () => {
  const { ledger } = harness
  const { id } = await pushed(ledger)
  const retry = { action: 'retry', states: TOUCHABLE.retry, deadLettersOnly: false } as const
  const steering = { ...retry, sparesRetried: false, scope: null }
  for (const at of [NOW, NOW + 1]) {
    await ledger.cancel(id, at)
    await ledger.bulk.act([id], steering, { now: at, wall: at, cause: {}, maxMs: 1_000 })
  }
  await ledger.cancel(id, NOW + 2)
  const { deps } = onToldBroker(harness, { recheckQueue: async () => 'ready' as const })
  expect(await sync(deps, { queues: ['default'] })).toMatchObject({
    tombstones: [id],
    generations: { [id]: 2 },
  })
})

it('sync rechecks the retry queues that a worker has found missing', async () => {
  const recheckQueue = async () => 'ready' as const
  const recheckRetryQueue = vi.fn(async () => 'ready' as const)
  const { deps } = onToldBroker(harness, { recheckQueue, recheckRetryQueue })
  await sync(deps, { queues: ['a'] })
  expect(recheckRetryQueue).not.toHaveBeenCalled()
  await sync(deps, { queues: ['a', 'b'], rung_ms: 500 })
  expect(recheckRetryQueue.mock.calls).toEqual([
    ['a', 500],
    ['b', 500],
  ])
})

describe('sync, while the queue cannot be checked', () => {
  const DOWN = { state: 'down', reason: 'no declare connection' } as const
  const UP = { state: 'up' } as const

  it('checks the queue again as soon as the connections are up', async () => {
    const answers: EnsureOutcome[] = ['unavailable', 'ready']
    const recheckQueue = vi.fn(async () => answers.shift() ?? 'lost')
    const states = [DOWN, DOWN, UP]
    const status = () => states.shift() ?? UP
    const { deps } = onToldBroker(harness, { recheckQueue, status })
    expect(await sync(deps, { queues: ['a'] })).not.toHaveProperty('not_ready')
    expect([recheckQueue.mock.calls.length, states]).toEqual([2, []])
    expect(harness.ledger.known.queues().map(({ name }) => name)).toEqual(['a'])
  })

  it.each([DOWN, UP])('does not list the queue in not_ready: %j', async (state) => {
    const recheckQueue = async (queue: string) => (queue === 'lost' ? 'lost' : 'unavailable')
    const { deps } = onToldBroker(harness, { recheckQueue, status: () => state })
    const [watch, queues] = [new Stopwatch(), ['a', 'lost', 'b']]
    const answer = await sync(deps, { queues })
    expect(answer).toMatchObject({ paused: [], directive: 'running', not_ready: ['lost'] })
    // The worker waits one second for the answer.
    expect(watch.elapsedMs).toBeLessThan(900)
    watch.end()
    expect(harness.ledger.known.queues()).toEqual([])
  })
})
