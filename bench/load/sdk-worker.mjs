import { serve } from '../child.mjs'
import { complainTo } from './complaints.mjs'
import { JOB_TYPE } from './requests.mjs'
import { countedWindow, faultLine } from './window.mjs'

serve({ work })

/**
 * Runs the SDK's own worker over HTTP with an empty handler. `jobs` are in the queue; the round ends early,
 * while there are still enough for every slot. Counts handled jobs: a slot is free again only when its job is
 * acknowledged, so handled and acknowledged jobs differ by 50 at most. `sdk` is the URL of the built module;
 * `isSingle`: the worker is told of no way to settle many jobs at once.
 * @param {{ sdk: string, url: string, queue: string, concurrency: number, jobs: number, seconds: number, watch: import('../meter.mjs').Watched, isSingle: boolean }} load
 */
async function work({ sdk, url, queue, concurrency, jobs, seconds, watch, isSingle }) {
  const { OJSWorker } = await import(sdk)
  const { fault, fail } = faultLine()
  const last = jobs - 2 * concurrency
  let handled = 0
  let endRound = () => {}
  /** @type {Promise<void>} */
  const ended = new Promise((resolve) => {
    endRound = resolve
  })
  const logger = complainTo(fail)
  const how = isSingle ? { transport: await withoutManifest(sdk, url) } : { url }
  const worker = new OJSWorker({ ...how, queues: [queue], concurrency, logger })
  worker.register(JOB_TYPE, () => {
    handled += 1
    if (handled >= last) endRound()
  })
  await worker.start()
  const round = await countedWindow({ done: () => handled, seconds, watch, fault, ended })
  await worker.stop()
  return round
}

/**
 * @param {string} sdk
 * @param {string} url
 */
async function withoutManifest(sdk, url) {
  const { HttpTransport } = await import(sdk)
  const { nodeFetch } = await import(new URL('./transport/node-fetch.js', sdk).href)
  const inner = new HttpTransport({ url, retry: false, fetch: nodeFetch() })
  const request = async (/** @type {{ path: string }} */ asked) =>
    asked.path === '/ojs/manifest' ? { status: 200, body: {} } : await inner.request(asked)
  return { request }
}
