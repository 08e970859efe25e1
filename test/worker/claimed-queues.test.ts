import { describe, expect, it } from 'vitest'
import { ClaimedQueues } from '../../src/worker/claimed-queues.ts'

/** An `isEmpty` whose questions are answered when the test calls `answer`. */
function questions() {
  const answers: ((isEmpty: boolean) => void)[] = []
  const isEmpty = () => new Promise<boolean>((resolve) => answers.push(resolve))
  const answer = async (is: boolean) => {
    answers.shift()?.(is)
    await new Promise(setImmediate)
  }
  return { answers, isEmpty, answer }
}

describe('ClaimedQueues', () => {
  it('forgets a queue at the review after the one that found it empty', async () => {
    const queues = new ClaimedQueues()
    const { isEmpty, answer } = questions()
    queues.add('a')
    queues.review(isEmpty)
    await answer(true)
    expect(queues.has('a')).toBe(true)
    queues.review(isEmpty)
    expect(queues.has('a')).toBe(false)
  })

  it('asks about a queue once while an answer is awaited, and again if it was not empty', async () => {
    const queues = new ClaimedQueues()
    const { answers, isEmpty, answer } = questions()
    queues.add('a')
    queues.review(isEmpty)
    queues.review(isEmpty)
    expect(answers).toHaveLength(1)
    await answer(false)
    queues.review(isEmpty)
    expect(answers).toHaveLength(1)
    expect(queues.has('a')).toBe(true)
  })

  it('ignores an answer that was requested before the queue was added again', async () => {
    const queues = new ClaimedQueues()
    const { isEmpty, answer } = questions()
    queues.add('a')
    queues.review(isEmpty)
    queues.add('a')
    await answer(true)
    queues.review(isEmpty)
    expect(queues.has('a')).toBe(true)
  })
})
