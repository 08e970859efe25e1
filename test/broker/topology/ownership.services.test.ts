import { beforeEach, expect, it, onTestFinished } from 'vitest'
import type { Connection } from '../../../src/broker/connection/connection.ts'
import { Owner } from '../../../src/broker/topology/ownership.ts'
import { eventually } from '../../support/gateway/in-process.ts'
import { vhostOfTest } from '../fixtures.ts'
import { logger, startConnection, topologyWith } from '../harness.ts'

const { vhost } = vhostOfTest()

let now: number
let first: Connection
let standby: Connection
/** The ownership as the gateway that came second sees it. */
let second: Owner
beforeEach(async () => {
  now = 1_000_000
  first = await startConnection(vhost.url)
  await ownerOn(first).claim()
  standby = await startConnection(vhost.url)
  second = ownerOn(standby)
  onTestFinished(async () => {
    await second.stop()
    await Promise.all([first.close(), standby.close()])
  })
  await second.claim()
  expect(second.state).toBe('foreign')
})

function ownerOn(connection: Connection): Owner {
  const topology = topologyWith()
  return new Owner({ connection, topology, clock: { now: () => now }, logger, onChange() {} })
}

async function claimed(): Promise<string> {
  await second.claim()
  return second.state
}

it('the second gateway takes the broker at once when the owner may be its own dead socket', async () => {
  now += 59_999
  await first.close()
  await eventually(() => second.state === 'owner')
})

it('the second gateway takes the broker at once after a long outage when the owner may be its own dead socket', async () => {
  now += 20_000
  expect(await claimed()).toBe('foreign')
  const { generation } = standby
  standby.abandon('the network is gone')
  await first.close()
  now += 300_000
  await eventually(() => standby.generation > generation && second.state === 'owner')
})

it('the second gateway leaves the broker for a minute to an owner that was alive, even after losing its own connection', async () => {
  now += 60_000
  expect(await claimed()).toBe('foreign')
  await first.close()
  const { generation } = standby
  standby.abandon('its node was restarted')
  await eventually(() => standby.generation > generation && second.state === 'foreign')
  now += 59_999
  expect(await claimed()).toBe('foreign')
  first = await startConnection(vhost.url)
  const back = ownerOn(first)
  await back.claim()
  expect(back.state).toBe('owner')
  expect(await claimed()).toBe('foreign')
  await first.close()
  await eventually(async () => (await vhost.queue('ojs.system.owner')) === undefined)
  expect(await claimed()).toBe('foreign')
  now += 59_999
  expect(await claimed()).toBe('foreign')
  now += 1
  await eventually(() => second.state === 'owner')
})
