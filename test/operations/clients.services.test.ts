import { describe, expect, it } from 'vitest'
import { fetchOne, freshQueue, gatewayForAll, nack, withChannel } from './harness.ts'

// What clients of OJS that were written for other servers send, and what they read out of the answers.

// biome-ignore lint/suspicious/noExplicitAny: answers are read as a client would, member by member
type Json = any

const { vhost, gateway } = gatewayForAll()

const post = (path: string, body: unknown, headers: Record<string, string> = {}) =>
  gateway.request('POST', `/ojs/v1${path}`, body, headers)

describe('an answer shows a time in seconds only if the request had it', () => {
  const SECONDS = ['timeout', 'visibility_timeout']
  const secondsIn = (job: Json) => SECONDS.filter((name) => name in job)

  it('beside timeout_ms, while the AMQP body always has it', async () => {
    const queue = freshQueue()
    const options = { queue, visibility_timeout_ms: 40_000, retry: { max_attempts: 1 } }
    const { body } = await post('/jobs', { type: 'a', args: [], options, 7: 'an index' })
    expect(body.job).toMatchObject({
      timeout_ms: 30_000,
      visibility_timeout_ms: 40_000,
      7: 'an index',
    })
    const { id } = body.job
    const token = await withChannel(vhost.url, async (channel) => {
      const message = await channel.get(`ojs.queue.${queue}`, { noAck: false })
      return message === false ? {} : JSON.parse(message.content.toString())
    })
    expect(token).toMatchObject({ id, timeout: 30, timeout_ms: 30_000, visibility_timeout: 40 })

    const answers = [body.job, (await gateway.get(id)).body.job, await fetchOne(gateway, queue)]
    await nack(gateway, id)
    const dead = await gateway.request('GET', `/ojs/v1/dead-letter?queue=${queue}`)
    answers.push(...dead.body.jobs)
    answers.push((await post(`/dead-letter/${id}/retry`, {})).body.job)
    await fetchOne(gateway, queue)
    answers.push((await gateway.ack(id)).body.job)
    expect(answers.map(secondsIn)).toEqual(answers.map(() => []))

    const jobs = [{ type: 'a', args: [], options: { queue, timeout: 9, visibility_timeout: 5 } }]
    const [asked] = (await post('/jobs/batch', { jobs })).body.jobs
    expect(asked).toMatchObject({ timeout: 9, timeout_ms: 9_000, visibility_timeout: 5 })
    expect(await fetchOne(gateway, queue)).toMatchObject({ timeout: 9, visibility_timeout: 5 })
  })
})

describe('a unique policy', () => {
  it('takes period_ms, and reads key as keys if it names nothing but parts of a job', async () => {
    const queue = freshQueue()
    const push = async (args: unknown[], unique: object) => {
      const { status } = await post('/jobs', { type: 'a', args, options: { queue, unique } })
      return status
    }
    const ofAll = { key: ['type', 'args'], period_ms: 3_600_000 }
    expect(await push([1], ofAll)).toBe(201)
    expect(await push([2], ofAll)).toBe(201)
    expect(await push([2], ofAll)).toBe(409)
    const short = { keys: ['queue'], period_ms: 1 }
    expect(await push([3], short)).toBe(201)
    await expect.poll(() => push([3], short)).toBe(201)
    expect(await push([3], { keys: ['queue'], period_ms: 3_600_000 })).toBe(409)
  })
})
