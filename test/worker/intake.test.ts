import { EventEmitter } from 'node:events'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, it, vi } from 'vitest'
import { Intake, type IntakeDeps } from '../../src/worker/intake.ts'
import { deferred } from '../support/deferred.ts'

/** An intake whose consumer RabbitMQ has not confirmed yet. */
async function opening() {
  const consumeOk = deferred<object>()
  const asked = deferred()
  const consume = vi.fn(() => {
    asked.resolve()
    return consumeOk.promise
  })
  const done = async () => {}
  const cancel = vi.fn(done)
  const methods = { prefetch: done, consume, cancel, close: done }
  const channel = Object.assign(new EventEmitter(), methods)
  const link = {
    consume: { listen() {}, isUp: true, openChannel: async () => channel },
    declarer: { ensure: async () => 'ready' },
    names: { jobQueue: (queue: string) => queue },
    clock: { now: () => 0 },
    random: () => 0,
    observer: {},
  }
  const deps = { link, prefetch: 1, lingerMs: 0, instance: 'w', onLost() {} }
  const intake = new Intake(deps as unknown as IntakeDeps)
  void intake.open(['q'])
  await asked.promise
  return { intake, consume, cancel, confirm: () => consumeOk.resolve({}) }
}

it.each([
  ['quiet', (intake: Intake) => intake.quiet()],
  ['paused', (intake: Intake) => intake.pause('q')],
  ['quiet a second time', (intake: Intake) => twice(intake)],
])('is %s when the consumer that was opening has ended, and not before', async (_, end) => {
  const { intake, cancel, confirm } = await opening()
  const onEnded = vi.fn()
  const ended = end(intake).then(onEnded)
  for (let i = 0; i < 3; i++) await nextTurn()
  expect(onEnded).not.toHaveBeenCalled()
  confirm()
  await ended
  expect(cancel).toHaveBeenCalledOnce()
})

it.each([
  ['stays paused', true],
  ['was resumed meanwhile', false],
])('tells whether a queue %s', async (_, isPaused) => {
  const { intake, confirm } = await opening()
  const paused = intake.pause('q')
  if (!isPaused) void intake.resume('q')
  confirm()
  expect(await paused).toBe(isPaused)
})

it('consumes a queue that rests when it is woken, and not when RabbitMQ is back', async () => {
  const { intake, consume, confirm } = await opening()
  confirm()
  expect(await intake.rest('q')).toBe(true)
  await intake.open(['q'])
  expect(consume).toHaveBeenCalledOnce()
  intake.wake()
  await expect.poll(() => consume.mock.calls).toHaveLength(2)
  await intake.quiet()
  await intake.open(['q'])
  expect(consume).toHaveBeenCalledTimes(2)
})

it('tells that a queue was woken before it rested', async () => {
  const { intake, consume, confirm } = await opening()
  const resting = intake.rest('q')
  intake.wake()
  confirm()
  expect(await resting).toBe(false)
  await expect.poll(() => consume.mock.calls).toHaveLength(2)
})

/** As a worker that is stopped: it does not wait for its first `quiet`. */
async function twice(intake: Intake): Promise<void> {
  void intake.quiet()
  await intake.quiet()
}
