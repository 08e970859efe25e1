import { expect, it } from 'vitest'
import { assertEnvelope } from '../../support/checker/envelope.ts'
import { connectControl } from '../../support/gateway/control.ts'
import {
  deadLetters,
  fetchOne,
  freshQueue,
  gatewayForAll,
  nack,
  untilState,
  withChannel,
} from '../harness.ts'

// Every full job in an answer is an envelope by seed 003. The in-process gateway's client checks that in
// every test. This file covers every kind of answer with jobs, for every spelling of the options.

const { vhost, gateway } = gatewayForAll()

const SOON = '2999-02-12T12:30:00+02:00'

const SPELLINGS: [string, object][] = [
  ['nothing', {}],
  [
    'milliseconds',
    { timeout_ms: 1, visibility_timeout_ms: 30_001, retry: { initial_interval_ms: 1500 } },
  ],
  ['no timeout', { timeout_ms: 0 }],
  ['seconds', { timeout: 5, visibility_timeout: 40 }],
  [
    'durations',
    { visibility_timeout: 'PT40S', retry: { initial_interval: '2s', max_interval: 'PT1M' } },
  ],
  [
    'a retry policy of the other dialect',
    { retry_policy: { strategy: 'linear', initial_delay_ms: 50, max_delay_ms: 60 } },
  ],
  [
    'all of a retry policy',
    {
      retry: {
        max_attempts: 2,
        backoff_coefficient: 1,
        jitter: false,
        non_retryable_errors: ['Auth.*'],
        on_exhaustion: 'dead_letter',
        backoff_strategy: 'polynomial',
      },
    },
  ],
  [
    'a unique policy',
    { unique: { key: ['a'], period: 'PT1H', on_conflict: 'ignore', states: ['active'] } },
  ],
  [
    'a unique policy of the other dialect',
    {
      unique: {
        keys: ['type', 'args', 'meta'],
        args_keys: ['b'],
        meta_keys: ['m'],
        period: 60,
        on_conflict: 'use_existing',
        states: ['completed', 'available'],
      },
    },
  ],
  ['a time of another zone', { expires_at: SOON }],
  ['a relative time', { expires_at: '+PT1H' }],
  ['a named priority', { priority: 'HIGH', tags: ['a,b'], rate_limit: { max_per_second: 1000 } }],
  ['members of its own', { vendor: 1, metadata: { m: 1 } }],
  [
    'nulls',
    { timeout_ms: null, retry: null, unique: null, tags: null, meta: null, expires_at: null },
  ],
]

it.each(SPELLINGS)(
  'PUSH, INFO, FETCH, NACK, dead letter, retry and ACK answer envelopes for options with %s',
  async (name, options) => {
    const queue = freshQueue()
    const pushed = await gateway.push(queue, { args: [{ a: name, b: 1 }], options })
    expect(pushed.status, JSON.stringify(pushed.body)).toBe(201)
    const { id } = pushed.body.job
    const info = (await gateway.get(id)).body.job
    const fetched = await fetchOne(gateway, queue)
    await nack(gateway, id, { retryable: false })
    const discarded = (await gateway.get(id)).body.job
    const jobs = [pushed.body.job, info, fetched, discarded]
    const [dead] = (await deadLetters(gateway, `queue=${queue}`)).jobs
    if (dead) {
      const revived = await gateway.request('POST', `/ojs/v1/dead-letter/${id}/retry`)
      await fetchOne(gateway, queue)
      jobs.push(
        dead,
        revived.body.job,
        (await gateway.ack(id, { result: { done: name } })).body.job,
      )
    }
    for (const job of jobs) {
      assertEnvelope(job)
      expect(job.id).toBe(id)
      for (const member of [
        'retry',
        'retry_extra',
        'unique',
        'unique_extra',
        'timeout',
        'timeout_ms',
      ]) {
        expect(job[member], member).toEqual(pushed.body.job[member])
      }
    }
  },
)

it('members of a retry policy that seed 003 does not have are echoed in `retry_extra`', async () => {
  const retry = { initial_interval_ms: 1500, backoff_strategy: 'linear', max_attempts: 4 }
  const { job } = (await gateway.push(freshQueue(), { options: { retry } })).body
  expect(job.retry).toEqual({ max_attempts: 4, initial_interval: 'PT1.5S' })
  expect(job.retry_extra).toEqual({ backoff_strategy: 'linear' })
})

it('PUSH and batch accept `retry_policy` at the top level of a job', async () => {
  const policy = { max_attempts: 7, initial_interval_ms: 1500, strategy: 'linear' }
  const body = { type: 'a.b', args: [], queue: freshQueue(), retry_policy: policy }
  const one = await gateway.request('POST', '/ojs/v1/jobs', body)
  const many = await gateway.request('POST', '/ojs/v1/jobs/batch', { jobs: [body] })
  for (const job of [one.body.job, many.body.jobs[0]]) {
    expect(job.max_attempts).toBe(7)
    expect(job.retry).toEqual({ max_attempts: 7, initial_interval: 'PT1.5S' })
    expect(job.retry_extra).toEqual({ backoff_strategy: 'linear' })
    expect(job).not.toHaveProperty('retry_policy')
  }
})

it('members of a unique policy that seed 003 does not have are echoed in `unique_extra`', async () => {
  const unique = { keys: ['type'], period: 60, on_conflict: 'use_existing', states: ['completed'] }
  const { job } = (await gateway.push(freshQueue(), { options: { unique } })).body
  expect(job.unique).toEqual({ period: 'PT1M' })
  expect(job.unique_extra).toEqual({
    keys: ['type'],
    on_conflict: 'use_existing',
    states: ['completed'],
  })
})

it('jobs of a batch, and pending, scheduled, cancelled and expired jobs, are envelopes', async () => {
  const queue = freshQueue()
  const jobs = SPELLINGS.map(([name, options]) => ({
    type: 'a.b-c',
    args: [name],
    options: { ...options, queue },
  }))
  const batch = await gateway.request('POST', '/ojs/v1/jobs/batch', { jobs })
  expect(batch.body.jobs).toHaveLength(SPELLINGS.length)
  const many = await gateway.fetch([queue], { count: 100, wait_ms: 5_000 })

  const staged = (await gateway.push(queue, { options: { pending: true, delay_until: SOON } })).body
    .job
  const activated = await gateway.request('POST', `/ojs/v1/jobs/${staged.id}/activate`)
  const cancelled = await gateway.cancel(staged.id)
  const short = (await gateway.push(freshQueue(), { options: { expires_at: '+PT0.02S' } })).body.job
  const expired = await untilState(gateway, short.id, 'discarded')
  const ones = [staged, activated.body.job, cancelled.body.job, short, expired]
  expect(ones.map(({ state }) => state)).toEqual([
    ...['pending', 'scheduled', 'cancelled', 'available', 'discarded'],
  ])
  expect(staged.scheduled_at).toBe('2999-02-12T10:30:00.000Z')
  for (const job of [...batch.body.jobs, ...many, ...ones]) assertEnvelope(job)
})

it('the body of a job message, a fetched native job and INFO over AMQP are envelopes', async () => {
  const queue = freshQueue()
  const [, options] = SPELLINGS[6] ?? []
  const { job } = (await gateway.push(queue, { options: { ...options } })).body
  const jobMessage = await withChannel(vhost.url, (channel) =>
    channel.get(`ojs.queue.${queue}`, { noAck: true }),
  )
  if (!jobMessage) throw new Error('there is no job message')
  assertEnvelope(JSON.parse(jobMessage.content.toString()))

  const id = job.id.replace(/....$/, 'abcd')
  const body = {
    specversion: '1.0',
    id,
    type: 'native.job',
    queue,
    args: [1],
    timeout: 3,
    vendor: true,
  }
  await withChannel(vhost.url, async (channel) => {
    channel.publish('ojs.exchange.direct', queue, Buffer.from(JSON.stringify(body)), {
      messageId: id,
      persistent: true,
    })
    await channel.waitForConfirms()
  })
  const adopted = await fetchOne(gateway, queue)
  expect(adopted).toMatchObject({ ...body, state: 'active' })
  assertEnvelope(adopted)

  const control = await connectControl(vhost.url)
  const reply = await control.ask('default', 'ojs.control.info', { job_id: id, queue })
  await control.close()
  expect(reply.job.id).toBe(id)
  assertEnvelope(reply.job)
})
