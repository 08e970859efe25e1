import { expect, test } from 'vitest'
import type { ControlChannel } from '../../../src/broker/control/channel.ts'
import { ControlQueues } from '../../../src/broker/control/queues.ts'

const channel = (name: string) => ({ name }) as unknown as ControlChannel

function known(...names: string[]): ControlQueues {
  const queues = new ControlQueues(() => {})
  for (const name of names) queues.getOrCreate(name)
  return queues
}

test('a control queue is reported once, before it can be found', () => {
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

test('a closed channel takes its own consumers with it, and no others', () => {
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

test('unwell() returns the queues that have no consumer or an unsure one, and are not denied', () => {
  const queues = known('none', 'unsure', 'well', 'denied')
  for (const queue of ['unsure', 'well']) queues.getOrCreate(queue).channel = channel(queue)
  queues.getOrCreate('unsure').isUnsure = true
  queues.deny('denied')
  expect(queues.unwell()).toEqual(['none', 'unsure'])
})

test('checkable() returns, of the denied queues, only the one whose last try is longest ago', () => {
  const queues = known('a', 'b', 'c')
  queues.deny('a')
  queues.deny('b')
  expect(queues.checkable()).toEqual(['a', 'c'])
  queues.deny('a')
  expect(queues.checkable()).toEqual(['b', 'c'])
  expect(queues.isDenied('a')).toBe(true)
})

test('allow() returns the other denied queues, or none when its own queue was not denied', () => {
  const queues = known('a', 'b', 'c')
  queues.deny('a')
  queues.deny('b')
  expect(queues.allow('c')).toEqual([])
  expect(queues.allow('a')).toEqual(['b'])
  expect(queues.isDenied('a')).toBe(false)
  expect(queues.isDenied('b')).toBe(true)
})

test('a lost connection resets everything but isRenewed, isToldMissing and the names of the queues', () => {
  const queues = known('a')
  const a = queues.getOrCreate('a')
  Object.assign(a, { channel: channel('c'), isRenewed: true, isUnsure: true, isToldMissing: true })
  queues.deny('a')
  queues.disconnected()
  expect(a).toEqual({ channel: null, isRenewed: true, isUnsure: false, isToldMissing: true })
  expect(queues.isDenied('a')).toBe(false)
  expect(queues.names()).toEqual(['a'])
})
