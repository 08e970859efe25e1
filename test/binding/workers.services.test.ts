import { describe, expect, it, onTestFinished } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import {
  fetchMany,
  fetchOne,
  freshQueue,
  gatewayForAll,
  nack,
  startJob,
  untilState,
} from '../operations/harness.ts'
import { createVhost } from '../support/broker/rabbit.ts'
import { Wire } from '../support/broker/wire.ts'
import { startTestGateway } from '../support/gateway/in-process.ts'
import { leastOfThree } from '../support/time/stopwatch.ts'
import { expectAsPrinted } from './printed.ts'

const { gateway } = gatewayForAll()

const NONE = '019414d4-0000-7000-8000-000000000000'
const WORKERS = '/ojs/v1/workers'
const invalid = { status: 400, body: { error: { code: 'invalid_request', retryable: false } } }
const unknown = { status: 404, body: { error: { code: 'not_found', retryable: false } } }

const five = { retry: { max_attempts: 5 }, tags: ['onboarding'] }
const asPrinted = {
  message: 'SMTP connection refused: Connection timed out after 10000ms',
  retryable: true,
  details: { smtp_host: 'mail.example.com', smtp_port: 587, error_class: 'SMTPConnectionError' },
}

const post = (verb: string, body: object) => gateway.request('POST', `${WORKERS}/${verb}`, body)

describe('POST /ojs/v1/workers/fetch', () => {
  it('200: hands out a job, as printed in §10.1', async () => {
    const queue = freshQueue()
    await gateway.push(queue, { options: five })
    const body = { queues: [queue], count: 1, worker_id: 'w', visibility_timeout_ms: 30_000 }
    expectAsPrinted(await post('fetch', { ...body, wait_ms: 10_000 }), '10.1 200')
  })

  it('200: an empty list if no job is available, as printed in §10.1', async () => {
    expectAsPrinted(await post('fetch', { queues: [freshQueue()] }), '10.1 200 (2)')
  })

  it('400 invalid_request: no queues', async () => {
    expect(await post('fetch', {})).toMatchObject(invalid)
  })

  it('400 invalid_request: an invalid queue name, with its index', async () => {
    const answer = await post('fetch', { queues: ['q', 'NO QUEUE'] })
    expect(answer).toMatchObject(invalid)
    expect(answer.body.error.message).toMatch(/^The 'queues\[1\]' field must be/)
    expect(answer.body.error.details.field).toBe('queues[1]')
  })

  it('200: no job for a count of 0 or less, and the available one for a count of 1000', async () => {
    const queue = freshQueue()
    const { id } = (await gateway.push(queue)).body.job
    for (const count of [0, -1]) expect(await gateway.fetch([queue], { count })).toEqual([])
    const [job] = await gateway.fetch([queue], { count: 1_000, wait_ms: 15_000 })
    expect(job).toMatchObject({ id, attempt: 1 })
  })

  // Up to three tries, because a FETCH waits at most a second for deliveries, and a machine may pause longer.
  it('200: as many jobs as the count, in order, if so many are available', async () => {
    const jobsOf = (queue: string) =>
      Array.from({ length: 70 }, (_, i) => ({ type: 'a', args: [i], options: { queue } }))
    const misplaced = async () => {
      const queue = freshQueue()
      await gateway.request('POST', '/ojs/v1/jobs/batch', { jobs: jobsOf(queue) })
      const fetched = await gateway.fetch([queue], { count: 60, wait_ms: 15_000 })
      return Array.from({ length: 60 }).filter((_, i) => fetched[i]?.args[0] !== i).length
    }
    expect(await leastOfThree(misplaced, 1)).toBe(0)
  })

  it.each([
    [40, 1, 39],
    [100, 50, 50],
  ])(
    '200: as many jobs as the count while others are leased (of %i first %i, then %i)',
    async (size, first, then) => {
      const missing = async () => {
        const queue = freshQueue()
        const job = { type: 'a', args: [], options: { queue } }
        await gateway.request('POST', '/ojs/v1/jobs/batch', { jobs: Array(size).fill(job) })
        const leased = await gateway.fetch([queue], { count: first, wait_ms: 15_000 })
        return size - leased.length - (await gateway.fetch([queue], { count: then })).length
      }
      expect(await leastOfThree(missing, 1)).toBe(0)
    },
  )

  it('200: all jobs that were pushed a moment ago, although deliveries lag behind their confirms', async () => {
    const { lagging, lag } = await laggingGateway()
    const queue = freshQueue()
    await startJob(lagging, queue)
    await lag(queue)
    const seen: number[] = []
    const complete = () => seen.filter((length) => length === 3).length
    while (complete() < 5 && seen.length < 10) {
      for (let n = 0; n < 3; n++) await lagging.push(queue)
      const { length } = await lagging.fetch([queue], { count: 3 })
      seen.push(length)
      // A machine that paused has delayed the others; they must not count for the next round.
      if (length < 3) await fetchMany(lagging, queue, 3 - length)
    }
    expect(complete(), JSON.stringify(seen)).toBe(5)
  })

  it.each([
    ['none consumed before', false],
    ['one consumed before', true],
  ])('200: a job of each queue, whether consumed before or not, %s', async (_, isConsumed) => {
    const misplaced = async () => {
      const queues = [freshQueue(), freshQueue(), freshQueue()]
      if (isConsumed) await startJob(gateway, queues[0] ?? '')
      for (const queue of queues) await gateway.push(queue)
      const fetched = await gateway.fetch(queues, { count: 5 })
      return queues.filter((queue, i) => fetched[i]?.queue !== queue).length
    }
    expect(await leastOfThree(misplaced, 1)).toBe(0)
  })
})

/** A gateway whose deliveries come later than the confirms from `lag` on, and whose clock stops then. */
async function laggingGateway() {
  const vhost = await createVhost()
  onTestFinished(() => vhost.drop())
  const wire = await Wire.start(vhost.url)
  onTestFinished(() => wire.stop())
  const { now, wall } = systemClock()
  let stoppedAt: number | null = null
  const clock = { wall, now: () => stoppedAt ?? now() }
  const lagging = await startTestGateway(wire.url, {}, { clock, idleMs: 600_000 })
  onTestFinished(() => lagging.destroy())
  const lag = async (routingKey: string) => {
    const { connection } = await wire.next('BasicDeliver', { routingKey })
    // FETCH waits for a new consumer in any case; 300 ms later it counts as an older one.
    stoppedAt = now() + 300
    wire.proxy.lag(connection, 50)
  }
  return { lagging, lag }
}

describe('POST /ojs/v1/workers/ack', () => {
  it('200: completes the job, as printed in §10.2', async () => {
    const job = await startJob(gateway, freshQueue())
    const result = { message_id: 'msg', delivered: true }
    expectAsPrinted(await post('ack', { job_id: job.id, result }), '10.2 200')
  })

  it('400 invalid_request: no job_id', async () => {
    expect(await post('ack', {})).toMatchObject(invalid)
  })

  it('404 not_found: an unknown job', async () => {
    expect(await post('ack', { job_id: NONE })).toMatchObject(unknown)
  })

  it('409 invalid_request: a job that is not active, as printed in §10.2', async () => {
    const job = await startJob(gateway, freshQueue())
    await gateway.ack(job.id)
    expectAsPrinted(await post('ack', { job_id: job.id }), '10.2 409')
  })
})

describe('POST /ojs/v1/workers/nack', () => {
  it('200: a retry, as printed in §10.3', async () => {
    const job = await startJob(gateway, freshQueue(), five)
    expectAsPrinted(await nack(gateway, job.id, asPrinted), '10.3 200')
  })

  it('200: discarded after the last attempt, as printed in §10.3', async () => {
    const job = await startJob(gateway, freshQueue(), { retry: { max_attempts: 1 } })
    const answer = await nack(gateway, job.id, asPrinted)
    expectAsPrinted(answer, '10.3 200 (2)', { attempt: 1 })
  })

  it('400 invalid_request: no error', async () => {
    expect(await post('nack', { job_id: NONE })).toMatchObject(invalid)
  })

  it('404 not_found: an unknown job', async () => {
    expect(await nack(gateway, NONE)).toMatchObject(unknown)
  })

  it('409 invalid_request: a job that is not active', async () => {
    const { body } = await gateway.push(freshQueue())
    expectAsPrinted(await nack(gateway, body.job.id), '10.2 409', {
      'error.details.current_state': 'available',
    })
  })
})

describe('POST /ojs/v1/workers/heartbeat', () => {
  const beat = (worker: string, ...ids: string[]) =>
    post('heartbeat', { worker_id: worker, active_jobs: ids, visibility_timeout_ms: 30_000 })

  it('200: extends the leases, as printed in §10.4', async () => {
    const queue = freshQueue()
    await gateway.push(queue)
    const job = await fetchOne(gateway, queue, { worker_id: 'w-running' })
    const answer = await beat('w-running', job.id)
    expectAsPrinted(answer, '10.4 200')
    expect(answer.body.jobs_extended).toEqual([job.id])
  })

  async function directive(worker: string, state: string): Promise<string> {
    const queue = freshQueue()
    await gateway.push(queue)
    const job = await fetchOne(gateway, queue, { worker_id: worker })
    await gateway.request('POST', `/ojs/v1/admin/workers/${worker}/${state}`)
    return job.id
  }

  it('200: the directive quiet, as printed in §10.4', async () => {
    const id = await directive('w-quiet', 'quiet')
    expectAsPrinted(await beat('w-quiet', id), '10.4 200 (2)')
  })

  it('200: the directive terminate, as printed in §10.4', async () => {
    await directive('w-terminate', 'terminate')
    expectAsPrinted(await beat('w-terminate'), '10.4 200 (3)')
  })

  it('400 invalid_request: no worker_id', async () => {
    expect(await post('heartbeat', {})).toMatchObject(invalid)
  })
})

describe('failed executions', () => {
  /** The job after a NACK with this code and without `retryable`, while it has attempts left. */
  async function reported(code: string): Promise<object> {
    // A long delay, so that the retry is not due before the job is read.
    const retry = { initial_interval: 'PT1H', max_interval: 'PT1H', jitter: false }
    const job = await startJob(gateway, freshQueue(), { retry })
    const { retryable: _, ...error } = asPrinted
    await nack(gateway, job.id, { ...error, code })
    return (await gateway.get(job.id)).body.job
  }

  it('handler_error: as the worker reports it, and retried', async () => {
    const error = { code: 'handler_error', message: asPrinted.message, retryable: true }
    expect(await reported('handler_error')).toMatchObject({ state: 'retryable', error })
  })

  it('cancelled: as the worker reports it, and not retried', async () => {
    const error = { code: 'cancelled', retryable: false }
    expect(await reported('cancelled')).toMatchObject({ state: 'discarded', error })
  })

  it('timeout: an execution that took longer than its timeout_ms', async () => {
    const retry = { max_attempts: 1 }
    const job = await startJob(gateway, freshQueue(), { timeout_ms: 50, retry })
    const ended = await untilState(gateway, job.id, 'discarded')
    expect(ended.error).toMatchObject({ code: 'timeout', retryable: true })
  })
})
