import { expect, test } from 'vitest'
import type { AmqpLink } from '../../src/worker/connection.ts'
import { GatewayRpc } from '../../src/worker/gateway-rpc.ts'

interface Question {
  queues: string[]
  rung_ms?: number
}

/** A GatewayRpc whose questions get the given answers in turn. Records questions and declared queues. */
function lineTo(answers: object[]) {
  const asked: number[] = []
  const questions: Question[] = []
  const declared: string[] = []
  const link = {
    clock: { now: () => 0 },
    options: { answerTimeoutMs: 1, publishTimeoutMs: 1 },
    declarer: { recheck: async (queue: string) => declared.push(queue) },
    untilPublishing: async () => true,
    ask: async (_queue: string, _type: string, question: Question) => {
      asked.push(question.queues.length)
      questions.push(question)
      return answers.shift()
    },
  } as unknown as AmqpLink
  return { line: new GatewayRpc(link), asked, questions, declared }
}
const answered = (body: object) => ({ outcome: 'answered', body })

test('GatewayRpc.sync() asks about 100 queues at a time and merges the answers', async () => {
  const { line, asked } = lineTo([
    answered({ tombstones: ['a'], truncated: true, paused: ['q-0'] }),
    answered({ tombstones: ['b'], truncated: false, paused: ['q-100'], generations: { b: 2 } }),
    answered({ tombstones: ['b'], truncated: false, paused: [], generations: { b: 1 } }),
  ])
  const synced = await line.sync(Array.from({ length: 201 }, (_, i) => `q-${i}`))
  expect(asked).toEqual([100, 100, 1])
  expect(synced).toMatchObject({ truncated: true, paused: ['q-0', 'q-100'] })
  expect(synced?.tombstones).toEqual(
    new Map([
      ['a', 0],
      ['b', 2],
    ]),
  )
})

test('GatewayRpc.sync() declares the default queue and asks again if the question is returned as unroutable', async () => {
  const { line, asked, declared } = lineTo([{ outcome: 'returned' }, answered({ tombstones: [] })])
  expect(await line.sync(['q'])).toMatchObject({ tombstones: new Map(), paused: [] })
  expect([asked, declared]).toEqual([[1, 1], ['default']])
})

test('GatewayRpc.announce() names the lost queue, and the delay of a lost retry queue', async () => {
  const { line, questions } = lineTo([answered({}), answered({})])
  await line.announce('q')
  await line.announce('q', 500)
  expect(questions).toEqual([{ queues: ['q'] }, { queues: ['q'], rung_ms: 500 }])
})
