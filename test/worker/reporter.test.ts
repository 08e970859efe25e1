import { setImmediate as nextTurn } from 'node:timers/promises'
import { afterEach, describe, expect, test, vi } from 'vitest'
import type { PublishOutcome } from '../../src/broker/broker.ts'
import { Reporter, type ReporterDeps } from '../../src/worker/reporter.ts'
import { logger } from '../broker/harness.ts'

interface Sent {
  queue: string
  events: { n: number }[]
  bytes: number
  answer(outcome: PublishOutcome): void
}

/** A reporter and the messages that it publishes, whose outcome the test decides. */
function setUp(given: Partial<ReporterDeps> = {}) {
  const sent: Sent[] = []
  let ensured = 0
  let onSent: () => void = () => undefined
  const reporter = new Reporter({
    workerId: 'w',
    logger,
    tell: (queue, body) =>
      new Promise((answer) => {
        const bytes = Buffer.byteLength(body)
        sent.push({ queue, events: JSON.parse(body).events, bytes, answer })
        onSent()
      }),
    ensure: async () => {
      ensured += 1
    },
    ...given,
  })
  /** Resolves when `count` messages were published. */
  const until = (count: number) =>
    new Promise<void>((resolve) => {
      onSent = () => {
        if (sent.length >= count) resolve()
      }
      onSent()
    })
  const report = (n: number, queue = 'q') => reporter.report(queue, `k${n}`, `{"n":${n}}`)
  return { reporter, sent, report, until, ensured: () => ensured }
}

const numbers = ({ events }: Sent) => events.map(({ n }) => n)

afterEach(() => {
  vi.useRealTimers()
})

describe('Reporter', () => {
  test('causes no leak warning of Node.js while 20 messages wait to be repeated', async () => {
    const warned = vi.spyOn(process, 'emitWarning').mockReturnValue()
    const { reporter, report, sent, until } = setUp()
    const reported = Array.from({ length: 20 }, (_, n) => report(n, `q${n}`))
    await until(20)
    for (const { answer } of sent) answer('unknown')
    await nextTurn()
    await reporter.stop(AbortSignal.abort())
    expect(new Set(await Promise.all(reported))).toEqual(new Set(['given-up']))
    expect(warned).not.toHaveBeenCalled()
    warned.mockRestore()
  })

  test('halves a message that RabbitMQ refuses as too large until its parts are accepted', async () => {
    const { report, sent, until } = setUp()
    const reported = [1, 2, 3].map((n) => report(n))
    await until(1)
    sent[0]?.answer('too-large')
    await until(3)
    expect(sent.map(numbers)).toEqual([[1, 2, 3], [1, 2], [3]])
    sent[1]?.answer('too-large')
    sent[2]?.answer('confirmed')
    await until(5)
    expect(sent.slice(3).map(numbers)).toEqual([[1], [2]])
    for (const one of sent.slice(3)) one.answer('confirmed')
    expect(await Promise.all(reported)).toEqual(['reported', 'reported', 'reported'])
  })

  test('resolves with too-large for a single event that RabbitMQ refuses as too large', async () => {
    const { report, sent, until } = setUp()
    const [small, large] = [report(1), report(2)]
    await until(1)
    sent[0]?.answer('too-large')
    await until(3)
    sent[1]?.answer('confirmed')
    sent[2]?.answer('too-large')
    expect(await Promise.all([small, large])).toEqual(['reported', 'too-large'])
    expect(sent).toHaveLength(3)
  })

  test('sends the reports of one turn of the event loop as one message per queue', async () => {
    const { sent, report, until } = setUp()
    const done = [report(1), report(2), report(3, 'other')]
    await until(2)
    expect(sent.map((one) => [one.queue, numbers(one)])).toEqual([
      ['q', [1, 2]],
      ['other', [3]],
    ])
    for (const one of sent) one.answer('confirmed')
    expect(await Promise.all(done)).toEqual(['reported', 'reported', 'reported'])
  })

  test('collects up to a hundred reports while a message is unconfirmed', async () => {
    const { sent, report, until } = setUp()
    const first = report(0)
    await until(1)
    const others = Array.from({ length: 150 }, (_, n) => report(n + 1))
    expect(sent.map((one) => one.events.length)).toEqual([1, 100])
    sent[0]?.answer('confirmed')
    expect(await first).toBe('reported')
    await until(3)
    expect(sent[2]?.events.length).toBe(50)
    for (const one of sent) one.answer('confirmed')
    expect(new Set(await Promise.all(others))).toEqual(new Set(['reported']))
  })

  test('sends at most a hundred events per message, counting starts and ends', async () => {
    const { reporter, sent, report, until } = setUp()
    for (let n = 0; n < 60; n++) reporter.started('q', `s${n}`, '{"n":-1}')
    for (let n = 0; n < 60; n++) void report(n)
    await until(2)
    expect(sent.map((one) => one.events.length)).toEqual([100, 20])
  })

  test.each(['x', 'ü'])(
    'sends messages of at most 1 MiB, counting the bytes of %s',
    async (character) => {
      const { reporter, sent, until } = setUp()
      const text = character.repeat(400_000 / Buffer.byteLength(character))
      const big = JSON.stringify({ n: 1, text })
      for (let n = 0; n < 5; n++) void reporter.report('q', `k${n}`, big)
      await until(3)
      expect(sent.map((one) => one.events.length)).toEqual([2, 2, 1])
      for (const { bytes } of sent) expect(bytes).toBeLessThanOrEqual(1024 * 1024)
    },
  )

  test('leaves out a start if its end is reported before it is sent', async () => {
    const { reporter, sent, until, report } = setUp()
    reporter.started('q', 'k1', '{"n":-1}')
    reporter.started('q', 'k2', '{"n":-2}')
    void report(1)
    await until(1)
    expect(sent.map(numbers)).toEqual([[-2, 1]])
  })

  test('does not repeat a start after a later event of the same execution was sent', async () => {
    const { reporter, sent, until, report } = setUp()
    reporter.started('q', 'k1', '{"n":-1}')
    reporter.started('q', 'k2', '{"n":-2}')
    await until(1)
    const released = report(1)
    await until(2)
    sent[1]?.answer('confirmed')
    expect(await released).toBe('reported')
    sent[0]?.answer('unknown')
    await until(3)
    expect(sent.map(numbers)).toEqual([[-1, -2], [1], [-2]])
    sent[2]?.answer('unknown')
    void report(2)
    await until(4)
    sent[3]?.answer('confirmed')
    // Both starts of the first message are superseded now, so nothing of it is repeated.
    await reporter.stop(AbortSignal.timeout(5_000))
    expect(sent).toHaveLength(4)
  })

  test('sends a start alone if no other event follows', async () => {
    const { reporter, sent, until } = setUp()
    reporter.started('q', 'k1', '{"n":-1}')
    await until(1)
    expect(sent.map(numbers)).toEqual([[-1]])
  })

  test('sends all waiting events at flush()', () => {
    const { reporter, sent, report } = setUp()
    reporter.started('q', 'k1', '{"n":-1}')
    void report(2, 'other')
    reporter.flush()
    expect(sent.map(numbers)).toEqual([[-1], [2]])
  })

  test.each<PublishOutcome>(['nacked', 'returned', 'unknown', 'refused', 'forbidden'])(
    'repeats a message with the outcome %s until it is confirmed',
    async (outcome) => {
      const { sent, report, until, ensured } = setUp()
      const done = report(1)
      await until(1)
      sent[0]?.answer(outcome)
      await until(2)
      expect(sent.map(numbers)).toEqual([[1], [1]])
      expect(ensured()).toBe(outcome === 'returned' ? 1 : 0)
      sent[1]?.answer('confirmed')
      expect(await done).toBe('reported')
    },
  )

  test('warns once, after the eighth try of a message', async () => {
    const warn = vi.fn()
    /** The number of warnings before each try. */
    const warned: number[] = []
    const tell = async () => {
      warned.push(warn.mock.calls.length)
      return 'refused' as const
    }
    const { reporter } = setUp({ logger: { ...logger, warn }, tell })
    const done = reporter.report('q', 'k1', '{}')
    await expect.poll(() => warned.length, { timeout: 60_000 }).toBeGreaterThan(9)
    await reporter.stop(AbortSignal.abort())
    expect(await done).toBe('given-up')
    expect(warned.slice(0, 10)).toEqual([...Array.from({ length: 8 }, () => 0), 1, 1])
    expect(warn.mock.calls).toEqual([[{ queue: 'q', outcome: 'refused' }, expect.any(String)]])
  })

  test('resolves with given-up at the deadline of stop()', async () => {
    const { reporter, sent, report, until } = setUp()
    const done = report(1)
    await until(1)
    const deadline = new AbortController()
    const stopped = reporter.stop(deadline.signal)
    deadline.abort()
    sent[0]?.answer('refused')
    await stopped
    expect(await done).toBe('given-up')
    expect(sent).toHaveLength(1)
  })

  test('sends nothing after the deadline of stop(), and resolves with given-up', async () => {
    const { reporter, sent, report } = setUp()
    const done = report(1)
    await reporter.stop(AbortSignal.abort())
    expect([await done, sent]).toEqual(['given-up', []])
  })

  test('waits in stop() for unconfirmed messages', async () => {
    const { reporter, sent, report, until } = setUp()
    const done = report(1)
    const stopped = reporter.stop(new AbortController().signal)
    await until(1)
    sent[0]?.answer('confirmed')
    await stopped
    expect(await done).toBe('reported')
  })

  test('waits in stop() for reports that are made meanwhile', async () => {
    const { reporter, report } = setUp({ tell: async () => 'confirmed' })
    const done = [report(1)]
    const stopped = reporter.stop(new AbortController().signal)
    done.push(report(2))
    await stopped
    expect(await Promise.all(done)).toEqual(['reported', 'reported'])
  })

  test('waits in stop() for each of several messages, also for one that is repeated', async () => {
    const outcomes: PublishOutcome[] = ['confirmed', 'refused']
    const { reporter, report } = setUp({ tell: async () => outcomes.shift() ?? 'confirmed' })
    const done = Array.from({ length: 150 }, (_, n) => report(n))
    await reporter.stop(new AbortController().signal)
    expect(new Set(await Promise.all(done))).toEqual(new Set(['reported']))
  })
})
