import { setImmediate as nextTurn } from 'node:timers/promises'
import { beforeEach, describe, expect, it } from 'vitest'
import { deferred } from '../support/time/deferred.ts'
import { vhostOfTest } from './fixtures.ts'
import { type AllHooks, request, type TestBroker } from './harness.ts'
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

/** A broker with a waiting fetch of `email`; the test ends its extensions of leases. */
async function fetching(hooks: Partial<AllHooks> = {}) {
  const extensions: (() => void)[] = []
  const onConsumeUp = () => new Promise<void>((resolve) => extensions.push(resolve))
  const test = await start({}, { onConsumeUp, ...hooks }, { random: () => 0 })
  expect(await test.broker.ensureQueue('email')).toBe('ready')
  void test.broker.take(request(['email'], { waitMs: 30_000 }))
  await expect.poll(() => extensions.length).toBe(1)
  return { test, extensions }
}

/** The consumers, including those whose basic.consume is not answered yet. */
async function consumers({ broker }: TestBroker): Promise<readonly unknown[]> {
  await nextTurn()
  return broker.gauges().consumers
}

async function consumerCounts(): Promise<number[]> {
  const found = await Promise.all(ALL.map((queue) => admin.channel.checkQueue(queue)))
  return found.map(({ consumerCount }) => consumerCount)
}

/** An operator has deleted the owner queue, and another gateway has declared it first. */
async function becomeForeign({ broker }: TestBroker): Promise<void> {
  const claimed = held.unsent(`assertQueue ${OWNER}`)
  await held.channelOf(`consume ${OWNER}`).deleteQueue(OWNER)
  const { goOn } = await claimed
  await admin.channel.assertQueue(OWNER, { exclusive: true })
  goOn()
  await expect.poll(() => broker.status()).toMatchObject({ state: 'foreign' })
}

describe('consumers', () => {
  it('do not start before leases were extended on the current connection', async () => {
    const { test, extensions } = await fetching()
    extensions[0]?.()
    await expect.poll(consumerCounts).toEqual([1, 1, 1, 1])
    await vhost.closeConnections()
    await expect.poll(() => extensions.length).toBe(2)
    await reconnectAdmin()
    // The system queues are declared by now as well, so that only the extension keeps consumers waiting.
    await expect.poll(() => test.broker.ensureQueue('email')).toBe('ready')
    expect(await consumers(test)).toEqual([])
    extensions[1]?.()
    await expect.poll(consumerCounts).toEqual([1, 1, 1, 1])
  })

  it('do not start when an extension ends that began on a lost connection', async () => {
    const { test, extensions } = await fetching()
    await vhost.closeConnections()
    await expect.poll(() => extensions.length).toBe(2)
    await reconnectAdmin()
    extensions[0]?.()
    expect(await consumers(test)).toEqual([])
    extensions[1]?.()
    await expect.poll(consumerCounts).toEqual([1, 1, 1, 1])
  })

  it('do not start when another gateway takes over the broker while leases are extended', async () => {
    const { test, extensions } = await fetching()
    await becomeForeign(test)
    extensions[0]?.()
    expect(await consumers(test)).toEqual([])
  })

  it('are cancelled when another gateway takes over the broker', async () => {
    const { test, extensions } = await fetching()
    extensions[0]?.()
    await expect.poll(consumerCounts).toEqual([1, 1, 1, 1])
    await becomeForeign(test)
    await expect.poll(consumerCounts).toEqual([0, 0, 0, 0])
  })
})

it('dead letters are consumed only after the control messages that were already queued are handled', async () => {
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
