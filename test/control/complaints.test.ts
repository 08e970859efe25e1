import { expect, it, onTestFinished, vi } from 'vitest'
import type { ControlMessage } from '../../src/broker/broker.ts'
import { Complaints } from '../../src/control/complaints.ts'

const MESSAGE: ControlMessage = {
  queue: 'q',
  type: 'x'.repeat(300),
  content: Buffer.from('{'),
  redelivered: false,
  replyTo: null,
  correlationId: null,
}

function open() {
  const lines: object[] = []
  const warn = (fields: object, message: string) => void lines.push({ ...fields, message })
  const logger = { debug() {}, info() {}, warn, error() {} }
  const complaints = new Complaints({ logger, clock: { now: () => 0, wall: () => 0 } })
  return { complaints, lines }
}

it('complaints log what is wrong with a message, with at most 100 characters of its type', () => {
  const { complaints, lines } = open()
  complaints.malformed(MESSAGE, 'invalid_json', new Error('no JSON'), 'req_1')
  complaints.malformed({ ...MESSAGE, type: 'a' }, 'too_large', undefined, 'req_2')
  const line = { message: 'malformed control message', queue: 'q' }
  expect(lines).toEqual([
    {
      ...line,
      type: 'x'.repeat(100),
      reason: 'invalid_json',
      problem: 'no JSON',
      requestId: 'req_1',
    },
    { ...line, type: 'a', reason: 'too_large', requestId: 'req_2' },
  ])
})

it('complaints about left out events are logged although those about messages are suppressed', () => {
  const { complaints, lines } = open()
  for (let i = 0; i < 20; i++) complaints.malformed(MESSAGE, 'unknown_type', undefined, 'req_1')
  expect(lines).toHaveLength(10)
  const type = 'ojs.control.report'
  complaints.leftOut({ ...MESSAGE, type }, { problem: 'no id', count: 3 }, 'req_2')
  const said = { queue: 'q', type, problem: 'no id', count: 3, requestId: 'req_2' }
  expect(lines.slice(10)).toEqual([{ ...said, message: 'invalid events of a report left out' }])
})

it('complaints that were suppressed are counted at the end, by kind', () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  const { complaints, lines } = open()
  for (let i = 0; i < 12; i++) {
    complaints.malformed(MESSAGE, 'invalid_json', undefined, 'req_1')
    complaints.leftOut(MESSAGE, { count: 1, problem: 'p' }, 'req_1')
  }
  vi.advanceTimersByTime(10_000)
  expect(lines.slice(20)).toEqual([
    { suppressed: 2, message: 'more malformed control messages' },
    { suppressed: 2, message: 'more invalid events of reports left out' },
  ])
})
