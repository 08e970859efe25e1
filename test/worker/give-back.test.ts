import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { LiveDelivery } from '../../src/broker/consume/delivery.ts'
import type { Running } from '../../src/worker/dispatcher.ts'
import { GiveBack, type GiveBackDeps } from '../../src/worker/give-back.ts'

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

function setUp(queues: readonly string[], isLeft = true) {
  const held: LiveDelivery[] = []
  const gaveBack: string[] = []
  const running = new Map<string, Running[]>()
  const slots = { free: 0 }
  const rest = vi.fn<GiveBackDeps['intake']['rest']>(async () => isLeft)
  const intake = { rest, wake: vi.fn() }
  const relief = new GiveBack({
    dispatcher: {
      held,
      running: () => running,
      giveBackHeld: (isMeant) => {
        gaveBack.push(...held.filter(isMeant).map(({ id }) => id))
      },
    },
    intake,
    sink: { capacity: () => slots.free },
    options: { queues },
  })
  relief.start()
  const hold = (id: string, queue: string) => held.push({ id, queue } as LiveDelivery)
  const pass = (seconds: number) => vi.advanceTimersByTimeAsync(seconds * 1_000)
  return { relief, intake, slots, running, hold, held, gaveBack, pass }
}

test('GiveBack gives all waiting jobs of a queue back, and lets it rest, when one has waited 5 s for a slot', async () => {
  const { intake, running, hold, gaveBack, pass } = setUp(['q'])
  running.set('q', [{ id: '0', generation: 0 }])
  hold('1', 'q')
  await pass(5)
  hold('2', 'q')
  expect([intake.rest.mock.calls, gaveBack]).toEqual([[], []])
  await pass(5)
  expect([intake.rest.mock.calls, gaveBack]).toEqual([[['q']], ['1', '2']])
})

test('GiveBack gives nothing back if no job waits for 5 s', async () => {
  const { hold, held, gaveBack, pass } = setUp(['q'])
  for (const id of ['1', '2', '3']) {
    hold(id, 'q')
    await pass(5)
    held.length = 0
  }
  expect(gaveBack).toEqual([])
})

test('GiveBack does not give back a job of another queue that has just come', async () => {
  const { intake, hold, gaveBack, pass } = setUp(['a', 'b'])
  hold('1', 'a')
  await pass(5)
  hold('2', 'b')
  await pass(5)
  expect([intake.rest.mock.calls, gaveBack]).toEqual([[['a']], ['1']])
})

test('GiveBack starts the 5 s of a waiting job anew after a slot was free', async () => {
  const { slots, hold, gaveBack, pass } = setUp(['q'])
  hold('1', 'q')
  await pass(5)
  slots.free = 1
  await pass(5)
  slots.free = 0
  await pass(5)
  expect(gaveBack).toEqual([])
})

test('GiveBack gives nothing back while a slot is free, or if the queue was woken before it rested', async () => {
  const { relief, intake, slots, hold, gaveBack, pass } = setUp(['q'], false)
  hold('1', 'q')
  slots.free = 1
  await pass(15)
  intake.wake.mockClear()
  relief.slotFree()
  expect(intake.wake).toHaveBeenCalledOnce()
  slots.free = 0
  await pass(10)
  relief.slotFree()
  expect(intake.wake).toHaveBeenCalledOnce()
  expect(gaveBack).toEqual([])
})

test('GiveBack with several queues gives jobs back only while no job runs', async () => {
  const { running, hold, gaveBack, pass } = setUp(['a', 'b'])
  running.set('a', [{ id: '1', generation: 0 }])
  hold('2', 'b')
  await pass(15)
  expect(gaveBack).toEqual([])
  running.clear()
  await pass(10)
  expect(gaveBack).toEqual(['2'])
})

test('GiveBack with several queues wakes all when a slot was free, although another job takes it at once', async () => {
  const { relief, intake, running, pass } = setUp(['a', 'b'])
  await pass(5)
  relief.slotFree()
  expect(intake.wake).not.toHaveBeenCalled()
  running.set('b', [{ id: '1', generation: 0 }])
  relief.slotFree()
  expect(intake.wake).toHaveBeenCalledOnce()
  // The job may not have begun when the slot became free, so the next check wakes the queues too.
  await pass(5)
  expect(intake.wake).toHaveBeenCalledTimes(2)
})

test('GiveBack gives nothing back after stop(), and leaves no timer', async () => {
  const { relief, hold, gaveBack, pass } = setUp(['q'])
  hold('1', 'q')
  relief.stop()
  await pass(15)
  expect([gaveBack, vi.getTimerCount()]).toEqual([[], 0])
})
