import { serve } from '../child.mjs'
import { complainTo } from './complaints.mjs'
import { JOB_TYPE } from './requests.mjs'
import { countedWindow, faultLine } from './window.mjs'

serve({ work })

/**
 * Runs the SDK's own worker over HTTP with an empty handler. `jobs` are in the queue; the round ends early,
 * while there are still enough for every slot. Counts handled jobs: a slot is free again only when its job is
 * acknowledged, so handled and acknowledged jobs differ by 50 at most. `sdk` is the URL of the built module.
 */
async function work({ sdk, url, queue, concurrency, jobs, seconds, watch }) {
  const { OJSWorker } = await import(sdk)
  const { fault, fail } = faultLine()
  const last = jobs - 2 * concurrency
  let handled = 0
  let endRound
  const ended = new Promise((resolve) => {
    endRound = resolve
  })
  const logger = complainTo(fail)
  const worker = new OJSWorker({ url, queues: [queue], concurrency, logger })
  worker.register(JOB_TYPE, () => {
    handled += 1
    if (handled >= last) endRound()
  })
  await worker.start()
  const round = await countedWindow({ done: () => handled, seconds, watch, fault, ended })
  await worker.stop()
  return round
}
