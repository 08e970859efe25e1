import { serve } from '../child.mjs'
import { HttpConnection } from './http-connection.mjs'
import { getRequest } from './requests.mjs'
import { sampledWindow } from './window.mjs'

serve({ latency })

/**
 * Repeats a GET over one connection; measures from writing the request to having read the answer.
 * @param {{ url: string, path: string, seconds: number, watch: import('../meter.mjs').Watched }} load
 */
async function latency({ url, path, seconds, watch }) {
  const connection = await HttpConnection.open(url)
  const request = getRequest(url, path)
  const sample = async () => {
    const startedAt = performance.now()
    const { status, body } = await connection.request(request)
    const ms = performance.now() - startedAt
    if (status !== 200) throw new Error(`${path}: ${status}: ${body}`)
    return ms
  }
  const measured = await sampledWindow({ seconds, watch, sample })
  connection.close()
  return measured
}
