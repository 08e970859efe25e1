import { setTimeout as sleep } from 'node:timers/promises'
import { serve } from '../child.mjs'
import { quantile } from '../statistics.mjs'
import { HttpConnection } from './http-connection.mjs'
import { ackRequest, fetchRequest, pushRequest } from './requests.mjs'
import { faultLine, measuredWindow } from './window.mjs'

const WAIT_MS = 30_000

serve({ takeOne, latency })

/** Fetches and acknowledges the job that is waiting. */
async function takeOne({ url, queue }) {
  const worker = await HttpConnection.open(url)
  await acknowledge(worker, url, await worker.request(workerFetch(url, queue)))
  worker.close()
}

/**
 * A worker parked in FETCH, a producer that PUSHes one job into the silence: the time from just
 * before the PUSH is written to the FETCH's answer being read. Then ACK, FETCH again, a pause.
 */
async function latency({ url, queue, pauseMs, seconds, watch }) {
  const { fault, fail } = faultLine()
  const producer = await HttpConnection.open(url)
  const worker = await HttpConnection.open(url)
  const push = pushRequest(url, queue)
  const fetch = workerFetch(url, queue)
  let samples = []
  let isOver = false

  const loop = async () => {
    while (!isOver) {
      const fetching = worker.request(fetch).then((answer) => [performance.now(), answer])
      await sleep(pauseMs)
      const startedAt = performance.now()
      const created = producer.request(push)
      const [endedAt, fetched] = await fetching
      samples.push(endedAt - startedAt)
      expectStatus(201, await created)
      await acknowledge(worker, url, fetched)
    }
  }
  const finished = loop()
  finished.catch(fail)
  const begin = () => {
    samples = []
  }
  const usage = await measuredWindow({ seconds, watch, begin, fault })
  isOver = true
  await finished
  producer.close()
  worker.close()
  return {
    p50: quantile(samples, 0.5),
    p99: quantile(samples, 0.99),
    count: samples.length,
    ...usage,
  }
}

function workerFetch(url, queue) {
  return fetchRequest(url, queue, 'bench-worker', WAIT_MS)
}

async function acknowledge(worker, url, fetched) {
  expectStatus(200, fetched)
  const [job] = JSON.parse(fetched.body).jobs
  if (!job) throw new Error('the FETCH came back without a job')
  expectStatus(200, await worker.request(ackRequest(url, job.id)))
}

function expectStatus(wanted, { status, body }) {
  if (status !== wanted) throw new Error(`expected ${wanted}, got ${status}: ${body}`)
}
