import { beforeEach, expect, it, onTestFinished } from 'vitest'
import type { Connection } from '../../src/broker/connection.ts'
import { Owner } from '../../src/broker/owner.ts'
import { loadTopology } from '../../src/broker/topology.ts'
import { eventually } from '../support/in-process.ts'
import { vhostOfTest } from './fixtures.ts'
import { logger, startConnection } from './harness.ts'

const { vhost } = vhostOfTest()

let now: number
let first: Connection
let standby: Connection
/** Of the gateway that came second. */
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
  const topology = loadTopology('', 'classic', null)
  return new Owner({ connection, topology, clock: { now: () => now }, logger, onChange() {} })
}

async function claimed(): Promise<string> {
  await second.claim()
  return second.state
}

it('takes the queue at once from one that may be its own dead socket', async () => {
  now += 59_999
  await first.close()
  await eventually(() => second.state === 'owner')
})

it('takes it at once after a long outage, where it had seen its own dead socket before', async () => {
  now += 20_000
  expect(await claimed()).toBe('foreign')
  const { generation } = standby
  standby.abandon('the network is gone')
  await first.close()
  now += 300_000
  await eventually(() => standby.generation > generation && second.state === 'owner')
})

it('leaves it to a living gateway that comes back within a minute, also with its own connection cut', async () => {
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
