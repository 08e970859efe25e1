import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { ControlTurns, costOf } from '../../../src/broker/control/turns.ts'

const KIB = 1024
const LARGE = 128 * KIB

/** Turns on a clock of the test; messages end when the test says so. */
function open() {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  let now = 0
  const turns = new ControlTurns({ now: () => now, wall: () => now })
  const begun: string[] = []
  const dropped: string[] = []
  const ends = new Map<string, () => void>()
  const take = (queue: string, cost: number, name = queue) =>
    turns.take(queue, cost, {
      begin: () => {
        begun.push(name)
        return new Promise((resolve) => ends.set(name, resolve))
      },
      drop: () => dropped.push(name),
    })
  /** Ends a message that took this long. */
  const end = async (name: string, tookMs = 0) => {
    now += tookMs
    ends.get(name)?.()
    await vi.advanceTimersByTimeAsync(0)
  }
  const pass = async (ms: number) => {
    now += ms
    await vi.advanceTimersByTimeAsync(ms)
  }
  return { turns, take, end, pass, begun, dropped }
}

describe('turns of control messages', () => {
  it('begin at once, in their order, while there is room', async () => {
    const { take, begun } = open()
    for (let i = 0; i < 10; i++) take('q', 20 * KIB, `q${i}`)
    expect(begun).toEqual(Array.from({ length: 10 }, (_, i) => `q${i}`))
  })

  it('bound what is under way by its cost, and keep the order of each queue', async () => {
    const { take, end, begun } = open()
    for (let i = 0; i < 8; i++) take('q', 64 * KIB, `q${i}`)
    expect(begun).toEqual(['q0', 'q1', 'q2', 'q3'])
    // It would have room, but would overtake the others of its queue.
    take('q', 0, 'last')
    await end('q1')
    expect(begun.slice(4)).toEqual(['q4'])
    for (const name of ['q0', 'q2', 'q3', 'q4', 'q5', 'q6', 'q7']) await end(name)
    expect(begun).toEqual(['q0', 'q1', 'q2', 'q3', 'q4', 'q5', 'q6', 'q7', 'last'])
  })

  it('go round: a flood in one queue delays a message of another by one message', async () => {
    const { take, end, begun } = open()
    for (let i = 0; i < 1_000; i++) take('flood', 64 * KIB, `flood${i}`)
    take('a', 64 * KIB)
    take('b', 64 * KIB)
    for (const i of [0, 1, 2]) await end(`flood${i}`)
    expect(begun.slice(4)).toEqual(['flood4', 'a', 'b'])
  })

  it('go on after a rest even if the timer fires a moment before its time by the clock', async () => {
    const { take, end, begun } = open()
    take('flood', LARGE, 'f1')
    take('flood', LARGE, 'f2')
    await end('f1', 100)
    // The clock of the test stands still meanwhile.
    await vi.advanceTimersByTimeAsync(300)
    expect(begun).toEqual(['f1', 'f2'])
  })

  it('have one large message at a time, and small ones of other queues meanwhile', async () => {
    const { take, end, begun } = open()
    take('flood', 9 * LARGE, 'f1')
    take('flood', 9 * LARGE, 'f2')
    take('other', LARGE, 'o1')
    for (let i = 0; i < 3; i++) take('a', 40 * KIB, `a${i}`)
    expect(begun).toEqual(['f1', 'a0', 'a1', 'a2'])
    await end('f1')
    expect(begun.slice(4)).toEqual(['f2'])
    // It is read in slices: what comes behind it in its queue must not overtake it.
    take('flood', 0, 'f3')
    expect(begun).not.toContain('f3')
    await end('f2')
    expect(begun.slice(5)).toEqual(['o1', 'f3'])
  })

  it('leave three quarters of the time to others after a large message that took long', async () => {
    const { take, end, pass, begun } = open()
    for (const name of ['f1', 'f2', 'f3']) take('flood', LARGE, name)
    await end('f1', 100)
    expect(begun).toEqual(['f1'])
    take('good', KIB)
    expect(begun).toEqual(['f1', 'good'])
    await pass(299)
    expect(begun).not.toContain('f2')
    await pass(1)
    expect(begun).toContain('f2')
    // Not after a quick one, and never for more than two seconds.
    await end('f2', 4)
    expect(begun).toContain('f3')
    take('flood', LARGE, 'f4')
    await end('f3', 10_000)
    await pass(2_000)
    expect(begun).toContain('f4')
  })

  it('go on after a message that failed', async () => {
    const { turns, take, begun } = open()
    turns.take('q', LARGE, { begin: () => Promise.reject(new Error('no')), drop: () => {} })
    take('q', LARGE, 'next')
    await vi.advanceTimersByTimeAsync(0)
    expect(begun).toEqual(['next'])
  })

  it('drop what waits when there will be none', async () => {
    const { turns, take, end, begun, dropped } = open()
    for (const name of ['f1', 'f2', 'f3']) take('flood', LARGE, name)
    turns.dropWaiting()
    await end('f1', 100)
    expect([begun, dropped]).toEqual([['f1'], ['f2', 'f3']])
  })

  it('come at once for what arrives after that, even in a rest', async () => {
    const { turns, take, end, begun } = open()
    take('flood', LARGE, 'f1')
    take('flood', LARGE, 'f2')
    await end('f1', 100)
    turns.dropWaiting()
    take('flood', LARGE, 'f3')
    expect(begun).toEqual(['f1', 'f3'])
  })
})

it('a message costs what it makes the ledger write; a question nothing', () => {
  expect(costOf('ojs.control.report', 1_000)).toBe(1_000)
  expect(costOf('ojs.control.cancel', 1_000)).toBe(1_000)
  expect(costOf('ojs.control.heartbeat', 1_000)).toBe(32_000)
  for (const type of ['ojs.control.sync', 'ojs.control.info', 'nonsense', undefined, 7]) {
    expect(costOf(type, 1_000)).toBe(0)
  }
})
