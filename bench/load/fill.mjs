import { HttpConnection } from './http-connection.mjs'
import { batchRequest, chainRequest } from './requests.mjs'

const CONNECTIONS = 10
const JOBS_PER_REQUEST = 100

/** @typedef {(body: string) => void} OnCreated */

/**
 * Puts `count` jobs, a multiple of 100, into the queue, in batches; resolves to jobs per second. `onCreated`
 * gets the body of each answer.
 * @param {{ url: string, queue: string, count: number, padding?: string | undefined, onCreated?: OnCreated }} load
 */
export async function fill({ url, queue, count, padding, onCreated }) {
  const request = batchRequest(url, queue, JOBS_PER_REQUEST, padding)
  return count * (await repeat(url, request, count / JOBS_PER_REQUEST, onCreated))
}

/**
 * Starts chains of `length` steps, with `count` steps in all.
 * @param {{ url: string, queue: string, count: number, length: number }} load
 */
export async function fillChains({ url, queue, count, length }) {
  await repeat(url, chainRequest(url, queue, length), count / length)
}

/**
 * Sends the request `times` times; resolves to how often per second all of that could be done.
 * @param {string} url
 * @param {Buffer} request
 * @param {number} times
 * @param {OnCreated} [onCreated]
 */
async function repeat(url, request, times, onCreated) {
  let owed = times
  const startedAt = performance.now()
  const produce = async () => {
    const connection = await HttpConnection.open(url)
    while (owed > 0) {
      owed -= 1
      const { status, body } = await connection.request(request)
      if (status !== 201) throw new Error(`POST answered ${status}: ${body}`)
      onCreated?.(body)
    }
    connection.close()
  }
  await Promise.all(Array.from({ length: CONNECTIONS }, produce))
  return 1000 / (performance.now() - startedAt)
}
