import { afterAll, expect, test, vi } from 'vitest'
import { AmqpLink } from '../../src/worker/connection.ts'
import { withDefaults } from '../../src/worker/options.ts'
import { FakePeer } from '../broker/fake-peer.ts'
import { outgoing } from '../broker/publish-stage.ts'

const NO_CONSUMERS = { consumers: [], queues: [] }
const HOOKS = { askForQueue: async () => {}, gauges: () => NO_CONSUMERS }
const ends: (() => Promise<unknown>)[] = []
afterAll(async () => {
  for (const end of ends.reverse()) await end()
})

function linkToNowhere(): AmqpLink {
  const options = withDefaults({ url: 'amqp://127.0.0.1:1', logger: false }, 'test')
  return new AmqpLink(options, HOOKS)
}

test('AmqpLink.untilPublishing resolves with false when the time is up', async () => {
  expect(await linkToNowhere().untilPublishing(1)).toBe(false)
})

test('AmqpLink.untilPublishing resolves with false when the link is stopped', async () => {
  const link = linkToNowhere()
  const wait = link.untilPublishing(60_000)
  await link.stop(AbortSignal.timeout(1_000))
  expect(await wait).toBe(false)
  expect(await link.untilPublishing(60_000)).toBe(false)
}, 30_000)

async function linkToPeer(publishTimeoutMs: number) {
  const peer = await FakePeer.start()
  const options = withDefaults({ url: peer.url, logger: false, publishTimeoutMs }, 'test')
  const link = new AmqpLink(options, HOOKS)
  ends.push(
    () => peer.stop(),
    () => link.stop(AbortSignal.timeout(100)),
  )
  // The fake peer talks to the connection that was opened last.
  await link.publish.start()
  expect(await link.untilPublishing(5_000)).toBe(true)
  return { peer, link }
}

test('AmqpLink.stop closes both connections and opens no others', async () => {
  const { peer, link } = await linkToPeer(10_000)
  await link.consume.start()
  expect([link.publish.isUp, link.consume.isUp, peer.open]).toEqual([true, true, 2])
  await link.stop(AbortSignal.timeout(10_000))
  expect([link.publish.isUp, link.consume.isUp]).toEqual([false, false])
  await vi.waitFor(() => expect(peer.open).toBe(0), 15_000)
  expect(peer.connections).toBe(2)
})

test('AmqpLink checks queues and retry queues again after returned messages and a closed channel', async () => {
  const { peer, link } = await linkToPeer(10_000)
  const queue = vi.spyOn(link.declarer, 'recheck').mockResolvedValue('ready')
  const retryQueue = vi.spyOn(link.retryQueues, 'recheck').mockResolvedValue('ready')
  const all = vi.spyOn(link.declarer, 'recheckAll').mockResolvedValue()
  const retryQueues = vi.spyOn(link.retryQueues, 'recheckAll').mockResolvedValue()
  const sent = [
    link.publisher.send(outgoing('a')),
    link.publisher.send(outgoing('b', { retryQueueMs: 250, group: 'others' })),
  ]
  for (const one of await peer.until(2)) {
    peer.returnToSender(one)
    peer.ack(one)
  }
  expect(await Promise.all(sent)).toEqual(['returned', 'returned'])
  expect(queue.mock.calls).toEqual([['email']])
  expect(retryQueue.mock.calls).toEqual([['email', 250]])
  const lost = link.publisher.send(outgoing('c'))
  const [, , c] = await peer.until(3)
  peer.closeChannel(c?.channel ?? 0, 404)
  expect(await lost).toBe('unknown')
  await vi.waitFor(
    () => expect([all.mock.calls, retryQueues.mock.calls]).toEqual([[[]], [[]]]),
    15_000,
  )
})

test('AmqpLink doubts a retry queue, but no job queue, after an unconfirmed publish', async () => {
  const { link } = await linkToPeer(100)
  const doubt = vi.spyOn(link.retryQueues, 'doubt')
  const to = { retryQueueMs: 250, group: 'others' } as const
  expect(await link.publisher.send(outgoing('a', to))).toBe('unknown')
  expect(await link.publisher.send(outgoing('b', { queue: 'sms' }))).toBe('unknown')
  expect(doubt.mock.calls).toEqual([['email', 250]])
})
