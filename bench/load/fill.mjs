import { HttpConnection } from './http-connection.mjs'
import { batchRequest } from './requests.mjs'

const CONNECTIONS = 10
const JOBS_PER_REQUEST = 100

/**
 * Puts `count` jobs, a multiple of 100, into the queue, in batches; answers jobs per second.
 * `onCreated` gets the body of each answer.
 */
export async function fill({ url, queue, count, padding, onCreated }) {
  const request = batchRequest(url, queue, JOBS_PER_REQUEST, padding)
  let owed = count / JOBS_PER_REQUEST
  const startedAt = performance.now()
  const produce = async () => {
    const connection = await HttpConnection.open(url)
    while (owed > 0) {
      owed -= 1
      const { status, body } = await connection.request(request)
      if (status !== 201) throw new Error(`PUSH batch answered ${status}: ${body}`)
      onCreated?.(body)
    }
    connection.close()
  }
  await Promise.all(Array.from({ length: CONNECTIONS }, produce))
  return (1000 * count) / (performance.now() - startedAt)
}
