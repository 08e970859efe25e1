import { serve } from '../child.mjs'
import { faultLine, measuredWindow } from './window.mjs'

serve({ work })

/**
 * The SDK's own worker over HTTP with a handler that does nothing. `jobs` are in the queue; the
 * round ends early while there are still enough for every slot. Acknowledged jobs are counted.
 * `sdk` is the URL of the built module.
 */
async function work({ sdk, url, queue, concurrency, jobs, seconds, watch }) {
  const { OJSWorker, HttpTransport } = await import(sdk)
  const { fault, fail } = faultLine()
  const last = jobs - 2 * concurrency
  let acked = 0
  let endRound
  const ended = new Promise((resolve) => {
    endRound = resolve
  })
  const http = new HttpTransport({ url, retry: false })
  const transport = {
    async request(request) {
      const answer = await http.request(request)
      if (request.path === '/workers/ack') acked += 1
      if (acked >= last) endRound()
      return answer
    },
  }
  const complain = (message, details) => fail(new Error(message, { cause: details.error }))
  const logger = { info() {}, warn: complain, error: complain }
  const worker = new OJSWorker({ transport, queues: [queue], concurrency, logger })
  worker.register('bench.push', () => {})
  await worker.start()
  let before = 0
  const begin = () => {
    before = acked
  }
  const usage = await measuredWindow({ seconds, watch, begin, fault, ended })
  const rate = (acked - before) / usage.seconds
  await worker.stop()
  return { rate, acked, ...usage }
}
