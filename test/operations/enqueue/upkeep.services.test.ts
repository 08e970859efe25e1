import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { queueMessages } from '../../support/broker/queue-messages.ts'
import { createVhost, type Vhost, vhostForAll } from '../../support/broker/rabbit.ts'
import { eventually, startTestGateway, type TestGateway } from '../../support/gateway/in-process.ts'
import { AheadClock } from '../../support/time/ahead-clock.ts'
import {
  deadIds,
  deadLetters,
  fetchOne,
  freshQueue,
  nack,
  startJob,
  stateOf,
  storyOf,
  untilState,
  withChannel,
} from '../harness.ts'
import { publishJobMessage } from '../job-messages/messages.ts'

const vhost = vhostForAll()

/** Declares a job queue with these additional arguments, as an operator might before the gateway does. */
async function declare({ url }: Vhost, queue: string, more: object): Promise<void> {
  await withChannel(url, async (channel) => {
    await channel.assertExchange('ojs.exchange.dlx', 'direct', { durable: true })
    await channel.assertQueue(`ojs.queue.${queue}`, {
      durable: true,
      arguments: {
        'x-dead-letter-exchange': 'ojs.exchange.dlx',
        'x-dead-letter-routing-key': queue,
        ...more,
      },
    })
  })
}

describe('a job queue with', () => {
  let gateway: TestGateway
  beforeAll(async () => {
    gateway = await startTestGateway(vhost.url)
  })
  afterAll(() => gateway.destroy())

  it('x-message-ttl discards its expired jobs with job.expired', async () => {
    const queue = freshQueue()
    await declare(vhost, queue, { 'x-message-ttl': 300 })
    const { id } = (await gateway.push(queue)).body.job
    const dead = await untilState(gateway, id, 'discarded')
    expect(dead).not.toHaveProperty('completed_at')
    expect(dead).toMatchObject({ attempt: 0 })
    expect(await storyOf(gateway, queue, id)).toEqual(['job.enqueued', 'job.expired'])
    // The job never failed, so it is listed only if its retry policy asks for that (ojs-choices C-87).
    expect(await deadIds(gateway, queue)).toEqual([])
    const onExhaustion = { retry: { on_exhaustion: 'dead_letter' } }
    const listed = (await gateway.push(queue, { options: onExhaustion })).body.job.id
    await untilState(gateway, listed, 'discarded')
    expect(await deadIds(gateway, queue)).toEqual([listed])
  })

  it('x-max-length and drop-head discards its oldest job with the error maxlen', async () => {
    const queue = freshQueue()
    await declare(vhost, queue, { 'x-max-length': 1 })
    const first = (await gateway.push(queue)).body.job.id
    const second = (await gateway.push(queue)).body.job.id
    const dead = await untilState(gateway, first, 'discarded')
    expect(dead.error).toMatchObject({ code: 'maxlen', retryable: false })
    expect(await deadIds(gateway, queue)).toEqual([first])
    const ends = (await storyOf(gateway, queue, first)).slice(-2)
    expect(ends).toEqual(['job.discarded', 'dead_letter.added'])
    expect((await fetchOne(gateway, queue)).id).toBe(second)
  })
})

describe('retention', () => {
  const kept = ['COMPLETED', 'CANCELLED', 'DISCARDED', 'DEAD_LETTERS'] as const
  const env = Object.fromEntries(kept.map((name) => [`OJS_RETENTION_${name}`, 'PT1S']))

  it('prunes ended jobs and updates the counts, but keeps a cancelled job whose job message is queued', async () => {
    const own = await createVhost()
    const gateway = await startTestGateway(own.url, env)
    const queue = freshQueue()
    try {
      const once = { max_attempts: 1 }
      const states = ['available', 'completed']
      const unique = { keys: ['type', 'queue'], period: 'P30D', states }
      const completed = await startJob(gateway, queue, { unique })
      await gateway.ack(completed.id)
      const discarded = await startJob(gateway, queue, {
        retry: { ...once, on_exhaustion: 'discard' },
      })
      await nack(gateway, discarded.id)
      const dead = await startJob(gateway, queue, { retry: once })
      await nack(gateway, dead.id)
      const cancelled = await startJob(gateway, queue)
      await gateway.cancel(cancelled.id)
      const active = await startJob(gateway, queue)
      // Its job message is still queued. Without the row, the job message would be adopted as a native job
      // and run.
      const queued = (await gateway.push(queue)).body.job
      await gateway.cancel(queued.id)
      const gone = [completed, discarded, dead, cancelled].map(({ id }) => id)
      const isGone = async (id: string) => (await gateway.get(id)).status === 404
      await eventually(async () => (await Promise.all(gone.map(isGone))).every(Boolean))

      // The period of its key goes on, but there is no job that `ignore` could answer.
      for (const on_conflict of ['reject', 'ignore']) {
        const { status, body } = await gateway.push(queue, {
          options: { unique: { ...unique, on_conflict } },
        })
        expect([status, body.error.code]).toEqual([409, 'duplicate'])
        const { id: existing_job_id } = completed
        expect(body.error.details).toMatchObject({
          ...{ reason: 'job_gone', existing_job_id, existing_job_state: 'completed' },
        })
      }
      expect(await stateOf(gateway, queued.id)).toBe('cancelled')
      expect(await stateOf(gateway, active.id)).toBe('active')
      expect((await deadLetters(gateway, '')).pagination.total).toBe(0)
      const metrics = (await gateway.request('GET', '/metrics')).body
      expect(countsIn(metrics, queue)).toEqual({ active: 1, cancelled: 1 })
      // A job message of a pruned dead letter is still dropped, and not adopted as a new job.
      await publishJobMessage(own.url, queue, { id: dead.id, type: 'a', args: [] })
      await eventually(async () => {
        expect(await gateway.fetch([queue], { wait_ms: 1_000 })).toEqual([])
        return (await queueMessages(own.url, `ojs.queue.${queue}`)).length === 0
      })
    } finally {
      await gateway.destroy()
      await own.drop()
    }
  })

  it('prunes nothing after a start with a clock far ahead, until an operator says so', async () => {
    const own = await createVhost()
    const clock = new AheadClock()
    const gateway = await startTestGateway(own.url, {}, { clock })
    const queue = freshQueue()
    try {
      const completed = await startJob(gateway, queue)
      await gateway.ack(completed.id)
      const dead = await startJob(gateway, queue, { retry: { max_attempts: 1 } })
      await nack(gateway, dead.id)
      await gateway.stop()
      clock.aheadMs = 400 * 86_400_000
      await gateway.restart()
      // Time is the subject: longer than from one pass to the next.
      await new Promise((resolve) => setTimeout(resolve, 6_000))
      for (const { id } of [completed, dead]) expect((await gateway.get(id)).status).toBe(200)
      const codes = async () => {
        const { body } = await gateway.request('GET', '/ojs/v1/health')
        return body.warnings.map(({ code }: { code: string }) => code)
      }
      expect(await codes()).toEqual(['clock_ahead'])
      const resume = () => gateway.request('POST', '/ojs/v1/admin/retention/resume')
      expect(await resume()).toMatchObject({ status: 200, body: { resumed: true } })
      expect(await resume()).toMatchObject({ status: 200, body: { resumed: false } })
      expect(await codes()).toEqual([])
      const isGone = async ({ id }: { id: string }) => (await gateway.get(id)).status === 404
      await eventually(async () => (await isGone(completed)) && (await isGone(dead)))
    } finally {
      await gateway.destroy()
      await own.drop()
    }
  })

  it('prunes a job that expired while a full queue refused its job message', async () => {
    const own = await createVhost()
    const gateway = await startTestGateway(own.url, env)
    const queue = freshQueue()
    try {
      await declare(own, queue, { 'x-max-length': 1, 'x-overflow': 'reject-publish' })
      // The limit is soft: RabbitMQ takes one or two more.
      await eventually(async () => (await gateway.push(queue)).status === 429)
      const inMs = (ms: number) => new Date(Date.now() + ms).toISOString()
      const options = { scheduled_at: inMs(3_000), expires_at: inMs(4_500) }
      const { id } = (await gateway.push(queue, { options })).body.job
      await untilState(gateway, id, 'discarded')
      await eventually(async () => (await gateway.get(id)).status === 404)
    } finally {
      await gateway.destroy()
      await own.drop()
    }
  })
})

/** The number of jobs in each state of this queue, by `ojs_queue_depth`; without zeros. */
function countsIn(metrics: string, queue: string): Record<string, number> {
  const lines = metrics.matchAll(/^ojs_queue_depth\{queue="([^"]+)",state="(\w+)"\} (\d+)$/gm)
  const counts: Record<string, number> = {}
  for (const [, name, state, value] of lines) {
    if (name === queue && state !== undefined && value !== '0') counts[state] = Number(value)
  }
  return counts
}
