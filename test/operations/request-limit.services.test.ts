import { v7 } from 'uuid'
import { expect, test } from 'vitest'
import type { Answer, TestGateway } from '../support/gateway/in-process.ts'
import { freshQueue, gatewayForAll, startJob } from './harness.ts'

/** Longer than the file runs: what is used up stays used up. */
const LIMIT = 40
const { gateway } = gatewayForAll({ OJS_RATE_LIMIT: `${LIMIT}/1h` })
const WORKER = 'w1'

const post = (verb: string, body: object): Promise<Answer> =>
  gateway.request('POST', `/ojs/v1/workers/${verb}`, body)
const left = ({ headers }: Answer): number =>
  Number(headers.get('x-ratelimit-remaining') ?? Number.NaN)
const error = { code: 'handler_error', message: 'no' }

async function lease(on: TestGateway, count: number): Promise<string[]> {
  const queue = freshQueue()
  const ids: string[] = []
  for (let i = 0; i < count; i++) {
    const { id } = await startJob(on, queue)
    ids.push(id)
  }
  return ids
}

test('whatever settles or extends a running lease is free, also when the limit is used up', async () => {
  const ids = await lease(gateway, 6)
  const [acked = '', nacked = '', given = '', beaten = '', other = '', large = ''] = ids
  const before = left(await post('heartbeat', { worker_id: WORKER }))
  expect(before).toBeGreaterThan(10)

  const free = await post('heartbeat', { worker_id: WORKER, active_jobs: [acked] })
  expect([free.status, left(free)]).toEqual([200, before])
  const missed = await post('ack', { job_id: v7() })
  expect([missed.status, left(missed)]).toEqual([404, before - 1])
  const idle = await post('heartbeat', { worker_id: WORKER, active_jobs: [v7()] })
  expect([idle.status, left(idle)]).toEqual([200, before - 2])
  for (let i = before - 2; i > 0; i--) await gateway.request('GET', '/ojs/manifest')
  expect((await gateway.request('GET', '/ojs/manifest')).status).toBe(429)

  // Every verb, every spelling of a heartbeat, and ids of jobs that have ended in between.
  const beats = [{ active_jobs: [v7(), beaten] }, { active_job_ids: [beaten] }, { job_id: beaten }]
  for (const named of beats) {
    const beat = await post('heartbeat', { worker_id: WORKER, ...named })
    expect(beat.body, JSON.stringify(named)).toMatchObject({ jobs_extended: [beaten] })
  }
  expect((await post('ack', { job_id: acked })).body).toMatchObject({ state: 'completed' })
  expect((await post('nack', { job_id: nacked, error })).body).toMatchObject({ state: 'retryable' })
  expect((await post('nack', { job_id: given, error, requeue: true })).status).toBe(200)

  // No lease, or not that of the request: refused as any other request.
  const refused: [verb: string, body: object][] = [
    ['ack', { job_id: v7() }],
    ['ack', { job_id: acked }],
    ['ack', { job_id: other, attempt: 2 }],
    ['nack', { job_id: nacked, error }],
    ['heartbeat', { worker_id: WORKER }],
    ['heartbeat', { worker_id: WORKER, active_jobs: [acked, v7()] }],
    ['heartbeat', { worker_id: WORKER, job_id: other, attempt: 2 }],
    ['fetch', { queues: ['default'] }],
  ]
  for (const [verb, body] of refused) {
    const answer = await post(verb, body)
    expect([answer.status, answer.headers.get('retry-after')], JSON.stringify(body)).toEqual([
      429,
      expect.any(String),
    ])
  }
  expect((await gateway.request('GET', '/ojs/manifest')).status).toBe(429)

  // One lease is no way around the limit: neither by heartbeats nor by an ACK that never succeeds.
  const tooLarge = { job_id: large, result: 'x'.repeat(1_100_000) }
  const statuses = new Set<number>()
  for (let i = 0; i < 22; i++) {
    statuses.add((await post('ack', tooLarge)).status)
    statuses.add((await post('heartbeat', { worker_id: WORKER, job_id: other })).status)
  }
  expect(statuses).toEqual(new Set([413, 200, 429]))
  expect((await post('heartbeat', { worker_id: WORKER, job_id: other })).status).toBe(429)
  // Another lease of the same worker has its own.
  expect((await post('ack', { job_id: beaten })).status).toBe(200)
})
