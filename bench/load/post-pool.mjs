/** POSTs over a fixed number of connections that are kept, each of which has to be answered 201. */
import { HttpConnection } from './http-connection.mjs'

/**
 * @param {string} url
 * @param {number} size connections, and so requests at a time
 */
export async function openPostPool(url, size) {
  const all = await Promise.all(Array.from({ length: size }, () => HttpConnection.open(url)))
  const free = [...all]
  return {
    /** @param {Parameters<HttpConnection['request']>[0]} request */
    async post(request) {
      const connection = free.pop()
      if (connection === undefined) throw new Error('more requests at a time than connections')
      const { status, body } = await connection.request(request)
      free.push(connection)
      if (status !== 201) throw new Error(`${status}: ${body}`)
    },
    close() {
      for (const connection of all) connection.close()
    },
  }
}
