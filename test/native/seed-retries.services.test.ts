import { v7 } from 'uuid'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { runSeedExample, runSeedScript } from '../support/broker/pika.ts'
import { queueMessages } from '../support/broker/queue-messages.ts'
import { createVhost, type Vhost } from '../support/broker/rabbit.ts'
import { type Answer, type Job, jobOf, jobsOf } from '../support/gateway/client.ts'
import { Gateway } from '../support/gateway/gateway.ts'
import { eventually } from '../support/gateway/in-process.ts'

const CLASSIC_RETRY_QUEUE = 'ojs.queue.retry.email.1000'
/** The retry helper of seed 002 §15.4 waits as long before attempt 2. */
const EXACT = { initial_interval_ms: 1_000, jitter: false }

let vhost: Vhost
let gateway: Gateway

const end = async () => {
  await gateway.dispose()
  await vhost.drop()
}
const startGateway = async () => {
  gateway = await Gateway.start({ amqpUrl: vhost.url })
  await gateway.untilHealthy()
}
const declareRetryQueues = () => runSeedScript(vhost.url, 'seed-002-15-3.py')
/** Runs the consumer of seed 002 §15.2 for one job per outcome. */
const consume = (...outcomes: ('ok' | 'retry' | 'fail')[]) =>
  runSeedScript(vhost.url, 'seed-002-15-2.py', { OUTCOMES: outcomes.join(',') })

/** Pushes a job over HTTP. */
async function pushOverHttp(options: object = {}): Promise<string> {
  const body = { type: 'email.send', args: [], options: { queue: 'email', ...options } }
  const answer = await gateway.client.push(body)
  expect(answer.status, answer.text).toBe(201)
  return jobOf(answer).id
}

/** Publishes the job of seed 002 §15.1. */
async function pushNatively(): Promise<string> {
  const id = v7()
  await runSeedExample(vhost.url, id)
  return id
}

async function fetchEmail(): Promise<Job> {
  const answer = await gateway.client.fetch({ queues: ['email'], wait_ms: 15_000 })
  const [job] = jobsOf(answer)
  if (job === undefined) throw new Error(`nothing fetched: ${answer.status} ${answer.text}`)
  return job
}

function nack(id: string): Promise<Answer> {
  const error = { code: 'handler_error', message: 'no' }
  return gateway.client.send('POST', '/ojs/v1/workers/nack', { job_id: id, error })
}

async function deadLetterIds(): Promise<string[]> {
  const { body } = await gateway.client.send('GET', '/ojs/v1/dead-letter?queue=email')
  return (body['jobs'] as Job[]).map(({ id }) => id)
}

async function eventTypes(id: string): Promise<string[]> {
  const { body } = await gateway.client.send('GET', '/ojs/v1/events?queues=email')
  const events = body['events'] as { type: string; subject: string }[]
  return events.filter(({ subject }) => subject === id).map(({ type }) => type)
}

/** NACKs the job: its retry comes in time without waiting in the retry queue of seed 002 §15.3. */
async function expectRetryWithoutClassicRetryQueue(id: string): Promise<void> {
  const failed = await nack(id)
  expect(failed.body, failed.text).toMatchObject({ state: 'retryable', retry_delay_ms: 1_000 })
  const dueAt = Date.parse(String(failed.body['next_attempt_at']))
  while (Date.now() < dueAt) expect(await queueMessages(vhost.url, CLASSIC_RETRY_QUEUE)).toEqual([])
  expect(await fetchEmail()).toMatchObject({ id, attempt: 2, errors: [{ attempt: 1 }] })
  expect((await gateway.client.ack({ job_id: id })).status).toBe(200)
}

describe('the retry queues of seed 002 §15.3, declared as printed', () => {
  beforeEach(async () => {
    vhost = await createVhost()
  })
  afterEach(end)

  test('before those of the gateway, are not used for its retries and named by health', async () => {
    await declareRetryQueues()
    const native = await pushNatively()
    await startGateway()
    expect((await fetchEmail()).id).toBe(native)
    expect((await gateway.client.ack({ job_id: native })).status).toBe(200)
    const id = await pushOverHttp({ retry: EXACT })
    await fetchEmail()
    await expectRetryWithoutClassicRetryQueue(id)
    const health = await gateway.client.health()
    expect(health.status).toBe(200)
    expect(health.text).toContain(CLASSIC_RETRY_QUEUE)
  })

  test('after the gateway started, are not used for its retries', async () => {
    await startGateway()
    const id = await pushOverHttp({ retry: EXACT })
    await declareRetryQueues()
    await fetchEmail()
    await expectRetryWithoutClassicRetryQueue(id)
  })

  test('after a retry, are refused by RabbitMQ because the gateway has declared one; the retry runs', async () => {
    await startGateway()
    const id = await pushOverHttp({ retry: EXACT })
    await fetchEmail()
    await nack(id)
    // The ledger holds this retry, since its retry queue has just been declared.
    await eventually(async () => (await vhost.queue(CLASSIC_RETRY_QUEUE)) !== undefined)
    await expect(declareRetryQueues()).rejects.toThrow('PRECONDITION_FAILED')
    expect(await fetchEmail()).toMatchObject({ id, attempt: 2 })
  })
})

describe('the worker of seed 002 §15.2 and §15.4', () => {
  beforeAll(async () => {
    vhost = await createVhost()
    await startGateway()
    await declareRetryQueues()
    // The first PUSH declares the queue.
    const id = await pushOverHttp()
    await fetchEmail()
    await gateway.client.ack({ job_id: id })
  })
  afterAll(end)

  describe.each([
    ['HTTP', () => pushOverHttp({ retry: { max_attempts: 5 } })],
    ['seed 002 §15.1', pushNatively],
  ])('with a job that was posted over %s', (_, push) => {
    test('retries it, and FETCH gets it with attempt 2', async () => {
      const id = await push()
      await consume('retry')
      expect(await fetchEmail()).toMatchObject({ id, attempt: 2, max_attempts: 5 })
      expect((await gateway.client.ack({ job_id: id, attempt: 2 })).status).toBe(200)
      expect(jobOf(await gateway.client.get(id))).toMatchObject({ state: 'completed', attempt: 2 })
    })

    test('rejects it, which makes it a dead letter in the gateway and in RabbitMQ', async () => {
      const id = await push()
      await consume('fail')
      await eventually(async () => (await deadLetterIds()).includes(id))
      const job = jobOf(await gateway.client.get(id))
      expect(job).toMatchObject({
        state: 'discarded',
        attempt: 1,
        error: { code: 'rejected', retryable: false },
        errors: [{ attempt: 1, code: 'rejected' }],
      })
      expect(await queueMessages(vhost.url, 'ojs.queue.dlx.email')).toContain(id)
      const ends = ['job.failed', 'job.discarded', 'dead_letter.added']
      expect((await eventTypes(id)).slice(-3)).toEqual(ends)

      const retried = await gateway.client.send('POST', `/ojs/v1/dead-letter/${id}/retry`)
      expect(retried.status, retried.text).toBe(200)
      expect(await fetchEmail()).toMatchObject({ id, attempt: 1 })
      expect((await gateway.client.ack({ job_id: id })).status).toBe(200)
      expect(await deadLetterIds()).not.toContain(id)
    })
  })

  test('retries a job twice, and FETCH gets attempt 3 with two unreported errors', async () => {
    const id = await pushOverHttp()
    await consume('retry', 'retry')
    const job = await fetchEmail()
    expect(job).toMatchObject({ id, attempt: 3 })
    const unreported = { code: 'unreported', retryable: true }
    expect(job['errors']).toMatchObject([
      { attempt: 1, ...unreported },
      { attempt: 2, ...unreported },
    ])
    expect((await gateway.client.ack({ job_id: id })).status).toBe(200)
  })

  test('rejects a job whose attempts are used up, which makes it a dead letter', async () => {
    const id = await pushOverHttp({ retry: { max_attempts: 1, on_exhaustion: 'dead_letter' } })
    await consume('retry')
    await eventually(async () => (await deadLetterIds()).includes(id))
    expect(await queueMessages(vhost.url, 'ojs.queue.dlx.email')).toContain(id)
  })

  test('rejects a job with on_exhaustion "discard", which is discarded but not listed', async () => {
    const id = await pushOverHttp({ retry: { on_exhaustion: 'discard' } })
    await consume('fail')
    await eventually(async () => jobOf(await gateway.client.get(id))['state'] === 'discarded')
    expect(await deadLetterIds()).not.toContain(id)
  })
})
