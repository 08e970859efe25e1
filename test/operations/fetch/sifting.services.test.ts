import { describe, expect, it } from 'vitest'
import { leastOfThree } from '../../support/time/stopwatch.ts'
import { freshQueue, gatewayForAll } from '../harness.ts'

/** Seed 001 §7.3: an answer may have fewer jobs than were asked for only where fewer are available. */
describe.each(['classic', 'quorum'] as const)('FETCH (%s)', (queueType) => {
  const { gateway } = gatewayForAll({ OJS_QUEUE_TYPE: queueType })

  const push = async (queue: string, options: object = {}): Promise<string> => {
    const { body } = await gateway.push(queue, { options })
    return body.job.id
  }
  const pushAll = async (queue: string, count: number) => {
    const ids: string[] = []
    for (let n = 0; n < count; n++) ids.push(await push(queue))
    return ids
  }
  /** How many of the expected jobs are not at their place in the answer. */
  const misplaced = async (queues: string[], count: number, expected: readonly string[]) => {
    const jobs = await gateway.fetch(queues, { count })
    return expected.filter((id, i) => jobs[i]?.id !== id).length
  }

  it.each([
    [1, 2, 2],
    [3, 5, 5],
    [5, 5, 10],
  ])(
    'skips %i job messages of cancelled jobs, and answers all %i available jobs (count: %i)',
    async (over, live, count) => {
      const missing = async () => {
        const queue = freshQueue()
        for (const id of await pushAll(queue, over)) await gateway.cancel(id)
        return misplaced([queue], count, await pushAll(queue, live))
      }
      expect(await leastOfThree(missing, 1)).toBe(0)
    },
  )

  it('skips expired jobs and jobs that wait for their rate limit', async () => {
    const missing = async () => {
      const queue = freshQueue()
      const limited = { rate_limit: { max_per_second: 0.001 } }
      const first = await push(queue, limited)
      await push(queue, limited)
      await push(queue, { expires_at: '+PT0.001S' })
      return misplaced([queue], 3, [first, ...(await pushAll(queue, 2))])
    }
    expect(await leastOfThree(missing, 1)).toBe(0)
  })

  it('fills its answer from the next queue, in the order of the queues', async () => {
    const missing = async () => {
      const [left, right] = [freshQueue(), freshQueue()]
      const [over = '', live = ''] = await pushAll(left, 2)
      await gateway.cancel(over)
      return misplaced([left, right], 2, [live, ...(await pushAll(right, 1))])
    }
    expect(await leastOfThree(missing, 1)).toBe(0)
  })

  it('answers at once when it has one job, although it may wait 30 s for more', async () => {
    const queue = freshQueue()
    const [over = '', live] = await pushAll(queue, 2)
    await gateway.cancel(over)
    const jobs = await gateway.fetch([queue], { count: 5, wait_ms: 30_000 })
    expect(jobs).toMatchObject([{ id: live }])
  }, 20_000)
})
