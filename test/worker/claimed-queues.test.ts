import { describe, expect, it } from 'vitest'
import { ClaimedQueues } from '../../src/worker/claimed-queues.ts'

/** Answers when told to. */
function asked() {
  const answers: ((isEmpty: boolean) => void)[] = []
  const isEmpty = () => new Promise<boolean>((resolve) => answers.push(resolve))
  const answer = async (is: boolean) => {
    answers.shift()?.(is)
    await new Promise(setImmediate)
  }
  return { answers, isEmpty, answer }
}

describe('ClaimedQueues', () => {
  it('forgets a queue at the review after the one that saw it empty', async () => {
    const queues = new ClaimedQueues()
    const { isEmpty, answer } = asked()
    queues.add('a')
    queues.review(isEmpty)
    await answer(true)
    expect(queues.has('a')).toBe(true)
    queues.review(isEmpty)
    expect(queues.has('a')).toBe(false)
  })

  it('asks again for a queue that was not empty, and once while an answer is awaited', async () => {
    const queues = new ClaimedQueues()
    const { answers, isEmpty, answer } = asked()
    queues.add('a')
    queues.review(isEmpty)
    queues.review(isEmpty)
    expect(answers).toHaveLength(1)
    await answer(false)
    queues.review(isEmpty)
    expect(answers).toHaveLength(1)
    expect(queues.has('a')).toBe(true)
  })

  it('takes nothing from an answer that was asked for before the queue was added again', async () => {
    const queues = new ClaimedQueues()
    const { isEmpty, answer } = asked()
    queues.add('a')
    queues.review(isEmpty)
    queues.add('a')
    await answer(true)
    queues.review(isEmpty)
    expect(queues.has('a')).toBe(true)
  })
})
