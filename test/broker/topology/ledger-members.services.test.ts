import { expect, it, onTestFinished } from 'vitest'
import type { Connection } from '../../../src/broker/connection/connection.ts'
import { withScratchChannel } from '../../../src/broker/connection/temporary-channel.ts'
import { Owner } from '../../../src/broker/topology/ownership.ts'
import { limitedUser } from '../../support/broker/rabbit.ts'
import { eventually } from '../../support/gateway/in-process.ts'
import { vhostOfTest } from '../fixtures.ts'
import { logger, startConnection, topologyWith } from '../harness.ts'

const { vhost } = vhostOfTest()
const EXCHANGE = 'ojs.system.gateways'

let now = 0

/** A gateway's claim, which is settled when this resolves. `ledgerId` null: a ledger of its own, as SQLite's is. */
async function claim(
  ledgerId: string | null,
  url = vhost.url,
): Promise<{ owner: Owner; connection: Connection }> {
  const connection = await startConnection(url)
  const owner = new Owner({
    ...{ connection, topology: topologyWith(), clock: { now: () => now }, logger, onChange() {} },
    shared: ledgerId === null ? undefined : { ledgerId, exchange: EXCHANGE },
  })
  onTestFinished(async () => {
    await owner.stop()
    await connection.close()
  })
  await owner.claim()
  return { owner, connection }
}

/** Whether the owner queue is the connection's: RabbitMQ shows an exclusive queue to its owner only. */
async function hasQueue(connection: Connection): Promise<boolean> {
  return withScratchChannel(connection, (scratch) =>
    scratch.run((channel) => channel.checkQueue('ojs.system.owner')),
  ).then(
    () => true,
    () => false,
  )
}

it('a gateway of the same ledger is the owner at once, beside one that is still connected', async () => {
  const before = await claim('one')
  expect(before.owner.state).toBe('owner')
  const after = await claim('one')
  expect(after.owner.state).toBe('owner')
  expect(await hasQueue(after.connection)).toBe(false)
  // It has no queue yet; it gets it when the connection before ends.
  await before.connection.close()
  await eventually(() => hasQueue(after.connection))
  await after.owner.stop()
  expect(await vhost.queue('ojs.system.owner')).toBeUndefined()
})

it('a gateway of another ledger waits until those of the first are gone', async () => {
  const first = await claim('one')
  const second = await claim('two')
  expect(second.owner.state).toBe('foreign')
  await first.connection.close()
  await eventually(() => second.owner.state === 'owner')
})

it('a gateway whose ledger nobody shares and one with a shared ledger keep each other out', async () => {
  const first = await claim(null)
  const second = await claim('one')
  expect(second.owner.state).toBe('foreign')
  await first.connection.close()
  await eventually(() => second.owner.state === 'owner')
  const third = await claim(null)
  expect(third.owner.state).toBe('foreign')
})

it('who has the owner queue for longer than a dead socket lasts is no predecessor', async () => {
  const before = await claim('one')
  const after = await claim('one')
  now += 59_999
  await after.owner.claim()
  expect(after.owner.state).toBe('owner')
  now += 1
  await after.owner.claim()
  expect(after.owner.state).toBe('foreign')
  await before.connection.close()
  await eventually(() => after.owner.state === 'owner')
})

it.each([
  ['^ojs\\.system\\.(owner$|gateways)', 'owner', null],
  ['^ojs\\.system\\.owner$', 'asking', 'ojs.system.gateways: access refused'],
  ['^ojs\\.system\\.gateways', 'asking', 'ojs.system.owner: access refused'],
])('with the right to configure %s a gateway is %s', async (configure, state, problem) => {
  // The other rights are those of topology/README.md.
  const rights = { configure, write: '^(ojs\\.|amq\\.default$)', read: '^ojs\\.' }
  const { owner } = await claim('one', await limitedUser(vhost, rights))
  expect([owner.state, owner.problem]).toEqual([state, problem])
})
