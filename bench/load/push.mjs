import { serve } from '../child.mjs'
import { quantile } from '../statistics.mjs'
import { fill, fillChains } from './fill.mjs'
import { HttpConnection } from './http-connection.mjs'
import { batchRequest, numberedPush, pushRequest } from './requests.mjs'
import { countedWindow, faultLine } from './window.mjs'

serve({ push, pushNumbered, pushOne, fill, fillChains })

/**
 * @typedef {object} Load
 * @property {string} url
 * @property {string} queue
 * @property {string} [padding]
 * @property {object} [options]
 * @property {number} connections
 * @property {number} jobsPerRequest
 * @property {number} seconds
 * @property {import('../meter.mjs').Watched} watch
 */

/**
 * Sends one request, so that the gateway declares the queue.
 * @param {{ url: string, queue: string, padding: string | undefined }} load
 */
async function pushOne({ url, queue, padding }) {
  const connection = await HttpConnection.open(url)
  const { status, body } = await connection.request(pushRequest(url, queue, padding))
  connection.close()
  if (status !== 201) throw new Error(`PUSH answered ${status}: ${body}`)
}

/**
 * Sends PUSH over `connections` connections, on each the next as soon as the last is answered. With more than
 * one job per request it is PUSH batch: jobs are counted, and the times are those of batches.
 * @param {Load} load
 */
async function push(load) {
  const { url, queue, padding, options, connections, jobsPerRequest, seconds, watch } = load
  const request =
    jobsPerRequest === 1
      ? pushRequest(url, queue, padding, options)
      : batchRequest(url, queue, jobsPerRequest, padding)
  const requests = () => () => request
  return await keepPushing({ url, requests, connections, jobsPerRequest, seconds, watch })
}

/** Each connection of this process has its own range of numbers, so that every job is different. */
const PER_CONNECTION = 1_000_000
let numbered = 0

/**
 * Pushes jobs that all differ, with or without a `unique` policy.
 * @param {{ url: string, queue: string, unique?: object, connections: number, seconds: number, watch: import('../meter.mjs').Watched }} load
 */
async function pushNumbered({ url, queue, unique, connections, seconds, watch }) {
  const requests = () => {
    numbered += 1
    return numberedPush(url, queue, { first: numbered * PER_CONNECTION, ...(unique && { unique }) })
  }
  return await keepPushing({ url, requests, connections, jobsPerRequest: 1, seconds, watch })
}

/**
 * `requests()` is called once per connection, and returns the function that makes its requests.
 * @param {{ url: string, requests: () => () => Buffer, connections: number, jobsPerRequest: number, seconds: number, watch: import('../meter.mjs').Watched }} load
 */
async function keepPushing({ url, requests, connections, jobsPerRequest, seconds, watch }) {
  const { fault, fail } = faultLine()
  const pool = await Promise.all(
    Array.from({ length: connections }, () => HttpConnection.open(url)),
  )
  /** @type {{ created: number, other: Record<number, number> }} */
  const total = { created: 0, other: {} }
  /** @type {number[]} */
  let latencies = []
  let isOver = false

  const run = (
    /** @type {import('../load/http-connection.mjs').HttpConnection} */ connection,
    /** @type {() => Buffer} */ nextRequest,
    /** @type {() => void} */ done,
  ) => {
    const startedAt = performance.now()
    connection.send(
      nextRequest(),
      (status) => {
        latencies.push(performance.now() - startedAt)
        if (status === 201) total.created += jobsPerRequest
        else total.other[status] = (total.other[status] ?? 0) + 1
        if (isOver) done()
        else run(connection, nextRequest, done)
      },
      fail,
    )
  }
  const drained = Promise.all(
    pool.map((each) => new Promise((resolve) => run(each, requests(), () => resolve(undefined)))),
  )

  const begin = () => {
    latencies = []
  }
  const round = await countedWindow({ done: () => total.created, begin, seconds, watch, fault })
  isOver = true
  await Promise.race([drained, fault])
  for (const connection of pool) connection.close()
  return { p50: quantile(latencies, 0.5), p99: quantile(latencies, 0.99), ...total, ...round }
}
