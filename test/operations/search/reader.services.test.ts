import { beforeAll, describe, expect, it } from 'vitest'
import { newApiKey } from '../../../src/http/access/api-keys.ts'
import type { Door } from '../../../src/http/routes/route-deps.ts'
import { routesOf } from '../../../src/http/server.ts'
import { freshQueue, gatewayForAll } from '../harness.ts'

const SECRET = 'hunter2'
const boss = newApiKey('boss', 'admin')
const eyes = newApiKey('eyes', 'reader')
const { gateway } = gatewayForAll({ OJS_API_KEYS: `${boss.entry},${eyes.entry}` })

// biome-ignore lint/suspicious/noExplicitAny: answers are read as a client would, member by member
type Json = any

async function as({ key }: { key: string }, method: string, path: string, body?: object) {
  const headers = { Authorization: `Bearer ${key}` }
  const answer = await gateway.request(method, path, body, headers)
  return answer as { status: number; body: Json }
}
const asBoss = async (method: string, path: string, body?: object) => {
  const { status, body: said } = await as(boss, method, `/ojs/v1${path}`, body)
  if (status >= 300) throw new Error(`${method} ${path}: ${JSON.stringify(said)}`)
  return said
}

const queue = freshQueue()
const secret = { text: SECRET }
const job = { type: 'secret.job', args: [secret], options: { queue } }
/** What is in the paths: one job that failed, is a dead letter and has all that a job can have; and so on. */
const named = { dead: '', done: '', active: '', workflow: '', cron: `cron-${queue}` }

/** Every GET endpoint, for each of the jobs. */
const paths = routesOf({} as unknown as Door)
  .filter(({ method, path }) => method === 'GET' && !path.startsWith('/console'))
  .map(({ path }) => path)

function filled(path: string): string[] {
  const ids = path.includes('/workflows/')
    ? [named.workflow]
    : path.includes('/workers/')
      ? ['w-secret']
      : [named.dead, named.done, named.active]
  const name = path.includes('/cron/') ? named.cron : queue
  const of = (id: string) => path.replace(':id', id).replace(':name', name).replace(':uri', 'urn:s')
  return [...new Set(ids.map(of))]
}

async function fetchOne(): Promise<Json> {
  const body = { queues: [queue], worker_id: 'w-secret', wait_ms: 15_000 }
  const { jobs } = await asBoss('POST', '/workers/fetch', body)
  if (jobs.length === 0) throw new Error('no job came')
  return jobs[0]
}

beforeAll(async () => {
  const retry = { max_attempts: 1 }
  named.dead = (await asBoss('POST', '/jobs', { ...job, options: { queue, retry } })).job.id
  await fetchOne()
  const progress = { progress: 0.5, message: SECRET, data: secret }
  await asBoss('PUT', `/jobs/${named.dead}/progress`, progress)
  await asBoss('PUT', `/jobs/${named.dead}/checkpoint`, { state: secret })
  const error = { code: 'c', type: 'T', message: SECRET, backtrace: [SECRET], details: secret }
  await asBoss('POST', '/workers/nack', { job_id: named.dead, error })

  const flow = { type: 'chain', steps: [job, job] }
  named.workflow = (await asBoss('POST', '/workflows', flow)).workflow.id
  named.done = (await fetchOne()).id
  await asBoss('PUT', `/jobs/${named.done}/progress`, progress)
  await asBoss('POST', '/workers/ack', { job_id: named.done, result: secret })
  // The second step: its envelope has the result of the first one.
  named.active = (await fetchOne()).id
  await asBoss('PUT', `/jobs/${named.active}/progress`, progress)
  const entry = { name: named.cron, cron: '0 0 1 1 *', type: 't', args: [secret] }
  await asBoss('POST', '/cron', { ...entry, options: { queue } })
  await asBoss('POST', '/schemas', {
    uri: 'urn:s',
    type: 'other.job',
    version: '1.0.0',
    schema: { const: SECRET },
  })
})

describe('the role reader', () => {
  it('has what the test hides, if an operator asks', async () => {
    for (const id of [named.dead, named.done, named.active]) {
      const text = JSON.stringify(await asBoss('GET', `/admin/jobs/${id}`))
      expect(text).toContain(SECRET)
    }
    const text = JSON.stringify(await asBoss('GET', `/jobs/${named.active}`))
    expect(text.split(SECRET).length).toBeGreaterThan(2)
  })

  it.each(paths)(
    'is told no args, results, progress and texts of errors by GET %s',
    async (path) => {
      for (const one of filled(path)) {
        const { status, body } = await as(eyes, 'GET', one)
        expect([200, 403, 404], `${one}: ${status}`).toContain(status)
        expect(JSON.stringify(body), one).not.toContain(SECRET)
      }
    },
  )
})
