import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, it } from 'vitest'
import { watchEnvelopes } from './envelope-watch.ts'

const JOB = {
  specversion: '1.0',
  id: '019539a4-b68c-7def-8000-1a2b3c4d5e6f',
  type: 'email.send-now',
  queue: 'default',
  args: [],
}

const closing: (() => void)[] = []
afterEach(() => {
  for (const close of closing.splice(0)) close()
})

/** A server that answers with the body of the request. */
async function startEcho(): Promise<string> {
  const server = createServer((request, response) => {
    response.writeHead(201, { 'Content-Type': 'application/openjobspec+json', 'X-Way': 'through' })
    request.pipe(response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closing.push(() => server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

it('watchEnvelopes() passes every answer on, and complains of a job that is no envelope', async () => {
  const watch = await watchEnvelopes(await startEcho())
  closing.push(watch.close)
  const post = async (path: string, body: object) => {
    const answer = await fetch(`${watch.url}${path}`, {
      method: 'POST',
      body: JSON.stringify(body),
    })
    expect([answer.status, answer.headers.get('x-way')]).toEqual([201, 'through'])
    expect(await answer.json()).toEqual(body)
  }
  await post('/ojs/v1/jobs', { job: JOB })
  await post('/ojs/v1/workers/fetch', { jobs: [JOB, JOB] })
  await post('/ojs/v1/workers/nack', { job: 1 })
  expect([watch.seen, watch.complaints]).toEqual([3, []])
  await post('/ojs/v1/jobs', { job: { ...JOB, retry: { strategy: 'linear' } } })
  expect(watch.complaints).toEqual([
    expect.stringContaining('POST /ojs/v1/jobs: Error: no envelope: /retry'),
  ])
})
