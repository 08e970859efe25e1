/** Express and BullMQ: jobs are posted to an Express program of some lines, which adds them to the queue. */
import { createRequire } from 'node:module'
import { HttpConnection } from '../../load/http-connection.mjs'
import { ARGS, JOB_TYPE } from '../../load/requests.mjs'

const CONNECTIONS = 64

export async function open({ queue, url, redis, modules }) {
  /** @type {any} */
  const { Worker } = createRequire(`${modules}/`)('bullmq')
  const free = await Promise.all(
    Array.from({ length: CONNECTIONS }, () => HttpConnection.open(url)),
  )
  const all = [...free]
  const post = async (request) => {
    const connection = free.pop()
    if (connection === undefined) throw new Error('more requests at a time than connections')
    const { status, body } = await connection.request(request)
    free.push(connection)
    if (status !== 201) throw new Error(`${status}: ${body}`)
  }
  const job = { type: JOB_TYPE, args: ARGS, queue }
  const one = request(url, '/jobs', job)
  return {
    enqueue: () => post(one),
    enqueueMany: (count) => post(request(url, '/bulk', { queue, jobs: Array(count).fill(job) })),
    work: async (concurrency, onJob) => {
      const worker = new Worker(queue, async () => onJob(), {
        connection: { ...redis, maxRetriesPerRequest: null },
        concurrency,
        removeOnComplete: { count: 0 },
      })
      await worker.waitUntilReady()
      return () => worker.close(true)
    },
    close: () => {
      for (const connection of all) connection.close()
    },
  }
}

function request(url, path, body) {
  const text = JSON.stringify(body)
  const head = `POST ${path} HTTP/1.1\r\nhost: ${new URL(url).host}\r\ncontent-type: application/json\r\n`
  return Buffer.from(`${head}content-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`)
}
