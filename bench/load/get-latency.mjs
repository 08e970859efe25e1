import { serve } from '../child.mjs'
import { quantile } from '../statistics.mjs'
import { HttpConnection } from './http-connection.mjs'
import { getRequest } from './requests.mjs'
import { faultLine, measuredWindow } from './window.mjs'

serve({ latency })

/** The same GET again and again over one connection: from its write to its answer being read. */
async function latency({ url, path, seconds, watch }) {
  const { fault, fail } = faultLine()
  const connection = await HttpConnection.open(url)
  const request = getRequest(url, path)
  let samples = []
  let isOver = false
  const loop = async () => {
    while (!isOver) {
      const startedAt = performance.now()
      const { status, body } = await connection.request(request)
      samples.push(performance.now() - startedAt)
      if (status !== 200) throw new Error(`${path}: ${status}: ${body}`)
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
  connection.close()
  return { p50: quantile(samples, 0.5), p99: quantile(samples, 0.99), ...usage }
}
