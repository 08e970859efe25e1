import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import type { BrokerHooks, BrokerOptions } from '../../src/broker/options.ts'
import { eventually } from '../support/in-process.ts'
import { vhostOfTest } from './fixtures.ts'
import type { TestBroker } from './harness.ts'

const { admin, vhost, start: startAt } = vhostOfTest()

const NAME = 'ojs.queue.email'

/** What a ledger would remember. */
function memory() {
  const markers = new Map<string, string>()
  const memory = { markers, hasTokens: true }
  const hooks: Partial<BrokerHooks> = {
    markerOf: (queue) => markers.get(queue) ?? null,
    onMarked: async (queue, marker) => void markers.set(queue, marker),
    hasTokens: () => memory.hasTokens,
  }
  return { memory, hooks }
}

function start(hooks: Partial<BrokerHooks>, given: Partial<BrokerOptions> = {}) {
  return startAt({ watchMs: 50, ...given }, hooks)
}

/** What a native worker does that is there before the gateway: it declares, and consumes at once. */
async function renew(): Promise<void> {
  await admin.channel.deleteQueue(NAME)
  await admin.channel.assertQueue(NAME)
  await admin.channel.consume(NAME, () => {})
}

async function markerExchanges(): Promise<string[]> {
  const names = await vhost.exchanges()
  return names.filter((name) => name.startsWith('ojs.system.marker.'))
}

async function marked(): Promise<ReturnType<typeof memory> & TestBroker> {
  const { memory: remembered, hooks } = memory()
  const started = await start(hooks)
  await started.broker.ensureQueue('email')
  await eventually(() => remembered.markers.has('email'))
  return { memory: remembered, hooks, ...started }
}

describe('a queue that somebody deleted and somebody else declared', () => {
  it('is noticed, once, although it looks as it did', async () => {
    const { memory: remembered, recorder } = await marked()
    remembered.markers.set('other', 'of a queue that is not ready')
    const before = recorder.count('onQueueMissing', 'email')
    await renew()
    await recorder.until('onQueueMissing', before + 1, 'email')
    expect(remembered.markers.has('email')).toBe(true)
  })

  it('is noticed after a reconnect before anything else is done with it', async () => {
    const first = await marked()
    await first.stop()
    await renew()
    const { broker, recorder } = await start(first.hooks, { watchMs: 60_000 })
    await broker.ensureQueue('email')
    expect(recorder.count('onQueueMissing', 'email')).toBe(1)
  })

  it('is noticed by whoever may declare nothing', async () => {
    const first = await marked()
    await first.stop()
    await renew()
    const { broker, recorder } = await start(first.hooks, { watchMs: 60_000, declare: 'never' })
    await broker.ensureQueue('email')
    expect(recorder.count('onQueueMissing', 'email')).toBe(1)
  })

  it('is left alone while no job can have a token in it', async () => {
    const { memory: remembered, recorder } = await marked()
    remembered.hasTokens = false
    const before = recorder.count('onQueueMissing', 'email')
    await renew()
    await sleep(300)
    expect(recorder.count('onQueueMissing', 'email')).toBe(before)
  })
})

describe('the marker of a queue', () => {
  it('is the same over reconnects, and takes no message', async () => {
    const first = await marked()
    const marker = first.memory.markers.get('email')
    await first.stop()
    const { broker, recorder } = await start(first.hooks)
    expect(await broker.ensureQueue('email')).toBe('ready')
    await sleep(300)
    expect(first.memory.markers.get('email')).toBe(marker)
    expect(recorder.count('onQueueMissing', 'email')).toBe(0)
    expect(await markerExchanges()).toEqual([`ojs.system.marker.${marker}`])
  })

  it('goes with the queue', async () => {
    const { stop } = await marked()
    await stop()
    expect(await markerExchanges()).toHaveLength(1)
    await admin.channel.deleteQueue(NAME)
    expect(await markerExchanges()).toEqual([])
  })

  it('is not looked for where the queue was found missing', async () => {
    const { memory: remembered, hooks } = memory()
    const { broker, recorder } = await start(hooks, { watchMs: 1_000 })
    await broker.ensureQueue('email')
    await eventually(async () => (await markerExchanges()).length === 1)
    await admin.channel.deleteQueue(NAME)
    await broker.recheckQueue('email')
    const before = recorder.count('channelError')
    await eventually(() => remembered.markers.has('email'))
    expect(recorder.count('channelError')).toBe(before)
  })

  it('is tried once for a queue that is gone, and again when it is back', async () => {
    const { broker, recorder, memory: remembered } = await marked()
    await admin.channel.deleteQueue(NAME)
    const before = recorder.count('channelError')
    remembered.markers.delete('email')
    await sleep(500)
    // One question by the marker that was set, if there was time for it, and one bind.
    expect(recorder.count('channelError') - before).toBeLessThanOrEqual(2)
    expect(await markerExchanges()).toEqual([])
    await broker.recheckQueue('email')
    await eventually(() => remembered.markers.has('email'))
  })

  it('is not set by whoever may declare nothing', async () => {
    const first = await marked()
    await first.stop()
    const { memory: remembered, hooks } = memory()
    const { broker } = await start(hooks, { declare: 'never' })
    expect(await broker.ensureQueue('email')).toBe('ready')
    await sleep(300)
    expect(remembered.markers.size).toBe(0)
    expect(await markerExchanges()).toHaveLength(1)
  })
})
