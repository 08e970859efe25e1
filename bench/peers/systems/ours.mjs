/** This project: PUSH over HTTP or natively, and the SDK's workers over HTTP or AMQP. */
import { openPostPool } from '../../load/post-pool.mjs'
import { ARGS, batchRequest, JOB_TYPE, pushRequest } from '../../load/requests.mjs'

const CONNECTIONS = 64

/** @param {{ queue: string, url: string, amqp: string, queueType: string, prefix: string, sdk: string, native: string, isNative: boolean }} how */
export async function open(how) {
  return how.isNative ? await openNative(how) : await openHttp(how)
}

/** @param {{ queue: string, url: string, sdk: string }} given */
async function openHttp({ queue, url, sdk }) {
  const { OJSWorker } = await import(sdk)
  const { post, close } = await openPostPool(url, CONNECTIONS)
  const one = pushRequest(url, queue)
  const many = new Map()
  return {
    enqueue: () => post(one),
    enqueueMany: (/** @type {number} */ count) => {
      if (!many.has(count)) many.set(count, batchRequest(url, queue, count))
      return post(many.get(count))
    },
    work: async (/** @type {number} */ concurrency, /** @type {() => void} */ onJob) => {
      const worker = new OJSWorker({ url, queues: [queue], concurrency, handleSignals: false })
      worker.register(JOB_TYPE, onJob)
      await worker.start()
      return () => worker.stop()
    },
    close,
  }
}

/** @param {{ queue: string, amqp: string, queueType: string, prefix: string, native: string }} given */
async function openNative({ queue, amqp, queueType, prefix, native }) {
  const { NativeProducer, NativeWorker } = await import(native)
  const producer = new NativeProducer({ url: amqp, queueType, prefix })
  const enqueue = () => producer.enqueue(JOB_TYPE, ARGS, { queue })
  return {
    enqueue,
    enqueueMany: (/** @type {number} */ count) =>
      Promise.all(Array.from({ length: count }, enqueue)),
    work: async (/** @type {number} */ concurrency, /** @type {() => void} */ onJob) => {
      const connection = { url: amqp, queueType, prefix }
      const options = { ...connection, queues: [queue], concurrency, handleSignals: false }
      const worker = new NativeWorker(options).register(JOB_TYPE, onJob)
      await worker.start()
      return () => worker.stop()
    },
    close: () => producer.close(),
  }
}
