import { setImmediate as nextTurn } from 'node:timers/promises'
import { beforeEach, describe, expect, it } from 'vitest'
import type { BrokerHooks } from '../../src/broker/options.ts'
import { deferred } from '../support/deferred.ts'
import { vhostOfTest } from './fixtures.ts'
import { request, type TestBroker } from './harness.ts'
import { HeldChannels } from './held-channels.ts'

const { vhost, admin, start, reconnectAdmin } = vhostOfTest()

const JOBS = 'ojs.queue.email'
const OWNER = 'ojs.system.owner'
const DEAD_LETTERS = 'ojs.system.dead-letters'
const ALL = [JOBS, 'ojs.queue.control.email', DEAD_LETTERS, 'ojs.system.due']

let held: HeldChannels
beforeEach(() => {
  held = new HeldChannels()
})

/** A broker of which somebody fetches, and whose extensions of leases the test ends. */
async function fetching(hooks: Partial<BrokerHooks> = {}) {
  const extensions: (() => void)[] = []
  const onConsumeUp = () => new Promise<void>((resolve) => extensions.push(resolve))
  const test = await start({}, { onConsumeUp, ...hooks }, { random: () => 0 })
  expect(await test.broker.ensureQueue('email')).toBe('ready')
  void test.broker.take(request(['email'], { waitMs: 30_000 }))
  await expect.poll(() => extensions.length).toBe(1)
  return { test, extensions }
}

/** With those that were only begun. */
async function consumers({ broker }: TestBroker): Promise<readonly unknown[]> {
  await nextTurn()
  return broker.gauges().consumers
}

async function consumerCounts(): Promise<number[]> {
  const found = await Promise.all(ALL.map((queue) => admin.channel.checkQueue(queue)))
  return found.map(({ consumerCount }) => consumerCount)
}

/** An operator has deleted the lock, and another gateway was quicker. */
async function becomeForeign({ broker }: TestBroker): Promise<void> {
  const claimed = held.unsent(`assertQueue ${OWNER}`)
  await held.channelOf(`consume ${OWNER}`).deleteQueue(OWNER)
  const { goOn } = await claimed
  await admin.channel.assertQueue(OWNER, { exclusive: true })
  goOn()
  await expect.poll(() => broker.status()).toMatchObject({ state: 'foreign' })
}

describe('nothing is consumed', () => {
  it('before leases were extended on this very connection', async () => {
    const { test, extensions } = await fetching()
    extensions[0]?.()
    await expect.poll(consumerCounts).toEqual([1, 1, 1, 1])
    await vhost.closeConnections()
    await expect.poll(() => extensions.length).toBe(2)
    await reconnectAdmin()
    // With the system queues, which nobody waits for any more then.
    await expect.poll(() => test.broker.ensureQueue('email')).toBe('ready')
    expect(await consumers(test)).toEqual([])
    extensions[1]?.()
    await expect.poll(consumerCounts).toEqual([1, 1, 1, 1])
  })

  it('by what was extended on a connection that is gone', async () => {
    const { test, extensions } = await fetching()
    await vhost.closeConnections()
    await expect.poll(() => extensions.length).toBe(2)
    await reconnectAdmin()
    extensions[0]?.()
    expect(await consumers(test)).toEqual([])
    extensions[1]?.()
    await expect.poll(consumerCounts).toEqual([1, 1, 1, 1])
  })

  it('where another gateway has come to own the broker while leases were extended', async () => {
    const { test, extensions } = await fetching()
    await becomeForeign(test)
    extensions[0]?.()
    expect(await consumers(test)).toEqual([])
  })

  it('any more when another gateway has come to own the broker', async () => {
    const { test, extensions } = await fetching()
    extensions[0]?.()
    await expect.poll(consumerCounts).toEqual([1, 1, 1, 1])
    await becomeForeign(test)
    await expect.poll(consumerCounts).toEqual([0, 0, 0, 0])
  })
})

it('dead letters wait for what workers have said before', async () => {
  const first = await start()
  await first.broker.ensureQueue('email')
  await first.stop()
  admin.channel.sendToQueue('ojs.queue.control.email', Buffer.from('{}'), { type: 'early' })
  await admin.channel.waitForConfirms()
  const report = deferred<'handled'>()
  let heard = 0
  const onControl = () => {
    heard += 1
    return report.promise
  }
  const { extensions } = await fetching({ onControl, recordedQueues: () => ['email'] })
  extensions[0]?.()
  await expect.poll(consumerCounts).toEqual([1, 1, 0, 1])
  await expect.poll(() => heard).toBe(1)
  expect(await consumerCounts()).toEqual([1, 1, 0, 1])
  report.resolve('handled')
  await expect.poll(consumerCounts).toEqual([1, 1, 1, 1])
})
