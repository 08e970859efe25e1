import { beforeEach, expect, it } from 'vitest'
import type { Presence } from '../../../src/broker/broker.ts'
import { QueueLookup } from '../../../src/broker/consume/queue-lookup.ts'
import { deferred } from '../../support/time/deferred.ts'

const MAX_RUNNING = 16

let now: number
/** Answer the look-ups that are under way. */
let answers: ((presence: Presence) => void)[]
let failures: ((error: unknown) => void)[]
let lookup: QueueLookup
beforeEach(() => {
  now = 1_000_000
  answers = []
  failures = []
  const ask = () => {
    const { promise, resolve, reject } = deferred<Presence>()
    answers.push(resolve)
    failures.push(reject)
    return promise
  }
  lookup = new QueueLookup(ask, { now: () => now, wall: () => now })
})

async function asked(queue: string, presence: Presence): Promise<boolean> {
  const asking = lookup.ask(queue)
  answers.shift()?.(presence)
  return asking
}

it('a queue is looked up once at a time, and at most 16 queues at the same time', async () => {
  const first = lookup.ask('q')
  expect(lookup.isPossible('q')).toBe(false)
  for (let i = 1; i < MAX_RUNNING; i++) {
    expect(lookup.isPossible(`other.${i}`)).toBe(true)
    void lookup.ask(`other.${i}`)
  }
  expect(lookup.isPossible('one.too.many')).toBe(false)
  answers[0]?.('exists')
  expect(await first).toBe(true)
  expect(lookup.isPossible('one.too.many')).toBe(true)
})

it.each(['missing', 'unavailable'] as const)(
  'a queue that is %s is not looked up again for a second',
  async (presence) => {
    expect(await asked('q', presence)).toBe(false)
    now += 999
    lookup.prune()
    expect(lookup.isPossible('q')).toBe(false)
    now += 1
    expect(lookup.isPossible('q')).toBe(true)
  },
)

it('a missing queue may be looked up at once when it was declared, or on another connection', async () => {
  await asked('a', 'missing')
  await asked('b', 'missing')
  lookup.forget('a')
  expect([lookup.isPossible('a'), lookup.isPossible('b')]).toEqual([true, false])
  lookup.forgetAll()
  expect(lookup.isPossible('b')).toBe(true)
})

it('a queue that exists may be looked up again at once', async () => {
  expect(await asked('q', 'exists')).toBe(true)
  expect(lookup.isPossible('q')).toBe(true)
})

it('a look-up that throws does not consumer channel the next one', async () => {
  const failing = lookup.ask('q')
  failures.shift()?.(new Error('a bug'))
  await expect(failing).rejects.toThrow('a bug')
  expect(lookup.isPossible('q')).toBe(false)
  now += 1_000
  expect(lookup.isPossible('q')).toBe(true)
})
