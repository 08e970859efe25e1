import { v7 } from 'uuid'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { jobOf, jobsOf } from '../support/client.ts'
import { Gateway } from '../support/gateway.ts'
import { type PikaPublish, pikaConsume, pikaPublish } from '../support/pika.ts'
import { createVhost, type Vhost } from '../support/rabbit.ts'

let vhost: Vhost
let gateway: Gateway

beforeAll(async () => {
  vhost = await createVhost()
  gateway = await Gateway.start({ amqpUrl: vhost.url })
})
afterAll(async () => {
  await gateway.dispose()
  await vhost.drop()
})

/** Each of these is published to the job queue; none of them is a job. */
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
  'a retry that is a string': message({ retry: 'often' }),
  'another specversion': message({ specversion: '9.9' }),
}

/** Each of these is a job, whatever stands around its body. */
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

test('what is no job ends in the dead letter queue, and nothing else happens', async () => {
  await makeQueue('hostile')
  await pikaPublish(vhost.url, 'hostile', Object.values(NO_JOBS))
  const good = jobOf(await push('hostile'))

  const fetched = await gateway.client.fetch({ queues: ['hostile'], count: 100, wait_ms: 5_000 })
  expect(jobsOf(fetched).map((job) => job.id)).toEqual([good.id])
  const dead = await pikaConsume(vhost.url, 'ojs.queue.dlx.hostile', Object.keys(NO_JOBS).length)
  const published = Object.values(NO_JOBS).map(({ body }) => body.toString())
  expect(new Set(dead.map(({ body }) => body))).toEqual(new Set(published))
  expect(gateway.isRunning).toBe(true)
  expect((await gateway.client.health()).status).toBe(200)
})

test.each(Object.entries(JOBS))('a job in spite of %s', async (_, publish) => {
  await makeQueue('strange')
  await pikaPublish(vhost.url, 'strange', [publish])
  const { id } = JSON.parse(publish.body.toString()) as { id: string }
  const answer = await gateway.client.fetch({ queues: ['strange'], wait_ms: 5_000 })
  expect(jobsOf(answer)).toMatchObject([{ id, attempt: 1, state: 'active' }])
  expect((await gateway.client.ack({ job_id: id })).status).toBe(200)
})

/** The gateway declares a queue when it is first pushed to. */
async function makeQueue(queue: string): Promise<void> {
  const { id } = jobOf(await push(queue))
  await gateway.client.fetch({ queues: [queue], wait_ms: 5_000 })
  expect((await gateway.client.ack({ job_id: id })).status).toBe(200)
}

function push(queue: string) {
  return gateway.client.push({ type: 'a.b', args: [], options: { queue } })
}

function message(members: object, properties: Record<string, unknown> = {}): PikaPublish {
  const job = { specversion: '1.0', id: v7(), type: 'a.b', args: [], ...members }
  return { body: JSON.stringify(job), properties }
}
