import { setTimeout as sleep } from 'node:timers/promises'
import { serve } from '../child.mjs'
import { HttpConnection } from './http-connection.mjs'
import { ackRequest, fetchRequest, pushRequest } from './requests.mjs'
import { sampledWindow } from './window.mjs'

const WAIT_MS = 30_000

serve({ takeOne, latency })

/**
 * Fetches and acknowledges the waiting job.
 * @param {{ url: string, queue: string }} load
 */
async function takeOne({ url, queue }) {
  const worker = await HttpConnection.open(url)
  await acknowledge(worker, url, await worker.request(workerFetch(url, queue)))
  worker.close()
}

/**
 * A worker waits in FETCH, and a producer PUSHes one job while all is idle. Measures the time from just
 * before the PUSH is written until the answer to the FETCH has been read. Then come ACK, FETCH again, and a
 * pause.
 * @param {{ url: string, queue: string, pauseMs: number, seconds: number, watch: import('../meter.mjs').Watched }} load
 */
async function latency({ url, queue, pauseMs, seconds, watch }) {
  const producer = await HttpConnection.open(url)
  const worker = await HttpConnection.open(url)
  const push = pushRequest(url, queue)
  const fetch = workerFetch(url, queue)
  const sample = async () => {
    const fetching = worker
      .request(fetch)
      .then((answer) => ({ endedAt: performance.now(), fetched: answer }))
    await sleep(pauseMs)
    const startedAt = performance.now()
    const created = producer.request(push)
    const { endedAt, fetched } = await fetching
    expectStatus(201, await created)
    await acknowledge(worker, url, fetched)
    return endedAt - startedAt
  }
  const measured = await sampledWindow({ seconds, watch, sample })
  producer.close()
  worker.close()
  return measured
}

/**
 * @param {string} url
 * @param {string} queue
 */
function workerFetch(url, queue) {
  return fetchRequest(url, queue, 'bench-worker', WAIT_MS)
}

/**
 * @param {import('../load/http-connection.mjs').HttpConnection} worker
 * @param {string} url
 * @param {import('../load/http-connection.mjs').Answer} fetched
 */
async function acknowledge(worker, url, fetched) {
  expectStatus(200, fetched)
  const [job] = JSON.parse(fetched.body).jobs
  if (!job) throw new Error('the FETCH came back without a job')
  expectStatus(200, await worker.request(ackRequest(url, job.id)))
}

/**
 * @param {number} wanted
 * @param {{ status: number, body: string }} load
 */
function expectStatus(wanted, { status, body }) {
  if (status !== wanted) throw new Error(`expected ${wanted}, got ${status}: ${body}`)
}
