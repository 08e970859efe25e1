import { expect, test } from 'vitest'
import type { ControlChannel } from '../../src/broker/control-channel.ts'
import { ControlQueues } from '../../src/broker/control-queues.ts'

const channel = (name: string) => ({ name }) as unknown as ControlChannel

function known(...names: string[]): ControlQueues {
  const queues = new ControlQueues(() => {})
  for (const name of names) queues.getOrCreate(name)
  return queues
}

test('a queue is told of once, before anything is known of it', () => {
  const told: [string, boolean][] = []
  const queues: ControlQueues = new ControlQueues((queue) => {
    told.push([queue, queues.find(queue) !== undefined])
  })
  const a = queues.getOrCreate('a')
  expect(queues.getOrCreate('a')).toBe(a)
  expect(a).toEqual({ channel: null, isRenewed: false, isUnsure: false, isToldMissing: false })
  expect(queues.find('b')).toBeUndefined()
  expect(told).toEqual([['a', false]])
  expect(queues.names()).toEqual(['a'])
})

test('a channel that is gone takes its own consumers with it, and no others', () => {
  const queues = known('a', 'b', 'c')
  const [one, two] = [channel('one'), channel('two')]
  queues.getOrCreate('a').channel = one
  queues.getOrCreate('b').channel = two
  queues.getOrCreate('c').channel = one
  expect(queues.on(one)).toEqual(['a', 'c'])
  queues.closed(one)
  expect(queues.on(one)).toEqual([])
  expect(queues.on(two)).toEqual(['b'])
})

test('those that are not well have no consumer, or one of which nothing is known', () => {
  const queues = known('none', 'unsure', 'well', 'denied')
  for (const queue of ['unsure', 'well']) queues.getOrCreate(queue).channel = channel(queue)
  queues.getOrCreate('unsure').isUnsure = true
  queues.deny('denied')
  expect(queues.unwell()).toEqual(['none', 'unsure'])
})

test('of those that are denied the one whose try is longest ago is checked', () => {
  const queues = known('a', 'b', 'c')
  queues.deny('a')
  queues.deny('b')
  expect(queues.checkable()).toEqual(['a', 'c'])
  queues.deny('a')
  expect(queues.checkable()).toEqual(['b', 'c'])
  expect(queues.isDenied('a')).toBe(true)
})

test('what is granted for one is tried with the others; for one that was not denied, with none', () => {
  const queues = known('a', 'b', 'c')
  queues.deny('a')
  queues.deny('b')
  expect(queues.allow('c')).toEqual([])
  expect(queues.allow('a')).toEqual(['b'])
  expect(queues.isDenied('a')).toBe(false)
  expect(queues.isDenied('b')).toBe(true)
})

test('what was seen on a connection does not outlive it, but for that which was told and deleted', () => {
  const queues = known('a')
  const a = queues.getOrCreate('a')
  Object.assign(a, { channel: channel('c'), isRenewed: true, isUnsure: true, isToldMissing: true })
  queues.deny('a')
  queues.disconnected()
  expect(a).toEqual({ channel: null, isRenewed: true, isUnsure: false, isToldMissing: true })
  expect(queues.isDenied('a')).toBe(false)
  expect(queues.names()).toEqual(['a'])
})
