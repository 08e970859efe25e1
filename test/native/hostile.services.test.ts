import { v7 } from 'uuid'
import { expect, test } from 'vitest'
import { type PikaPublish, pikaConsume, pikaPublish } from '../support/broker/pika.ts'
import { jobOf, jobsOf } from '../support/gateway/client.ts'
import { gatewayProcessForAll } from '../support/gateway/gateway.ts'

const { vhost, gateway } = gatewayProcessForAll()

/** Messages to the job queue that are not valid jobs. */
const NO_JOBS: Record<string, PikaPublish> = {
  'an empty body': { body: '' },
  'no JSON': { body: 'hello' },
  'JSON that is cut short': { body: '{"id": "' },
  'an array': { body: '[]' },
  'a number': { body: '42' },
  null: { body: 'null' },
  'bytes that are no UTF-8': { body: Buffer.from([0x7b, 0xff, 0xfe, 0x7d]) },
  'no members at all': { body: '{}' },
  'no type': message({ type: undefined }),
  'a type that is a number': message({ type: 7 }),
  'a type with a space': message({ type: 'a b' }),
  'no args': message({ args: undefined }),
  'args that are an object': message({ args: {} }),
  'an id that is no UUIDv7': message({ id: 'job-1' }),
  'no id, only a message_id': message({ id: undefined }, { message_id: v7() }),
  'an id that differs from its message_id': message({}, { message_id: v7() }),
  'the name of another queue': message({ queue: 'other' }),
  'a queue name that is an object': message({ queue: {} }),
  'a nesting of 1,000': message({ args: [JSON.parse(`${'['.repeat(1000)}${']'.repeat(1000)}`)] }),
  'an unsafe integer': { body: `{"id":"${v7()}","type":"a.b","args":[9007199254740993]}` },
  'a decimal that no double holds': {
    body: `{"id":"${v7()}","type":"a.b","args":[0.1234567890123456789]}`,
  },
  'a retry that is a string': message({ retry: 'often' }),
  'another specversion': message({ specversion: '9.9' }),
}

/** Messages that are valid jobs in spite of their properties or headers. */
const JOBS: Record<string, PikaPublish> = {
  'no properties at all': message({}),
  'headers of the wrong types': {
    ...message({}),
    headers: {
      'x-ojs-queue': { a: 1 },
      'x-ojs-attempt': 'many',
      'x-ojs-max-attempts': [3],
      'x-ojs-created-at': 5,
      'x-ojs-tags': true,
      'x-ojs-trace-id': 'not a traceparent',
    },
  },
  'an attempt below 1': { ...message({}), headers: { 'x-ojs-attempt': -5 } },
  'broker headers that somebody copied': {
    ...message({}),
    headers: { 'x-death': [{ queue: 'q', reason: 'expired', count: 3 }], 'x-delivery-count': 9 },
  },
  'another content type': message({}, { content_type: 'text/plain', content_encoding: 'latin1' }),
  'system members in the body': message({ state: 'completed', attempt: 9, x_ojs_generation: 0 }),
}

test('messages that are no jobs are dead-lettered, and do not harm the gateway or other jobs', async () => {
  await makeQueue('hostile')
  await pikaPublish(vhost.url, 'hostile', Object.values(NO_JOBS))
  const good = jobOf(await push('hostile'))

  const fetched = await gateway.client.fetch({ queues: ['hostile'], count: 100, wait_ms: 15_000 })
  expect(jobsOf(fetched).map((job) => job.id)).toEqual([good.id])
  const dead = await pikaConsume(vhost.url, 'ojs.queue.dlx.hostile', Object.keys(NO_JOBS).length)
  const published = Object.values(NO_JOBS).map(({ body }) => body.toString())
  expect(new Set(dead.map(({ body }) => body))).toEqual(new Set(published))
  const named = () => gateway.log.lines().filter(({ msg }) => msg === 'malformed message')
  const { id } = JSON.parse(String(NO_JOBS['no type']?.body)) as { id: string }
  await expect.poll(() => named().map(({ jobId }) => jobId)).toContain(id)
  expect(gateway.isRunning).toBe(true)
  expect((await gateway.client.health()).status).toBe(200)
})

test.each(Object.entries(JOBS))('a native job runs in spite of %s', async (_, publish) => {
  await makeQueue('strange')
  await pikaPublish(vhost.url, 'strange', [publish])
  const { id } = JSON.parse(publish.body.toString()) as { id: string }
  const answer = await gateway.client.fetch({ queues: ['strange'], wait_ms: 15_000 })
  expect(jobsOf(answer)).toMatchObject([{ id, attempt: 1, state: 'active' }])
  expect((await gateway.client.ack({ job_id: id })).status).toBe(200)
})

const CONTROL = 'ojs.queue.control.default'
const UNSAFE = '{"worker_id":"w","events":[],"n":9007199254740993}'

/** Messages to a control queue that are not valid control messages, with the expected reason. */
const NO_CONTROL: Record<string, [reason: string, publish: PikaPublish]> = {
  'no type': ['unknown_type', { body: '{}' }],
  'a type that nobody knows': ['unknown_type', control('ojs.control.explode', '{}')],
  'a type that every object has': ['unknown_type', control('__proto__', '{}')],
  'the type of a job': ['unknown_type', control('a.b', '{}')],
  'the type of a broadcast': ['unknown_type', control('ojs.control.directive', '{}')],
  'a type of 255 bytes': ['unknown_type', control('x'.repeat(255), '{}')],
  'an empty body': ['invalid_json', control('ojs.control.cancel', '')],
  'no JSON': ['invalid_json', control('ojs.control.report', 'hello')],
  'bytes that are no UTF-8': [
    'invalid_json',
    control('ojs.control.cancel', Buffer.from([0x7b, 0xff, 0xfe, 0x7d])),
  ],
  'an array': ['invalid_request', control('ojs.control.cancel', '[]')],
  null: ['invalid_request', control('ojs.control.heartbeat', 'null')],
  'a nesting of 1,000': [
    'invalid_request',
    control('ojs.control.cancel', `{"job_id":"x","a":${'['.repeat(1000)}${']'.repeat(1000)}}`),
  ],
  'an unsafe integer': ['invalid_request', control('ojs.control.report', UNSAFE)],
  'no job id': ['invalid_request', control('ojs.control.cancel', '{}')],
  'a job id that is an object': ['invalid_request', control('ojs.control.cancel', '{"job_id":{}}')],
  'a heartbeat of nobody': ['invalid_request', control('ojs.control.heartbeat', '{"job_id":"x"}')],
  'a report of nobody': ['invalid_request', control('ojs.control.report', '{"events":[]}')],
  'a report without events': [
    'invalid_request',
    control('ojs.control.report', '{"worker_id":"w"}'),
  ],
  'too many events': [
    'invalid_request',
    control('ojs.control.report', JSON.stringify({ worker_id: 'w', events: Array(1001).fill({}) })),
  ],
  'more than 1 MiB': [
    'too_large',
    control('ojs.control.cancel', JSON.stringify({ job_id: 'x', pad: 'x'.repeat(1_048_576) })),
  ],
  'a question without an address': ['no_reply_to', control('ojs.control.info', '{"job_id":"x"}')],
  'a claim without an address': ['no_reply_to', control('ojs.control.claim', '{}')],
  'a question to be answered into a job queue': [
    'no_reply_to',
    control('ojs.control.info', '{"job_id":"x"}', { reply_to: 'ojs.queue.hostile' }),
  ],
  "a question to be answered into another tenant's": [
    'no_reply_to',
    control('ojs.control.info', '{"job_id":"x"}', { reply_to: 'tenant1.ojs.queue.hostile' }),
  ],
}

test('invalid control messages are rejected and counted by reason, and do not harm the gateway', async () => {
  const before = await malformed()
  const all = Object.values(NO_CONTROL)
  await pikaPublish(
    vhost.url,
    CONTROL,
    all.map(([, publish]) => publish),
  )
  const expected = new Map(before)
  for (const [reason] of all) expected.set(reason, (expected.get(reason) ?? 0) + 1)
  await expect.poll(malformed, { timeout: 15_000 }).toEqual(expected)
  await expect.poll(unsettled, { timeout: 15_000 }).toBe(0)
  expect(gateway.isRunning).toBe(true)
  expect((await gateway.client.health()).status).toBe(200)
  // The log is limited to ten lines per interval.
  const lines = () => gateway.log.lines().filter(({ msg }) => msg === 'malformed control message')
  await expect.poll(() => lines().length).toBeGreaterThanOrEqual(10)
  expect(lines().length).toBeLessThanOrEqual(20)
})

test('the log names the first event of a report that was left out, and why', async () => {
  const id = v7()
  const events = [
    { job_id: id, attempt: 1, event: 'failed', error: { message: 'no code and no type' } },
    ...Array(500).fill(null),
  ]
  const report = control('ojs.control.report', JSON.stringify({ worker_id: 'w', events }))
  await pikaPublish(vhost.url, CONTROL, [report])
  const lines = () =>
    gateway.log.lines().filter(({ msg }) => msg === 'invalid events of a report left out')
  await expect.poll(() => lines().length).toBe(1)
  expect(lines()[0]).toMatchObject({
    level: 'warn',
    queue: 'default',
    jobId: id,
    count: 501,
    problem: expect.stringContaining("events[0]: The 'error.code' field is required"),
  })
})

test('an invalid job in a reported failure is published to the dead letter queue', async () => {
  await makeQueue('shown')
  const job = { id: '3f0e9c1e-5b1d-4b0e-9d53-0c7f6b0f7a11', type: 'a.b', args: [{ x: null }] }
  const error = { code: 'e', message: 'm' }
  const events = [{ job_id: job.id, attempt: 1, event: 'failed', error, job }]
  const report = control('ojs.control.report', JSON.stringify({ worker_id: 'w', events }))
  await pikaPublish(vhost.url, 'ojs.queue.control.shown', [report])
  const [dead] = await pikaConsume(vhost.url, 'ojs.queue.dlx.shown', 1)
  expect(JSON.parse(dead?.body ?? '')).toEqual(job)
  expect(dead?.properties).toMatchObject({ message_id: job.id, delivery_mode: 2 })
  const line = () => loggedOf(job.id)
  await expect.poll(line).toMatchObject({
    level: 'warn',
    msg: 'unknown job failed and cannot be adopted: it is in the dead letter queue',
    problem: expect.stringContaining("The 'id' field must match pattern"),
  })
})

const ERROR = '{"code":"e","message":"m"}'

/** Members of a failed event that is left out; its worker has acknowledged the job that it contains. */
test.each<[string, string, { job?: string; problem?: string }]>([
  ['an unsafe integer in its job', `"attempt":1,"error":${ERROR}`, { job: '9007199254740993' }],
  ['NaN in its job', `"attempt":1,"error":${ERROR}`, { job: 'NaN' }],
  [
    'a job nested too deep',
    `"attempt":1,"error":${ERROR}`,
    { job: '['.repeat(40) + ']'.repeat(40) },
  ],
  [
    'an inexact number in its error',
    `"attempt":1,"error":{"code":"e","message":"m","n":1e999}`,
    {},
  ],
  ['an attempt that is a string', `"attempt":"1","error":${ERROR}`, { problem: "'attempt' field" }],
  ['no error', '"attempt":1', { problem: "'error' field" }],
  [
    'a retry left to the gateway and no attempt',
    `"error":${ERROR},"outcome":{"decision":"retry","rung_ms":null}`,
    {},
  ],
])(
  'the job in a failed event with %s is published to the dead letter queue',
  async (_name, members, said) => {
    await makeQueue('left')
    const id = v7()
    const job = `{"id":"${id}","type":"a.b","args":[${said.job ?? '1'}]}`
    const event = `{"job_id":"${id}","event":"failed",${members},"job":${job}}`
    const report = control('ojs.control.report', `{"worker_id":"w","events":[${event}]}`)
    await pikaPublish(vhost.url, 'ojs.queue.control.left', [report])
    const [dead] = await pikaConsume(vhost.url, 'ojs.queue.dlx.left', 1)
    expect(dead).toMatchObject({ body: job, properties: { message_id: id } })
    const line = () => loggedOf(id)
    await expect.poll(line).toMatchObject({
      level: 'warn',
      msg: 'unknown job failed and cannot be adopted: it is in the dead letter queue',
      problem: expect.stringContaining(said.problem ?? ''),
    })
  },
)

test('an event that is left out causes no dead letter if its job is known, absent or kept by its worker', async () => {
  await makeQueue('kept')
  const known = jobOf(await push('kept')).id
  const events = [
    `{"job_id":"${v7()}","event":"completed","attempt":1,"job":{"a":NaN}}`,
    `{"job_id":"${v7()}","event":"failed","attempt":1,"n":NaN,"outcome":{"decision":"discard"},"job":{}}`,
    `{"job_id":"${v7()}","event":"failed","attempt":1,"n":NaN,"outcome":{"decision":"retry","rung_ms":5},"job":{}}`,
    `{"job_id":"${v7()}","event":"failed","attempt":1,"n":NaN}`,
    `{"job_id":"${v7()}","event":"failed","attempt":1,"n":NaN,"job":null}`,
    `{"job_id":"","event":"failed","attempt":1,"n":NaN,"job":{}}`,
    `{"job_id":"${known}","event":"failed","attempt":1,"n":NaN,"job":{}}`,
    `{"job_id":"last","event":"failed","attempt":1,"n":NaN,"job":{"last":1}}`,
  ]
  const report = control('ojs.control.report', `{"worker_id":"w","events":[${events}]}`)
  await pikaPublish(vhost.url, 'ojs.queue.control.kept', [report])
  const [dead] = await pikaConsume(vhost.url, 'ojs.queue.dlx.kept', 1)
  expect(dead?.body).toBe('{"last":1}')
  // A known job is retried by the gateway.
  expect(jobOf(await gateway.client.get(known))).toMatchObject({
    state: 'retryable',
    error: { code: 'invalid_report' },
  })
})

test.each([
  'gone',
  'amq.rabbitmq.reply-to',
  'amq.rabbitmq.reply-to.a.b',
  'amq.rabbitmq.reply-to.g2dkAA5ub25leGlzdEBub2RlAAAAAAAAAAAAAAAA.abc',
  '#',
  "'; drop table jobs",
])(
  'a question with the reply address %j does not disturb the publishes of other jobs',
  async (address) => {
    const question = control('ojs.control.info', JSON.stringify({ job_id: v7() }))
    // RabbitMQ accepts the bare name only from its consumer, and generated-looking names from anybody.
    const asked = { ...question, properties: { ...question.properties, reply_to: address } }
    if (address === 'amq.rabbitmq.reply-to') {
      await expect(pikaPublish(vhost.url, CONTROL, [asked])).rejects.toThrow()
      return
    }
    await pikaPublish(vhost.url, CONTROL, Array(20).fill(asked))
    for (let i = 0; i < 20; i++) expect((await push('steady')).status).toBe(201)
    await expect.poll(unsettled, { timeout: 15_000 }).toBe(0)
    expect((await gateway.client.health()).status).toBe(200)
  },
)

function control(
  type: string,
  body: string | Buffer,
  properties: Record<string, unknown> = {},
): PikaPublish {
  return { body, properties: { type, ...properties } }
}

/** The number of malformed control messages by reason. */
async function malformed(): Promise<Map<string, number>> {
  const { text } = await gateway.client.send('GET', '/metrics')
  const counts = new Map<string, number>()
  for (const line of text.split('\n')) {
    const found = /^ojs_control_malformed_total\{.*reason="(\w+)".*\} (\d+)$/.exec(line)
    if (!found) continue
    const [, reason = '', count] = found
    counts.set(reason, (counts.get(reason) ?? 0) + Number(count))
  }
  return counts
}

/** The number of control messages that are ready or unacknowledged. */
async function unsettled(): Promise<unknown> {
  return (await vhost.queue(CONTROL))?.['messages']
}

/** The log line about this job, other than 'events left out'. */
function loggedOf(id: string) {
  return gateway.log
    .lines()
    .find(({ jobId, msg }) => jobId === id && msg !== 'invalid events of a report left out')
}

/** Makes the gateway declare the queue by a first PUSH. */
async function makeQueue(queue: string): Promise<void> {
  const { id } = jobOf(await push(queue))
  await gateway.client.fetch({ queues: [queue], wait_ms: 15_000 })
  expect((await gateway.client.ack({ job_id: id })).status).toBe(200)
}

/** Pushes a job whose retry is not due before the end of the test. */
function push(queue: string) {
  const retry = { initial_interval: 'PT1H', max_interval: 'PT1H' }
  return gateway.client.push({ type: 'a.b', args: [], options: { queue, retry } })
}

function message(members: object, properties: Record<string, unknown> = {}): PikaPublish {
  const job = { specversion: '1.0', id: v7(), type: 'a.b', args: [], ...members }
  return { body: JSON.stringify(job), properties }
}
