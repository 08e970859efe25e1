import { expect, it } from 'vitest'
import type { ControlMessage, DeadLetter } from '../../src/broker/broker.ts'
import { deadControlDoor } from '../../src/control/died-in-queue.ts'

function open(onControl: () => Promise<'handled' | 'malformed'> = async () => 'handled') {
  const lines: object[] = []
  const heard: ControlMessage[] = []
  const counted: string[][] = []
  const warn = (fields: object) => void lines.push(fields)
  const logger = { debug() {}, info() {}, warn, error() {} }
  const take = deadControlDoor({
    deps: { logger, clock: { now: () => 0, wall: () => 0 } },
    observer: { died: (...labels) => void counted.push(labels) },
    onControl: (message) => {
      heard.push(message)
      return onControl()
    },
  })
  return { take, lines, heard, counted }
}

function letter(type: string | undefined, reason: DeadLetter['reason']): DeadLetter {
  const content = Buffer.from('{}')
  const properties = { ...(type !== undefined && { type }), replyTo: 'w', correlationId: '1' }
  const facts = { id: 'c-1', generation: 0, attempt: 1, maxAttempts: null }
  const message = { content, headers: {}, properties }
  return { ...facts, queue: 'q', reason, isControl: true, message, carry: () => ({}) }
}

it('a dead control message is ignored when it was rejected or died for an unknown reason', async () => {
  const { take, heard, lines, counted } = open()
  for (const reason of ['rejected', 'unknown'] as const) {
    await take(letter('ojs.control.report', reason))
  }
  expect([heard, lines, counted]).toEqual([[], [], []])
})

it('an expired report is handled as late and without a reply address, logged and counted', async () => {
  const { take, heard, lines, counted } = open()
  const type = 'ojs.control.report'
  await take(letter(type, 'expired'))
  const asker = { replyTo: null, correlationId: null }
  expect(heard).toEqual([
    { queue: 'q', type, content: Buffer.from('{}'), redelivered: false, isLate: true, ...asker },
  ])
  expect(lines).toEqual([{ queue: 'q', type, reason: 'expired', isHandled: true }])
  expect(counted).toEqual([[type, 'expired']])
})

it('a dead heartbeat, claim or unknown message is not handled, only logged and counted', async () => {
  const { take, heard, lines, counted } = open()
  const types = ['ojs.control.heartbeat', 'ojs.control.claim', 'x', undefined]
  for (const type of types) await take(letter(type, 'maxlen'))
  expect(heard).toEqual([])
  expect(lines).toHaveLength(types.length)
  expect(counted.map(([type]) => type)).toEqual([...types.slice(0, 2), 'unknown', 'unknown'])
})

it('a dead control message whose handling fails is not counted, since it is redelivered', async () => {
  const { take, counted } = open(() => Promise.reject(new Error('disk full')))
  await expect(take(letter('ojs.control.cancel', 'expired'))).rejects.toThrow('disk full')
  expect(counted).toEqual([])
})
