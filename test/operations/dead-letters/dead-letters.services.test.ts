import type { Channel } from 'amqplib'
import { v7 } from 'uuid'
import { beforeEach, describe, expect, it } from 'vitest'
import { queueMessages } from '../../support/broker/queue-messages.ts'
import { connectControl } from '../../support/gateway/control.ts'
import { eventually } from '../../support/gateway/in-process.ts'
import { AheadClock } from '../../support/time/ahead-clock.ts'
import {
  deadIds,
  deadLetters,
  fetchOne,
  freshQueue,
  gatewayForAll,
  nack,
  startJob,
  stateOf,
  storyOf,
  withChannel,
} from '../harness.ts'
import { publishJobMessage } from '../job-messages/messages.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
/** An hour, so that a lease ends only when a test moves the clock. */
const PATIENT = { timeout_ms: 0, visibility_timeout_ms: HOUR_MS }

const clock = new AheadClock()

const { vhost, gateway } = gatewayForAll({}, { clock })
let queue = ''
beforeEach(() => {
  queue = freshQueue()
})

const retry = (id: string) => gateway.request('POST', `/ojs/v1/dead-letter/${id}/retry`)
const remove = (id: string) => gateway.request('DELETE', `/ojs/v1/dead-letter/${id}`)
const copies = () => queueMessages(vhost.url, `ojs.queue.dlx.${queue}`)

/** Waits for the next message of the queue and rejects it, as a native worker that cannot read it does. */
function rejectNext(channel: Channel, from: string): Promise<void> {
  return eventually(async () => {
    const message = await channel.get(`ojs.queue.${from}`)
    if (message) channel.nack(message, false, false)
    return message !== false
  })
}

/** Makes a dead letter whose copy is in the dead letter queue. */
async function bury(options: object = {}): Promise<string> {
  const job = await startJob(gateway, queue, { retry: { max_attempts: 1 }, ...options })
  expect((await nack(gateway, job.id, { code: 'fatal' })).body.state).toBe('discarded')
  await eventually(async () => (await copies()).includes(job.id))
  return job.id
}

async function buryMany(count: number, options: object = {}): Promise<string[]> {
  const ids: string[] = []
  for (let i = 0; i < count; i++) ids.push(await bury(options))
  return ids
}

describe('the list of dead letters', () => {
  it('shows the members of seed 001 §12.1', async () => {
    const id = await bury()
    const { jobs, pagination } = await deadLetters(gateway, `queue=${queue}`)
    expect(pagination).toEqual({ total: 1, limit: 50, offset: 0, has_more: false })
    expect(jobs).toEqual([(await gateway.get(id)).body.job])
    expect(jobs[0]).toMatchObject({
      id,
      type: 'test.job',
      state: 'discarded',
      args: [1],
      queue,
      attempt: 1,
      max_attempts: 1,
      error: { code: 'fatal', message: 'it broke', retryable: true },
      errors: [{ attempt: 1, code: 'fatal' }],
    })
    expect(jobs[0].discarded_at).toBe(jobs[0].completed_at)
  })

  it('is paged, newest first, for one queue or for all', async () => {
    const ids = (await buryMany(5)).reverse()
    const other = queue
    queue = freshQueue()
    const newest = await bury()
    expect(await deadIds(gateway, other)).toEqual(ids)
    const pages: string[] = []
    for (const [offset, hasMore] of [
      [0, true],
      [2, true],
      [4, false],
      [6, false],
    ] as const) {
      const page = await deadLetters(gateway, `queue=${other}&limit=2&offset=${offset}`)
      expect(page.pagination).toEqual({
        ...{ total: 5, limit: 2, offset, has_more: hasMore },
        ...(hasMore && { next_cursor: expect.any(String) }),
      })
      pages.push(...page.jobs.map((job: { id: string }) => job.id))
    }
    expect(pages).toEqual(ids)
    const none = await deadLetters(gateway, `queue=${other}&limit=0`)
    expect(none).toEqual({
      jobs: [],
      pagination: { total: 5, limit: 0, offset: 0, has_more: true },
    })
    const all = await deadLetters(gateway, 'limit=6')
    expect(all.jobs.map((job: { id: string }) => job.id)).toEqual([newest, ...ids])
    expect(await deadIds(gateway, 'none')).toEqual([])
  })
})

describe('retry of a dead letter', () => {
  it('makes the same job available with attempt 0, and keeps its errors', async () => {
    const id = await bury()
    const answer = await retry(id)
    expect(answer.status).toBe(200)
    expect(answer.body.job).toMatchObject({ id, state: 'available', attempt: 0, max_attempts: 1 })
    expect(answer.body.job.re_enqueued_at).toBe(answer.body.job.enqueued_at)
    expect(answer.body.job).not.toHaveProperty('error')
    expect(await deadIds(gateway, queue)).toEqual([])
    const job = await fetchOne(gateway, queue)
    expect(job).toMatchObject({ id, attempt: 1, errors: [{ code: 'fatal' }] })
    expect(job).not.toHaveProperty('discarded_at')
    await gateway.ack(id)
    const story = await storyOf(gateway, queue, id)
    expect(story.slice(-4)).toEqual([
      'dead_letter.retried',
      'job.enqueued',
      'job.started',
      'job.completed',
    ])
  })

  it('refuses other members of its body, which may be a misspelt override', async () => {
    const path = `/ojs/v1/dead-letter/${await bury()}/retry`
    const { status, body } = await gateway.request('POST', path, { overrides: { args: [2] } })
    expect([status, body.error.details.field]).toEqual([400, 'overrides'])
  })

  it('can fail, be listed and be retried again', async () => {
    const id = await bury()
    await retry(id)
    await fetchOne(gateway, queue)
    await nack(gateway, id)
    expect(await deadIds(gateway, queue)).toEqual([id])
    expect((await gateway.get(id)).body.job.errors).toHaveLength(2)
    expect((await retry(id)).status).toBe(200)
    expect(await fetchOne(gateway, queue)).toMatchObject({ id, attempt: 1 })
  })

  it('survives a restart between retry and FETCH', async () => {
    const id = await bury()
    await retry(id)
    await gateway.restart()
    expect(await fetchOne(gateway, queue)).toMatchObject({ id, attempt: 1 })
  })

  it('answers 404 for a job that is no dead letter, and refuses an expired one', async () => {
    const unknown = await retry('019414d4-8b2e-7c3a-b5d1-f0e2a3b4c5d6')
    expect(unknown).toMatchObject({
      status: 404,
      body: { error: { details: { resource_type: 'dead_letter_job' } } },
    })
    const running = await startJob(gateway, queue)
    expect((await retry(running.id)).status).toBe(404)
    queue = freshQueue()
    const id = await bury({ expires_at: '+PT1H' })
    clock.aheadMs += HOUR_MS
    expect((await retry(id)).body.error.details).toMatchObject({ reason: 'expired' })
  })

  it('succeeds once when three are concurrent, and the others get 404', async () => {
    const id = await bury()
    const statuses = (await Promise.all([retry(id), retry(id), retry(id)])).map((a) => a.status)
    expect(statuses.sort()).toEqual([200, 404, 404])
    expect((await fetchOne(gateway, queue)).id).toBe(id)
    expect(await gateway.fetch([queue])).toEqual([])
  })
})

describe('deletion of a dead letter', () => {
  it('is for good (seed 001 §12.3)', async () => {
    const id = await bury()
    expect(await remove(id)).toMatchObject({ status: 200, body: { deleted: true, job_id: id } })
    expect(await deadIds(gateway, queue)).toEqual([])
    expect((await gateway.get(id)).status).toBe(404)
    expect((await remove(id)).status).toBe(404)
    expect((await retry(id)).status).toBe(404)
    expect((await storyOf(gateway, queue, id)).at(-1)).toBe('dead_letter.deleted')
  })

  it('leaves a tombstone, so that a job message that comes back is dropped', async () => {
    // RabbitMQ may lose the nack of the only attempt and redeliver its job message.
    const id = await bury()
    await remove(id)
    await publishJobMessage(vhost.url, queue, { id, type: 'test.job', args: [1] })
    const next = (await gateway.push(queue)).body.job.id
    expect((await fetchOne(gateway, queue)).id).toBe(next)
    expect((await gateway.get(id)).status).toBe(404)
    expect(await queueMessages(vhost.url, `ojs.queue.${queue}`)).toEqual([])
  })
})

describe('the sweep of ojs.queue.dlx.{q}', () => {
  /** The number of ready messages. It does not consume them, since the sweep must see all of them. */
  const depth = () =>
    withChannel(vhost.url, async (channel) => {
      return (await channel.checkQueue(`ojs.queue.dlx.${queue}`)).messageCount
    })

  it('removes copies of jobs that were retried, deleted or not listed, and keeps the others in order', async () => {
    // Causes a sweep of this queue. The next one comes a minute later, which the test lets pass below.
    await remove(await bury(PATIENT))
    await eventually(async () => (await depth()) === 0)
    const [first, second, third, fourth, fifth] = await buryMany(5, PATIENT)
    // A message of somebody else has to stay.
    await publishJobMessage(vhost.url, queue, { id: 'theirs' }, { exchange: 'ojs.exchange.dlx' })
    await retry(String(third))
    await fetchOne(gateway, queue)
    await nack(gateway, String(third))
    await retry(String(second))
    await remove(String(fourth))
    await fetchOne(gateway, queue)
    const plain = await startJob(gateway, queue, {
      retry: { max_attempts: 1, on_exhaustion: 'discard' },
    })
    await nack(gateway, plain.id)
    await eventually(async () => (await depth()) === 8)

    clock.aheadMs += MINUTE_MS
    await eventually(async () => (await depth()) === 4)
    // The copy of the third job is that of its failure after the retry.
    expect(await copies()).toEqual([first, fifth, 'theirs', third])
    // The ledger still has the jobs and their ends, whichever copies are in the queue.
    expect(await stateOf(gateway, plain.id)).toBe('discarded')
    expect(await stateOf(gateway, String(second))).toBe('active')
    expect(await deadIds(gateway, queue)).toEqual([third, fifth, first])
  })

  it('removes the rejected job message of a cancelled job, whose row retention then prunes', async () => {
    // Causes a sweep, as above.
    await remove(await bury(PATIENT))
    await eventually(async () => (await depth()) === 0)
    await withChannel(vhost.url, async (channel) => {
      // Otherwise RabbitMQ might deliver the next job message to the gateway.
      await eventually(async () => {
        return (await channel.checkQueue(`ojs.queue.${queue}`)).consumerCount === 0
      })
    })
    const { id } = (await gateway.push(queue, { options: PATIENT })).body.job
    await withChannel(vhost.url, async (channel) => {
      const message = await channel.get(`ojs.queue.${queue}`)
      if (message === false) throw new Error('no job message')
      expect((await gateway.cancel(id)).status).toBe(200)
      channel.nack(message, false, false)
      await eventually(async () => (await depth()) === 1)
    })
    clock.aheadMs += MINUTE_MS
    await eventually(async () => (await depth()) === 0)
    expect(await stateOf(gateway, id)).toBe('cancelled')
    clock.aheadMs += 8 * DAY_MS
    await eventually(async () => (await gateway.get(id)).status === 404)
  })
})

describe('a message with the id of a job of another queue', () => {
  const other = () => `${queue}-other`
  const reject = (from: string) =>
    withChannel(vhost.url, async (channel) => {
      await rejectNext(channel, from)
      // Otherwise RabbitMQ may handle the end of the connection before the nack.
      await channel.close()
    })
  /** Dead letters are handled in order, so earlier ones are done once this one is. */
  const untilHandled = async () => {
    const last = (await gateway.push(other())).body.job.id
    await reject(other())
    await eventually(async () => (await stateOf(gateway, last)) === 'discarded')
  }
  const publish = (id: string, body: string) =>
    withChannel(vhost.url, async (channel) => {
      const options = { messageId: id, headers: { 'x-ojs-attempt': 1 } }
      channel.publish('ojs.exchange.direct', other(), Buffer.from(body), options)
      await channel.waitForConfirms()
    })
  let id = ''
  beforeEach(async () => {
    id = (await gateway.push(queue)).body.job.id
    // Declares the other queue, and leaves it empty.
    await gateway.push(other())
    await reject(other())
  })

  it('does not end the job when a worker rejects the message', async () => {
    await publish(id, JSON.stringify({ id, type: 'test.job', args: [], queue: other() }))
    await reject(other())
    await untilHandled()
    expect(await stateOf(gateway, id)).toBe('available')
    expect((await fetchOne(gateway, queue)).id).toBe(id)
  })

  it('is dead-lettered by FETCH instead of being answered', async () => {
    await publish(id, JSON.stringify({ id, type: 'test.job', args: [], queue: other() }))
    await eventually(async () => {
      expect(await gateway.fetch([other()], { wait_ms: 300 })).toEqual([])
      return (await queueMessages(vhost.url, `ojs.queue.dlx.${other()}`)).includes(id)
    })
    await untilHandled()
    expect((await fetchOne(gateway, queue)).id).toBe(id)
  })
})

it('a rejected message that is no job does not end the job with its message id', async () => {
  const { id } = (await gateway.push(queue)).body.job
  const last = (await gateway.push(queue)).body.job.id
  await withChannel(vhost.url, async (channel) => {
    const name = `ojs.queue.${queue}`
    const own = await channel.get(name)
    const next = await channel.get(name)
    if (!own || !next) throw new Error('both are there')
    const body = JSON.stringify({ id: last, type: 'test.job', args: [] })
    for (const content of ['{"id":', body]) {
      channel.sendToQueue(name, Buffer.from(content), {
        messageId: id,
        headers: { 'x-ojs-attempt': 1 },
      })
      await channel.waitForConfirms()
      await rejectNext(channel, queue)
    }
    channel.nack(next, false, false)
    await eventually(async () => (await stateOf(gateway, last)) === 'discarded')
    expect(await stateOf(gateway, id)).toBe('available')
    channel.nack(own, false, true)
  })
  expect((await fetchOne(gateway, queue)).id).toBe(id)
})

it.each([
  ['a known job', true],
  ['an unknown job', false],
])(
  'a rejected job message adds the error of the previous attempt from its headers: %s',
  async (_, isKnown) => {
    const { id } = (await gateway.push(queue)).body.job
    const given = isKnown ? id : v7()
    const headers = { 'x-ojs-error-code': 'smtp_down', 'x-ojs-error-message': 'no route' }
    await withChannel(vhost.url, async (channel) => {
      const own = await channel.get(`ojs.queue.${queue}`)
      if (own) channel.ack(own)
      // The job message that a retry by seed 002 §15.4 publishes.
      const body = { id: given, type: 'test.job', args: [1] }
      await publishJobMessage(vhost.url, queue, body, { attempt: 2, headers })
      await rejectNext(channel, queue)
      await eventually(async () => (await gateway.get(given)).body.job?.state === 'discarded')
    })
    const { attempt, error, errors } = (await gateway.get(given)).body.job
    expect([attempt, error.code]).toEqual([2, 'rejected'])
    expect(errors).toMatchObject([
      { attempt: 1, code: 'smtp_down', message: 'no route' },
      { attempt: 2, code: 'rejected' },
    ])
  },
)

it('a rejected job message whose body begins with a byte order mark discards its job', async () => {
  const { id } = (await gateway.push(queue)).body.job
  await withChannel(vhost.url, async (channel) => {
    const own = await channel.get(`ojs.queue.${queue}`)
    if (own) channel.ack(own)
    const body = `\ufeff${JSON.stringify({ id, type: 'test.job', args: [1] })}`
    const options = { messageId: id, headers: { 'x-ojs-attempt': 1 } }
    channel.sendToQueue(`ojs.queue.${queue}`, Buffer.from(body), options)
    await rejectNext(channel, queue)
    await eventually(async () => (await stateOf(gateway, id)) === 'discarded')
  })
})

it('a native job with an attempt beyond max_attempts is discarded as attempts_exhausted', async () => {
  await gateway.push(queue)
  await fetchOne(gateway, queue)
  const id = v7()
  await publishJobMessage(vhost.url, queue, { id, type: 'test.job', args: [1] }, { attempt: 4 })
  const { body } = await gateway.request('POST', '/ojs/v1/workers/fetch', {
    ...{ queues: [queue], wait_ms: 300 },
  })
  expect(body.jobs).toEqual([])
  await eventually(async () => (await deadIds(gateway, queue)).includes(id))
  const { attempt, max_attempts, error } = (await gateway.get(id)).body.job
  expect([attempt, max_attempts, error.code]).toEqual([3, 3, 'attempts_exhausted'])
})

it('a job message rejected because no attempt is left keeps the timeout error of the last attempt', async () => {
  const options = { retry: { max_attempts: 1 }, visibility_timeout_ms: HOUR_MS }
  const { id } = (await gateway.push(queue, { options })).body.job
  const control = await connectControl(vhost.url)
  const jobMessage = await control.channel.get(`ojs.queue.${queue}`)
  if (jobMessage === false) throw new Error('a job has no job message')
  const started = { job_id: id, generation: 0, attempt: 1, event: 'started' }
  await control.say(queue, 'ojs.control.report', { worker_id: 'w1', events: [started] })
  await eventually(async () => (await stateOf(gateway, id)) === 'active')
  clock.aheadMs += HOUR_MS + 1_000
  await eventually(async () => (await stateOf(gateway, id)) === 'available')
  const question = { job_id: id, generation: 0, attempt: 1, worker_id: 'w2' }
  expect(await control.ask(queue, 'ojs.control.claim', question)).toMatchObject({
    decision: 'discard',
  })
  control.channel.nack(jobMessage, false, false)
  await eventually(async () => (await stateOf(gateway, id)) === 'discarded')
  await control.close()
  const { attempt, error, errors } = (await gateway.get(id)).body.job
  expect([attempt, error.code]).toEqual([1, 'visibility_timeout'])
  expect(errors).toMatchObject([{ attempt: 1, code: 'visibility_timeout' }])
  expect(await deadIds(gateway, queue)).toEqual([id])
})
