import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { ControlOrders, type ControlOrdersDeps } from '../../src/worker/control-messages.ts'
import { deferred } from '../support/time/deferred.ts'

const ANSWER = { tombstones: new Map(), truncated: false, paused: [], directive: 'running' }

/** The orders of a worker whose gateway gives these answers to its questions in turn. */
function ordersOf(...answers: unknown[]) {
  const done: string[] = []
  const deps = {
    link: {},
    gateway: {
      isSilent: false,
      sync: async () => {
        done.push('asked')
        return await answers.shift()
      },
    },
    intake: {
      pause: async (queue: string) => done.push(`pause ${queue}`) > 0,
      resume: async (queue: string) => void done.push(`resume ${queue}`),
    },
    dispatcher: { giveBack() {} },
    options: { queues: ['q'], workerId: 'w' },
  } as unknown as ControlOrdersDeps
  return { orders: new ControlOrders(deps), done }
}

test('ControlOrders obeys each answer: it resumes a queue that only the previous answer paused', async () => {
  const { orders, done } = ordersOf({ ...ANSWER, paused: ['q'] }, ANSWER)
  await orders.catchUp()
  await orders.catchUp()
  expect(done).toEqual(['asked', 'pause q', 'asked', 'resume q'])
})

test('ControlOrders asks no further question while an answer is outstanding', async () => {
  const late = deferred<object>()
  const { orders, done } = ordersOf(null, late.promise)
  await orders.catchUp()
  orders.catchUpIfUnanswered()
  orders.catchUpIfUnanswered()
  late.resolve(ANSWER)
  await nextTurn()
  expect(done.filter((what) => what === 'asked')).toHaveLength(2)
})
