import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { eventually } from '../../support/gateway/in-process.ts'
import { gatewayForAll, nackIntoRetryQueue, startJob, untilState, withChannel } from '../harness.ts'

const SHIPPED = new URL('../../../topology/topology.json', import.meta.url)

/** Writes the shipped topology with these settings of single queues to a file. */
function withQueues(queues: object): { path: string; remove(): void } {
  const folder = mkdtempSync(join(tmpdir(), 'ojs-topology-'))
  const path = join(folder, 'topology.json')
  const shipped: object = JSON.parse(readFileSync(SHIPPED, 'utf8'))
  writeFileSync(path, JSON.stringify({ ...shipped, queues }))
  return { path, remove: () => rmSync(folder, { recursive: true }) }
}

describe.each(['classic', 'quorum'])('a queue with a limit (%s)', (queueType) => {
  const file = withQueues({ short: { maxLength: 3 }, small: { maxLengthBytes: 4_000 } })
  const { vhost, gateway } = gatewayForAll({
    OJS_QUEUE_TYPE: queueType,
    OJS_TOPOLOGY: file.path,
  })
  afterAll(() => file.remove())

  /** Pushes until the queue is full: RabbitMQ takes a few messages more than the limit. */
  async function untilFull(queue: string) {
    for (let count = 0; count < 200; count++) {
      const answer = await gateway.push(queue, { args: ['x'.repeat(500)] })
      if (answer.status !== 201) return { answer, count }
    }
    throw new Error(`${queue} is never full`)
  }
  const available = async (queue: string) =>
    (await gateway.request('GET', `/ojs/v1/queues/${queue}/stats`)).body.stats.available

  it.each(['short', 'small'])(
    'refuses a PUSH beyond its length or bytes with 429 queue_full: %s',
    async (queue) => {
      const { answer, count } = await untilFull(queue)
      expect(answer.status).toBe(429)
      expect(answer.body.error).toMatchObject({
        code: 'rate_limited',
        retryable: true,
        details: { reason: 'queue_full', queue },
      })
      expect(answer.headers.get('retry-after')).toMatch(/^[1-9]\d*$/)
      expect(count).toBeGreaterThanOrEqual(3)
      expect(await available(queue)).toBe(count)
      const { arguments: args } = { arguments: {}, ...(await vhost.queue(`ojs.queue.${queue}`)) }
      expect(args).toMatchObject({ 'x-overflow': 'reject-publish' })
    },
  )

  it('refuses a batch as a whole, and accepts one when there is room', async () => {
    const kept = await available('short')
    const jobs = [
      { type: 'test.job', args: [], options: { queue: 'roomy' } },
      ...Array(5).fill({ type: 'test.job', args: [], options: { queue: 'short' } }),
    ]
    const refused = await gateway.request('POST', '/ojs/v1/jobs/batch', { jobs })
    expect(refused.status).toBe(429)
    const { code, details } = refused.body.error
    expect([code, details.reason, details.queue]).toEqual(['rate_limited', 'queue_full', 'short'])
    expect(details.index).toBeGreaterThanOrEqual(1)
    expect(refused.headers.get('retry-after')).toMatch(/^[1-9]\d*$/)
    expect([await available('short'), await available('roomy')]).toEqual([kept, 0])
    expect(await gateway.fetch(['roomy'])).toEqual([])

    while ((await available('short')) > 0) {
      for (const { id } of await gateway.fetch(['short'], { count: 100, wait_ms: 5_000 })) {
        await gateway.ack(id)
      }
    }
    const [first] = jobs
    const one = { jobs: [first, { ...first, options: { queue: 'short' } }] }
    await eventually(async () => {
      return (await gateway.request('POST', '/ojs/v1/jobs/batch', one)).status === 201
    })
  })
})

describe('a retry whose message expires in its queue before the retry is due', () => {
  const file = withQueues({ brief: { messageTtlMs: 3_000 } })
  const { vhost, gateway } = gatewayForAll({ OJS_TOPOLOGY: file.path })
  afterAll(() => file.remove())

  it('discards the job', async () => {
    const retry = { max_attempts: 2, initial_interval: 'PT1M', jitter: false }
    const { job, answer } = await nackIntoRetryQueue(gateway, () =>
      startJob(gateway, 'brief', { retry }),
    )
    expect(answer.body.state).toBe('retryable')
    // Dead-letters the job message early, as a policy with a shorter TTL than that of the retry queue would.
    await withChannel(vhost.url, async (channel) => {
      await channel.consume('ojs.queue.retry.brief.60000', (message) => {
        if (message) channel.nack(message, false, false)
      })
      await untilState(gateway, job.id, 'discarded')
    })
  })
})
