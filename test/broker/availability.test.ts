import { beforeEach, expect, it } from 'vitest'
import { Availability } from '../../src/broker/availability.ts'
import type { Connection } from '../../src/broker/connection/connection.ts'
import type { ConnectionListener } from '../../src/broker/connection/connection-options.ts'
import { createNames } from '../../src/broker/names.ts'
import type { OwnerState } from '../../src/broker/topology/ownership.ts'

class FakeConnection {
  isUp = true
  generation = 1
  downReason = ''
  blockedReason: string | null = null
  channelLimit: { warning: { message: string } | null } = { warning: null }
  #listener: ConnectionListener = {}

  listen(listener: ConnectionListener): void {
    this.#listener = listener
  }
  cut(): void {
    this.isUp = false
    this.downReason = 'cut'
    this.#listener.down?.('cut')
  }
  block(reason: string | null): void {
    this.blockedReason = reason
    if (reason === null) this.#listener.unblocked?.()
    else this.#listener.blocked?.(reason)
  }
}

let connections: Record<'publish' | 'consume' | 'declare', FakeConnection>
let stage: { isPublisherOpen: boolean; owner: { state: OwnerState; problem: string | null } }
let ups: number
let availability: Availability

beforeEach(() => {
  const [publish, consume, declare] = [
    new FakeConnection(),
    new FakeConnection(),
    new FakeConnection(),
  ]
  connections = { publish, consume, declare }
  stage = { isPublisherOpen: true, owner: { state: 'owner', problem: null } }
  ups = 0
  availability = new Availability({
    connections: connections as unknown as Record<keyof typeof connections, Connection>,
    names: createNames(''),
    isPublisherOpen: () => stage.isPublisherOpen,
    owner: () => stage.owner,
    onUp: () => {
      ups += 1
    },
  })
  availability.baseChanged(true)
})

const stateNow = () => {
  availability.notice()
  return availability.status().state
}

it('the broker is up when all parts are, and onUp is called once', () => {
  availability.notice()
  expect([availability.status(), availability.isUp, ups]).toEqual([{ state: 'up' }, true, 1])
})

it.each<[what: string, lose: () => unknown, state: string]>([
  ['a publish channel', () => reconnectPublish(), 'down'],
  ['the exchanges', () => reconnectWithoutBase(), 'down'],
  ['an answer on who owns it', () => Object.assign(stage.owner, { state: 'asking' }), 'down'],
  ['its ownership', () => Object.assign(stage.owner, { state: 'foreign' }), 'foreign'],
  ['the publish connection', () => connections.publish.cut(), 'down'],
  ['the consume connection', () => connections.consume.cut(), 'down'],
])('the broker is not up without %s', (_, lose, state) => {
  lose()
  expect(stateNow()).toBe(state)
})

/** The connection is back; its publish channels are not open yet. */
function reconnectPublish(): void {
  const { publish } = connections
  publish.cut()
  Object.assign(publish, { isUp: true, generation: 2 })
  stage.isPublisherOpen = false
}

function reconnectWithoutBase(): void {
  availability.baseChanged(false)
  reconnectPublish()
  stage.isPublisherOpen = true
}

it('the broker stays up without the declare connection until the publish connection is lost', () => {
  availability.notice()
  connections.declare.cut()
  availability.baseChanged(false)
  expect([availability.status().state, availability.isBaseReady]).toEqual(['up', false])
  reconnectPublish()
  stage.isPublisherOpen = true
  expect(stateNow()).toBe('down')
  connections.declare.isUp = true
  availability.baseChanged(true)
  expect([availability.status().state, ups]).toEqual(['up', 2])
})

it('the broker stays up while RabbitMQ has closed one publish channel, unless the connection is new', () => {
  stage.isPublisherOpen = false
  connections.publish.block('low on memory')
  connections.publish.block(null)
  expect(stateNow()).toBe('up')
  reconnectPublish()
  expect(stateNow()).toBe('down')
  stage.isPublisherOpen = true
  expect(stateNow()).toBe('up')
})

it('the availability follows lost connections and alarms without a call of notice()', () => {
  connections.publish.block('low on memory')
  expect(availability.status()).toEqual({ state: 'blocked', reason: 'low on memory' })
  connections.publish.block(null)
  expect([availability.status().state, ups]).toEqual(['up', 2])
  connections.consume.cut()
  expect(availability.status()).toEqual({ state: 'down', reason: 'cut' })
  connections.consume.isUp = true
  expect([stateNow(), ups]).toEqual(['up', 3])
  connections.publish.cut()
  expect(availability.isUp).toBe(false)
})

it('the status names the channel limit as its reason when no other problem is known', () => {
  stage.owner = { state: 'asking', problem: null }
  availability.notice()
  expect(availability.status()).toEqual({ state: 'down', reason: 'connecting' })
  connections.consume.channelLimit = { warning: { message: 'no more channels' } }
  expect(availability.status()).toEqual({ state: 'down', reason: 'no more channels' })
  stage.owner = { state: 'asking', problem: 'access refused' }
  expect(availability.status()).toEqual({ state: 'down', reason: 'access refused' })
})

it('the broker is down for good once it is stopped', () => {
  availability.stop()
  expect(availability.status()).toEqual({ state: 'down', reason: 'stopped' })
  expect(stateNow()).toBe('down')
})

it('settled() resolves when the broker is up, or when only time or an operator can change its state', async () => {
  stage.owner = { state: 'asking', problem: null }
  availability.notice()
  let hasSettled = false
  const settled = availability.settled().then(() => {
    hasSettled = true
  })
  availability.notice()
  await Promise.resolve()
  expect(hasSettled).toBe(false)
  stage.owner = { state: 'asking', problem: 'ojs.system.owner: access refused' }
  availability.notice()
  await settled
  expect(availability.status()).toEqual({ state: 'down', reason: stage.owner.problem })
  await availability.settled()
})
