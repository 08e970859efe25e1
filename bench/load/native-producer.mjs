import { serve } from '../child.mjs'
import { quantile } from '../statistics.mjs'
import { ARGS, JOB_TYPE } from './requests.mjs'
import { countedWindow, faultLine } from './window.mjs'

/**
 * Lives for all rounds, like the ceiling's connection.
 * @type {import('../../dist/worker/index.js').NativeProducer | undefined}
 */
let producer

serve({ produceOne, produce })

/**
 * Enqueues one job, so that the ceiling has a message to copy.
 * @param {{ native: import('../stage.mjs').Native, queue: string }} load
 */
async function produceOne({ native, queue }) {
  const { NativeProducer } = await import(native.module)
  producer ??= new NativeProducer({ url: native.amqp, queueType: native.queueType })
  await producer?.enqueue(JOB_TYPE, ARGS, { queue })
}

/**
 * Keeps `inFlight` calls of `enqueue` in flight; each that resolves is followed by the next.
 * @param {{ queue: string, inFlight: number, seconds: number, watch: import('../meter.mjs').Watched }} load
 */
async function produce({ queue, inFlight, seconds, watch }) {
  const { fault, fail } = faultLine()
  let created = 0
  /** @type {number[]} */
  let latencies = []
  let isOver = false
  const run = async () => {
    while (!isOver) {
      const startedAt = performance.now()
      await producer?.enqueue(JOB_TYPE, ARGS, { queue })
      latencies.push(performance.now() - startedAt)
      created += 1
    }
  }
  const drained = Promise.all(Array.from({ length: inFlight }, run))
  drained.catch(fail)
  const begin = () => {
    latencies = []
  }
  const round = await countedWindow({ done: () => created, begin, seconds, watch, fault })
  isOver = true
  await drained
  return { p50: quantile(latencies, 0.5), p99: quantile(latencies, 0.99), created, ...round }
}
