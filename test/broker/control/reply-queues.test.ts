import { expect, it, vi } from 'vitest'
import type { Connection } from '../../../src/broker/connection/connection.ts'
import { ReplyQueues } from '../../../src/broker/control/reply-queues.ts'

/** A connection on which every passive declare is answered by `answer`; counts its open channels. */
function open(answer: (queue: string) => Promise<unknown>) {
  const clock = { time: 0, now: () => clock.time, wall: () => clock.time }
  const channels = { opened: 0, closed: 0, asked: 0 }
  const openChannel = async () => {
    channels.opened += 1
    const close = async () => void channels.closed++
    const checkQueue = (queue: string) => {
      channels.asked += 1
      return answer(queue)
    }
    return { checkQueue, close, on() {}, once() {} }
  }
  const connection = { openChannel } as unknown as Connection
  return { queues: new ReplyQueues(connection, clock), channels, clock }
}

const refused = (code: number, text: string) =>
  Promise.reject(Object.assign(new Error(text), { code }))

it('asks about a queue once while the verdict is new, and never about a server-named one', async () => {
  const { queues, channels, clock } = open(() => refused(405, 'RESOURCE_LOCKED'))
  expect(await Promise.all([queues.look('a'), queues.look('a')])).toEqual([
    'exclusive',
    'exclusive',
  ])
  expect(['a', 'amq.gen-x', 'b'].map((name) => queues.known(name))).toEqual([
    'exclusive',
    'exclusive',
    null,
  ])
  expect(channels.asked).toBe(1)
  clock.time += 30_000
  expect(queues.known('a')).toBe(null)
})

it.each([
  ['missing', () => refused(404, "no queue 'a' in vhost '/'")],
  ['unknown', () => refused(404, "home node 'n' of durable queue 'a' is down or inaccessible")],
  ['unknown', () => Promise.reject(new Error('Channel closed'))],
  ['shared', async () => ({})],
])('finds a queue %s', async (verdict, answer) => {
  const { queues } = open(answer)
  expect(await queues.look('a')).toBe(verdict)
})

it('leaves queues that do not answer after half a second, and at most four channels on them', async () => {
  vi.useFakeTimers()
  try {
    const { queues, channels } = open((queue) =>
      queue.startsWith('dead') ? new Promise(() => {}) : Promise.resolve({}),
    )
    const looks = ['dead1', 'dead2', 'dead3', 'dead4', 'well'].map((name) => queues.look(name))
    await vi.advanceTimersByTimeAsync(2_500)
    expect(await Promise.all(looks)).toEqual([...Array(4).fill('unknown'), 'shared'])
    expect(await queues.look('dead5')).toBe('unknown')
    expect(channels.asked).toBe(5)
  } finally {
    vi.useRealTimers()
  }
})
