/** Plain amqplib: a durable queue, persistent messages, confirms, acknowledgements; no job system. */
import { ARGS, JOB_TYPE } from '../../load/requests.mjs'

/** @param {{ queue: string, amqp: string, queueType: string, modules: string }} given */
export async function open({ queue, amqp, queueType, modules }) {
  const { connect } = (await import(`${modules}/amqplib/channel_api.js`)).default
  const connection = await connect(amqp, { noDelay: true })
  const channel = await connection.createConfirmChannel()
  await channel.assertQueue(queue, { durable: true, arguments: { 'x-queue-type': queueType } })
  const body = Buffer.from(JSON.stringify({ type: JOB_TYPE, args: ARGS }))
  const enqueue = () =>
    new Promise((resolve, reject) => {
      channel.sendToQueue(queue, body, { persistent: true }, (/** @type {Error} */ error) => {
        if (error) reject(error)
        else resolve(undefined)
      })
    })
  return {
    enqueue,
    enqueueMany: (/** @type {number} */ count) =>
      Promise.all(Array.from({ length: count }, enqueue)),
    work: async (/** @type {number} */ concurrency, /** @type {() => void} */ onJob) => {
      const consumers = await connection.createChannel()
      await consumers.prefetch(Math.max(200, concurrency))
      await consumers.consume(queue, (/** @type {import('amqplib').ConsumeMessage} */ message) => {
        onJob()
        if (message) consumers.ack(message)
      })
      return () => consumers.close()
    },
    close: () => connection.close(),
  }
}
