import { beforeEach, describe, expect, it } from 'vitest'
import { LADDER_MS } from '../../../src/job/retry/backoff.ts'
import { queueMessages } from '../../support/broker/queue-messages.ts'
import { eventually, startTestGateway } from '../../support/gateway/in-process.ts'
import { AheadClock } from '../../support/time/ahead-clock.ts'
import { leastOfThree } from '../../support/time/stopwatch.ts'
import { samplesOf, scrape } from '../../telemetry/exposition-text.ts'
import {
  deadIds,
  eventsOf,
  fetchMany,
  fetchOne,
  freshQueue,
  gatewayForAll,
  nack,
  nackIntoRetryQueue,
  startJob,
  stateOf,
  storyOf,
  untilState,
  withChannel,
} from '../harness.ts'

const MINUTE_MS = 60_000
const DAY_MS = 24 * 60 * MINUTE_MS

const clock = new AheadClock()

const { vhost, gateway } = gatewayForAll({}, { clock })
let queue = ''

const start = (retry: object) => {
  queue = freshQueue()
  return startJob(gateway, queue, { retry: { jitter: false, ...retry } })
}
const retryQueue = (ms: number) => `ojs.queue.retry.${queue}.${ms}`

describe('an attempt that fails', () => {
  it('waits in the retry queue of its delay', async () => {
    queue = freshQueue()
    let failedAt = 0
    const { job, answer } = await nackIntoRetryQueue(gateway, async () => {
      const retry = { jitter: false, initial_interval_ms: MINUTE_MS }
      const started = await startJob(gateway, queue, { retry })
      failedAt = clock.now()
      return started
    })
    expect(answer.status).toBe(200)
    const waits = { state: 'retryable', attempt: 1, retry_delay_ms: MINUTE_MS }
    expect(answer.body).toMatchObject(waits)
    const dueAt = Date.parse(answer.body.next_attempt_at)
    expect(dueAt).toBeGreaterThanOrEqual(failedAt + MINUTE_MS)
    await eventually(async () =>
      (await queueMessages(vhost.url, retryQueue(MINUTE_MS))).includes(job.id),
    )
    expect((await gateway.get(job.id)).body.job).toMatchObject({
      state: 'retryable',
      attempt: 1,
      next_attempt_at: answer.body.next_attempt_at,
      error: { code: 'handler_error', type: 'handler_error', message: 'it broke' },
    })
  })

  it('leaves the retry queue within a second after its delay, without waiting for the relay', async () => {
    const lateMs = async () => {
      const job = await start({ initial_interval_ms: 700 })
      const { body } = await nack(gateway, job.id)
      const again = await fetchOne(gateway, queue)
      const late = clock.now() - Date.parse(body.next_attempt_at)
      expect(late).toBeGreaterThanOrEqual(0)
      expect(again).toMatchObject({ id: job.id, attempt: 2, retry_delay_ms: 700 })
      expect(await queueMessages(vhost.url, retryQueue(700))).toEqual([])
      return late
    }
    expect(await leastOfThree(lateMs, 1_000)).toBeLessThan(1_000)
  })

  it('is not handed out before its delay is over', async () => {
    const job = await start({ initial_interval: 'PT1S' })
    const { body } = await nack(gateway, job.id)
    const jobs: object[] = []
    while (jobs.length === 0) jobs.push(...(await gateway.fetch([queue])))
    expect(clock.now()).toBeGreaterThanOrEqual(Date.parse(body.next_attempt_at))
    expect(jobs).toMatchObject([{ id: job.id, attempt: 2 }])
  })

  it.each([
    ['exponential', { initial_interval_ms: 200, backoff_coefficient: 3 }, [200, 600, 1_800]],
    ['linear', { initial_interval_ms: 200, backoff_strategy: 'linear' }, [200, 400, 600]],
    ['up to max_interval', { initial_interval_ms: 200, max_interval_ms: 250 }, [200, 250, 250]],
    ['rounded up to two digits', { initial_interval_ms: 111 }, [120, 230, 450]],
  ])('waits by its backoff: %s', async (_, retry, delays) => {
    const job = await start({ ...retry, max_attempts: 4 })
    for (const [i, delay] of delays.entries()) {
      const { body } = await nack(gateway, job.id)
      expect(body).toMatchObject({ attempt: i + 1, state: 'retryable', retry_delay_ms: delay })
      expect(await fetchOne(gateway, queue)).toMatchObject({ attempt: i + 2 })
    }
    expect((await nack(gateway, job.id)).body.state).toBe('discarded')
  })

  it('with jitter waits a delay of the ladder, between half and one and a half times the interval', async () => {
    queue = freshQueue()
    const retry = { initial_interval_ms: 100_000 }
    for (let i = 0; i < 15; i++) {
      const failing = () => startJob(gateway, queue, { retry })
      const { job, answer } = await nackIntoRetryQueue(gateway, failing)
      const { body } = answer
      expect(LADDER_MS).toContain(body.retry_delay_ms)
      expect(body.retry_delay_ms).toBeGreaterThanOrEqual(50_000)
      expect(body.retry_delay_ms).toBeLessThan(150_000)
      const { retry_delay_ms: delay } = body
      await eventually(async () =>
        (await queueMessages(vhost.url, retryQueue(delay))).includes(job.id),
      )
      await gateway.cancel(job.id)
    }
  })

  it('is held by the ledger while its retry queue is new, and still comes in time', async () => {
    const careful = await startTestGateway(
      vhost.url,
      { OJS_PREFIX: 'new' },
      { retryQueueSettleMs: 60_000 },
    )
    const lateMs = async () => {
      queue = freshQueue()
      const retry = { initial_interval_ms: 700, jitter: false }
      const job = await startJob(careful, queue, { retry })
      const { body } = await nack(careful, job.id)
      expect(body).toMatchObject({ state: 'retryable', attempt: 1, retry_delay_ms: 700 })
      await expect.poll(() => vhost.queue(`new.${retryQueue(700)}`)).toBeDefined()
      const dueAt = Date.parse(body.next_attempt_at)
      while (Date.now() < dueAt) {
        expect(await queueMessages(vhost.url, `new.${retryQueue(700)}`)).toEqual([])
      }
      expect(await fetchOne(careful, queue)).toMatchObject({
        id: job.id,
        attempt: 2,
        retry_delay_ms: 700,
      })
      return Date.now() - dueAt
    }
    try {
      // As soon as from the retry queue; the next round of the relay would be later.
      expect(await leastOfThree(lateMs, 3_000)).toBeLessThan(3_000)
    } finally {
      await careful.destroy()
    }
  })

  it('is held by the ledger when its delay is longer than that of any retry queue', async () => {
    const job = await start({ initial_interval: 'PT10M', max_interval: 'PT1H' })
    const { body } = await nack(gateway, job.id)
    expect(body).toMatchObject({ state: 'retryable', retry_delay_ms: 600_000 })
    expect(Date.parse(body.next_attempt_at)).toBeGreaterThan(clock.now() + 590_000)
    // There is neither a retry queue nor a job message, since the old job message was acknowledged.
    await eventually(async () => (await vhost.queue(`ojs.queue.${queue}`))?.['messages'] === 0)
    expect(await vhost.queue(retryQueue(600_000))).toBeUndefined()
    expect((await gateway.cancel(job.id)).body.job.previous_state).toBe('retryable')
  })

  it('is held by the ledger when it has a concurrency key, until the key has a place', async () => {
    queue = freshQueue()
    const retry = { jitter: false, initial_interval_ms: MINUTE_MS }
    const options = { retry, concurrency: { key: queue, limit: 1 }, timeout_ms: 0 }
    const job = await startJob(gateway, queue, options)
    await nack(gateway, job.id)
    expect(await vhost.queue(retryQueue(MINUTE_MS))).toBeUndefined()
    const other = await startJob(gateway, queue, { ...options, visibility_timeout: 'PT1H' })
    clock.aheadMs += MINUTE_MS
    await untilState(gateway, job.id, 'available')
    expect((await gateway.get(job.id)).body.job.held_by).toEqual({ concurrency: queue })
    // A consumer that does not ask would run it beside the other one.
    expect(await queueMessages(vhost.url, `ojs.queue.${queue}`)).toEqual([])
    await gateway.ack(other.id)
    expect(await fetchOne(gateway, queue)).toMatchObject({ id: job.id, attempt: 2 })
  })

  it('is kept in errors, oldest first, while error is removed by success', async () => {
    const job = await start({ initial_interval_ms: 120, max_attempts: 3 })
    await nack(gateway, job.id, { code: 'first', details: { error_class: 'E1' } })
    await fetchOne(gateway, queue)
    await nack(gateway, job.id, { code: 'second', type: 'E2' })
    const third = await fetchOne(gateway, queue)
    const errors = [
      { attempt: 1, code: 'first', type: 'E1', message: 'it broke', occurred_at: anInstant },
      { attempt: 2, code: 'second', type: 'E2', message: 'it broke', occurred_at: anInstant },
    ]
    expect(third).toMatchObject({ attempt: 3, errors })
    await gateway.ack(job.id)
    const done = (await gateway.get(job.id)).body.job
    expect(done).toMatchObject({ state: 'completed', attempt: 3, errors })
    expect(done).not.toHaveProperty('error')
  })

  it('emits the events of failure, retry and discard in order', async () => {
    const job = await start({ initial_interval_ms: 120, max_attempts: 2 })
    await nack(gateway, job.id)
    await fetchOne(gateway, queue)
    await nack(gateway, job.id, { code: 'last', message: 'the end' })
    const events = await eventsOf(gateway, queue, job.id)
    expect(events.map(({ type }) => type)).toEqual([
      'job.enqueued',
      'job.started',
      'job.failed',
      'job.retrying',
      'job.enqueued',
      'job.started',
      'job.failed',
      'job.discarded',
      'dead_letter.added',
    ])
    const [, , failed, retrying, , , , discarded] = events
    expect(failed.data).toMatchObject({ attempt: 1, error: { code: 'handler_error' } })
    expect(retrying.data).toMatchObject({ attempt: 1, max_attempts: 2, retry_delay_ms: 120 })
    expect(discarded.data).toMatchObject({ total_attempts: 2, last_error: { code: 'last' } })
  })
})

describe('no further attempt', () => {
  it.each([
    ['a failure that says so', { error: { retryable: false }, listed: true }],
    ['an exact name', { names: ['Auth'], error: { code: 'Auth' }, listed: true }],
    ['a class', { names: ['E1'], error: { details: { error_class: 'E1' } }, listed: true }],
    ['a prefix', { names: ['auth.*'], error: { type: 'auth.expired' }, listed: true }],
    ['the directive DISCARD', { error: { code: 'DISCARD' }, listed: false }],
    ['the directive DEAD_LETTER', { error: { code: 'DEAD_LETTER' }, listed: true }],
  ])('after %s', async (_, { names = [], error, listed }: Ending) => {
    const job = await start({ max_attempts: 5, non_retryable_errors: names })
    const { body } = await nack(gateway, job.id, error)
    expect(body).toMatchObject({ state: 'discarded', attempt: 1, discarded_at: anInstant })
    expect(body).not.toHaveProperty('next_attempt_at')
    expect(await deadIds(gateway, queue)).toEqual(listed ? [job.id] : [])
  })

  it('does not apply to the code auth with the pattern auth.*, which needs the dot', async () => {
    const job = await start({ max_attempts: 5, non_retryable_errors: ['auth.*'] })
    expect((await nack(gateway, job.id, { code: 'auth' })).body.state).toBe('retryable')
  })

  it.each([
    ['dead_letter', true],
    ['discard', false],
    [undefined, true],
  ])('after the last attempt, with on_exhaustion %s', async (onExhaustion, listed) => {
    const job = await start({
      max_attempts: 1,
      ...(onExhaustion && { on_exhaustion: onExhaustion }),
    })
    expect((await nack(gateway, job.id)).body.state).toBe('discarded')
    expect(await deadIds(gateway, queue)).toEqual(listed ? [job.id] : [])
    expect((await gateway.get(job.id)).body.job).toMatchObject({
      state: 'discarded',
      error: { code: 'handler_error' },
      discarded_at: anInstant,
      completed_at: anInstant,
    })
    // Every discard leaves its copy in the DLX queue (seed 002 §5.5), listed or not.
    const copies = () => queueMessages(vhost.url, `ojs.queue.dlx.${queue}`)
    if (listed) await eventually(async () => (await copies()).includes(job.id))
  })
})

describe('requeue', () => {
  it('makes the job available at once and counts no attempt', async () => {
    const job = await start({ max_attempts: 1 })
    const { body } = await nack(gateway, job.id, {}, { requeue: true })
    expect(body).toMatchObject({ state: 'available', attempt: 0 })
    const again = await fetchOne(gateway, queue)
    expect(again).toMatchObject({ id: job.id, attempt: 1 })
    expect(again).not.toHaveProperty('errors')
    await gateway.ack(job.id)
    expect(await storyOf(gateway, queue, job.id)).toEqual([
      ...['job.enqueued', 'job.started', 'job.enqueued', 'job.started', 'job.completed'],
    ])
  })

  it('emits job.enqueued before the job.started of a waiting worker', async () => {
    const job = await start({})
    const next = fetchOne(gateway, queue, { worker_id: 'next' })
    await nack(gateway, job.id, {}, { requeue: true })
    expect(await next).toMatchObject({ id: job.id, attempt: 1 })
    const events = await eventsOf(gateway, queue, job.id)
    expect(events.map(({ type }) => type)).toEqual([
      ...['job.enqueued', 'job.started', 'job.enqueued', 'job.started'],
    ])
  })

  it('puts the job back at the front of its queue', async () => {
    const job = await start({})
    const next = (await gateway.push(queue)).body.job
    await nack(gateway, job.id, {}, { requeue: true })
    expect((await fetchOne(gateway, queue)).id).toBe(job.id)
    expect((await fetchOne(gateway, queue)).id).toBe(next.id)
  })
})

describe('NACK', () => {
  it('is refused with 409 when it is late or from another worker, and changes nothing', async () => {
    queue = freshQueue()
    // An hour, so that the retry is not due before the test looks at it.
    const retry = { initial_interval: 'PT1H', max_interval: 'PT1H', jitter: false }
    await gateway.push(queue, { options: { retry } })
    const job = await fetchOne(gateway, queue, { worker_id: 'w1' })
    const other = await nack(gateway, job.id, {}, { worker_id: 'w2' })
    expect(other).toMatchObject({ status: 409, body: { error: { code: 'invalid_request' } } })
    expect((await nack(gateway, job.id, {}, { attempt: 2 })).status).toBe(409)
    expect((await nack(gateway, job.id, {}, { worker_id: 'w1', attempt: 1 })).status).toBe(200)
    const twice = await nack(gateway, job.id)
    expect(twice.body.error.details).toMatchObject({ current_state: 'retryable' })
    expect((await gateway.get(job.id)).body.job.errors).toHaveLength(1)
    await gateway.cancel(job.id)
    expect((await nack(gateway, job.id)).body.error.details.current_state).toBe('cancelled')
  })

  const FENCES = [
    { worker_id: 'w1' },
    { worker_id: 'w2' },
    { worker_id: 'w1', attempt: 1 },
    { worker_id: 'w1', attempt: 2 },
    { worker_id: 'w2', attempt: 1 },
    { attempt: 1 },
    { attempt: 2 },
    {},
  ]
  it.each([
    [{ worker_id: 'w1' }, [200, 409, 200, 409, 409, 200, 409, 200]],
    [{}, [200, 200, 200, 409, 200, 200, 409, 200]],
  ])('is refused exactly when an ACK is, for a job fetched with %o', async (fetcher, expected) => {
    queue = freshQueue()
    for (const [i, fence] of FENCES.entries()) {
      const answers = []
      for (const settle of [
        (id: string) => gateway.ack(id, fence),
        (id: string) => nack(gateway, id, { code: 'DISCARD' }, fence),
        (id: string) => nack(gateway, id, {}, { ...fence, requeue: true }),
      ]) {
        const { id } = (await gateway.push(queue)).body.job
        expect((await fetchOne(gateway, queue, fetcher)).id).toBe(id)
        const { status, body } = await settle(id)
        const { job_id, ...details } = body.error?.details ?? {}
        answers.push({ status, details })
        await gateway.cancel(id)
      }
      const [acked, ...nacked] = answers
      expect(acked?.status, JSON.stringify(fence)).toBe(expected[i])
      expect(nacked, JSON.stringify(fence)).toEqual([acked, acked])
    }
  })

  it('accepts an error with an empty message, as of `new Error()`', async () => {
    const job = await start({ initial_interval_ms: 100 })
    const { status, body } = await nack(gateway, job.id, { code: 'handler_error', message: '' })
    expect({ status, state: body.state }).toEqual({ status: 200, state: 'retryable' })
    const again = await fetchOne(gateway, queue)
    const error = { code: 'handler_error', message: '' }
    expect(again).toMatchObject({ id: job.id, attempt: 2, error, errors: [error] })
  })

  it('answers 404 for an unknown job, and 400 without an error', async () => {
    expect((await nack(gateway, '019414d4-8b2e-7c3a-b5d1-f0e2a3b4c5d6')).status).toBe(404)
    const job = await start({})
    const body = { job_id: job.id }
    expect((await gateway.request('POST', '/ojs/v1/workers/nack', body)).status).toBe(400)
    expect((await gateway.get(job.id)).body.job.state).toBe('active')
  })
})

describe('a retry queue that was deleted in RabbitMQ', () => {
  beforeEach(() => {
    queue = freshQueue()
  })
  const failing = (ms: number) =>
    startJob(gateway, queue, { retry: { initial_interval_ms: ms, jitter: false } })
  const waitInRetryQueue = async (ms = MINUTE_MS) => {
    const { job, answer } = await nackIntoRetryQueue(gateway, () => failing(ms))
    await eventually(async () => (await queueMessages(vhost.url, retryQueue(ms))).includes(job.id))
    return { id: job.id, dueAt: Date.parse(answer.body.next_attempt_at) }
  }
  const deleteRetryQueue = (ms = MINUTE_MS) =>
    withChannel(vhost.url, (channel) => channel.deleteQueue(retryQueue(ms)))
  const reconnect = async () => {
    await vhost.closeConnections()
    await eventually(async () => (await gateway.push(`other-${queue}`)).status === 201)
  }

  it('is declared again by the next retry, and the jobs that waited in it are not lost', async () => {
    // Long enough to look into the retry queue before the jobs leave it.
    const ms = 11_000
    const second = await failing(ms)
    const first = await waitInRetryQueue(ms)
    await deleteRetryQueue(ms)
    await nack(gateway, second.id)
    const again = await fetchMany(gateway, queue, 2, { wait_ms: 30_000 })
    expect(new Set(again.map(({ id }) => id))).toEqual(new Set([first.id, second.id]))
    expect(again).toMatchObject([{ attempt: 2 }, { attempt: 2 }])
  })

  it('is found missing after a reconnect, and the ledger holds its jobs until they are due', async () => {
    const { id, dueAt } = await waitInRetryQueue()
    await deleteRetryQueue()
    await reconnect()
    expect(await gateway.fetch([queue], { wait_ms: 300 })).toEqual([])
    expect(await stateOf(gateway, id)).toBe('retryable')
    clock.aheadMs += MINUTE_MS
    expect(await fetchOne(gateway, queue)).toMatchObject({ id, attempt: 2 })
    expect(clock.now()).toBeGreaterThanOrEqual(dueAt)
  })

  it('is found missing after a reconnect, and a job that is already due is published', async () => {
    const { id } = await waitInRetryQueue()
    await deleteRetryQueue()
    clock.aheadMs += MINUTE_MS
    await untilState(gateway, id, 'available')
    await reconnect()
    expect(await fetchOne(gateway, queue)).toMatchObject({ id, attempt: 2 })
  })
})

it('a retry held by the ledger is pruned after its cancellation, although its delivery was lost', async () => {
  const interval = 10 * MINUTE_MS
  const { id } = await start({ initial_interval_ms: interval, max_interval_ms: interval })
  await vhost.closeConnections()
  await eventually(async () => (await nack(gateway, id)).body.retry_delay_ms === interval)
  const acked = `ojs_amqp_messages_acked_total{queue="${queue}"}`
  const acks = async () => samplesOf(await scrape(gateway), acked)[acked] ?? 0
  const before = await acks()
  // RabbitMQ redelivers the job message of the ended attempt, and FETCH drops it.
  await eventually(async () => {
    const fetching = { queues: [queue], wait_ms: 300 }
    const { status, body } = await gateway.request('POST', '/ojs/v1/workers/fetch', fetching)
    if (status !== 200) return false
    expect(body.jobs).toEqual([])
    return (await acks()) > before
  })
  await gateway.cancel(id)
  clock.aheadMs += 8 * DAY_MS
  await eventually(async () => (await gateway.get(id)).status === 404)
})

interface Ending {
  names?: string[]
  error: object
  listed: boolean
}

const anInstant: unknown = expect.stringMatching(/^\d{4}-.*Z$/)
