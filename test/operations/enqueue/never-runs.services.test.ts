import { expect, test } from 'vitest'
import { NativeProducer } from '../../../src/worker/index.ts'
import { freshQueue, gatewayForAll } from '../harness.ts'

const { vhost, gateway } = gatewayForAll()

const type = 'test.job'
const past = { scheduled_at: '+PT2H', expires_at: '+PT2H' }
const mixed = { delay_until: '+PT1H', expires_at: '2020-01-01T00:00:00Z' }
const good = { scheduled_at: '+PT1H', expires_at: '2099-01-01T00:00:00Z' }

const job = (options: object) => ({ type, args: [], options: { queue: freshQueue(), ...options } })

const post = async (path: string, body: object, status = 400) => {
  const answer = await gateway.request('POST', `/ojs/v1${path}`, body)
  expect(answer.status, JSON.stringify(answer.body)).toBe(status)
  return answer.body
}

test.each([
  ['PUSH', '/jobs', job(past), 'options.expires_at'],
  ['PUSH of both kinds of times', '/jobs', job(mixed), 'options.expires_at'],
  ['PUSH with flat options', '/jobs', { type, args: [], ...past }, 'expires_at'],
  ['PUSH of a pending job', '/jobs', job({ ...past, pending: true }), 'options.expires_at'],
  ['a batch', '/jobs/batch', { jobs: [job(good), job(past)] }, 'options.expires_at'],
  [
    'a workflow',
    '/workflows',
    { type: 'chain', name: 'w', steps: [job(good), job(past)] },
    'steps[1].options.expires_at',
  ],
  [
    'a cron entry',
    '/cron',
    { name: 'never', cron: '0 0 * * *', type, args: [], options: past },
    'options.expires_at',
  ],
])('%s refuses a job that would expire before it starts', async (_what, path, body, field) => {
  expect((await post(path, body)).error).toMatchObject({
    code: 'invalid_request',
    details: { field },
  })
})

test('a job of a bulk request that would expire before it starts is refused alone', async () => {
  const { items } = await post('/jobs/bulk', { jobs: [job(good), job(past)] }, 207)
  const error = { details: { field: 'options.expires_at' } }
  expect(items).toMatchObject([{ status: 'created' }, { status: 'failed', error }])
})

test('a copy with changes that let it expire before it starts is refused', async () => {
  const { id } = (await post('/jobs', job(good), 201)).job
  const copy = `/admin/jobs/${id}/copy`
  expect((await post(copy, { override: past })).error.details.field).toBe('override.expires_at')
  await post(copy, { override: good }, 201)
})

test('a producer over AMQP refuses a job that would expire before it starts', async () => {
  const producer = new NativeProducer({ url: vhost.url, logger: false })
  try {
    const options = { queue: freshQueue(), delayUntil: '+PT1H', expiresAt: '+PT1H' }
    const refused = producer.enqueue(type, [], options)
    await expect(refused).rejects.toMatchObject({ name: 'OJSValidationError' })
  } finally {
    await producer.close()
  }
})
