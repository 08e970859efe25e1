import { execFile } from 'node:child_process'
import { resolve } from 'node:path'
import { expect, it } from 'vitest'
import { newApiKey } from '../../src/http/access/api-keys.ts'
import { OJSClient } from '../../src/sdk/index.ts'
import { gatewayForAll } from '../operations/harness.ts'

const MAIN = resolve(import.meta.dirname, '../../dist/main.js')
const whole = newApiKey('whole', 'admin')
const some = newApiKey('some', 'operator', ['mail', 'team.*'])
const { gateway } = gatewayForAll({ OJS_API_KEYS: [whole.entry, some.entry].join() })

/** The command line with the key for some queues. */
function cli(line: string): Promise<{ code: number; out: string; err: string }> {
  return new Promise((done) => {
    const env = { PATH: process.env['PATH'], OJS_URL: gateway.url, OJS_API_KEY: some.key }
    const options = { env, timeout: 60_000 }
    execFile(process.execPath, [MAIN, ...line.split(' ')], options, (error, out, err) => {
      done({ code: typeof error?.code === 'number' ? error.code : 0, out, err })
    })
  })
}

const all = async (method: string, path: string, body?: object) =>
  (await gateway.request(method, `/ojs/v1${path}`, body, { Authorization: `Bearer ${whole.key}` }))
    .body

async function pushed(queue: string): Promise<string> {
  const job = { type: 'a', args: [], options: { queue, retry: { max_attempts: 1 } } }
  return (await all('POST', '/jobs', job)).job.id
}

async function buried(queue: string): Promise<void> {
  await pushed(queue)
  const fetch = { queues: [queue], wait_ms: 20_000, worker_id: 'w' }
  const [job] = (await all('POST', '/workers/fetch', fetch)).jobs
  const error = { code: 'smtp', message: 'm', retryable: false }
  await all('POST', '/workers/nack', { job_id: job.id, error })
}

const DONE = { code: 0, err: '', out: expect.stringMatching(/^completed: [1-9]\d* done, 0 left/) }

it('a key for some queues follows what it does to many jobs to the end', async () => {
  const other = await pushed('other')
  await Promise.all([pushed('mail'), pushed('mail'), pushed('team.a')])
  expect(await cli('jobs cancel --queue mail --yes')).toEqual({
    ...DONE,
    out: 'completed: 2 done, 0 left alone\n',
  })
  expect(await cli('jobs retry --queue mail --state cancelled --yes')).toEqual(DONE)
  // Without a queue: those of the key.
  expect(await cli('jobs cancel --type a --yes')).toEqual(DONE)
  await buried('team.dead')
  expect(await cli('dead-letters retry --queue team.dead --yes')).toEqual(DONE)
  expect((await all('GET', `/jobs/${other}`)).job.state).toBe('available')
})

it('and its own operations by their ids and in the list', async () => {
  await all('POST', '/admin/jobs/bulk/cancel', { filter: { queue: 'other' }, confirm: true })
  const client = new OJSClient({ url: gateway.url, auth: some.key })
  await Promise.all([pushed('mail'), pushed('team.b')])
  const operation = await client.bulk.cancel({ queue: ['mail', 'team.b'] }, { confirm: true })
  expect(await operation.done()).toMatchObject({ state: 'completed', succeeded: 2 })
  expect(await cli(`operations stop ${operation.id}`)).toMatchObject({ code: 0 })
  const { out } = await cli('operations list')
  expect(out).toContain(operation.id)
  expect(out).not.toContain('whole')
})
