import { EventEmitter } from 'node:events'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, it, vi } from 'vitest'
import { Intake, type IntakeDeps } from '../../src/worker/consumers.ts'
import { deferred } from '../support/time/deferred.ts'

/** An intake that has sent `basic.consume` and waits for RabbitMQ to confirm it. */
async function openingIntake() {
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
  ['quiet a second time', (intake: Intake) => quietTwice(intake)],
])(
  'Intake is %s only after the consumer that was being opened is confirmed and cancelled',
  async (_, end) => {
    const { intake, cancel, confirm } = await openingIntake()
    const onEnded = vi.fn()
    const ended = end(intake).then(onEnded)
    for (let i = 0; i < 3; i++) await nextTurn()
    expect(onEnded).not.toHaveBeenCalled()
    confirm()
    await ended
    expect(cancel).toHaveBeenCalledOnce()
  },
)

it.each([
  ['stays paused', true],
  ['was resumed meanwhile', false],
])('Intake.pause resolves with whether the queue %s', async (_, isPaused) => {
  const { intake, confirm } = await openingIntake()
  const paused = intake.pause('q')
  if (!isPaused) void intake.resume('q')
  confirm()
  expect(await paused).toBe(isPaused)
})

it('Intake consumes a resting queue again at wake(), but not at the open() after a reconnect', async () => {
  const { intake, consume, confirm } = await openingIntake()
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

it('Intake.rest resolves with false if wake() came before the queue rested, and consumes it again', async () => {
  const { intake, consume, confirm } = await openingIntake()
  const resting = intake.rest('q')
  intake.wake()
  confirm()
  expect(await resting).toBe(false)
  await expect.poll(() => consume.mock.calls).toHaveLength(2)
})

/** Calls `quiet` twice without waiting for the first, as a worker does that is stopped. */
async function quietTwice(intake: Intake): Promise<void> {
  void intake.quiet()
  await intake.quiet()
}
