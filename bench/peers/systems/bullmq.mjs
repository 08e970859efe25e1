/** Express and BullMQ: jobs are posted to an Express program of some lines, which adds them to the queue. */
import { createRequire } from 'node:module'
import { openPostPool } from '../../load/post-pool.mjs'
import { ARGS, JOB_TYPE } from '../../load/requests.mjs'

const CONNECTIONS = 64

/** @param {{ queue: string, url: string, redis: object, modules: string }} given */
export async function open({ queue, url, redis, modules }) {
  /** @type {any} */
  const { Worker } = createRequire(`${modules}/`)('bullmq')
  const { post, close } = await openPostPool(url, CONNECTIONS)
  const job = { type: JOB_TYPE, args: ARGS, queue }
  const one = request(url, '/jobs', job)
  return {
    enqueue: () => post(one),
    enqueueMany: (/** @type {number} */ count) =>
      post(request(url, '/bulk', { queue, jobs: Array(count).fill(job) })),
    work: async (/** @type {number} */ concurrency, /** @type {() => void} */ onJob) => {
      const worker = new Worker(queue, async () => onJob(), {
        connection: { ...redis, maxRetriesPerRequest: null },
        concurrency,
        removeOnComplete: { count: 0 },
      })
      await worker.waitUntilReady()
      return () => worker.close(true)
    },
    close,
  }
}

/**
 * @param {string} url
 * @param {string} path
 * @param {object} body
 */
function request(url, path, body) {
  const text = JSON.stringify(body)
  const head = `POST ${path} HTTP/1.1\r\nhost: ${new URL(url).host}\r\ncontent-type: application/json\r\n`
  return Buffer.from(`${head}content-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`)
}
