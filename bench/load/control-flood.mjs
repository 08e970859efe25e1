// Floods a control queue as a native worker gone wrong, or an attacker, would: heartbeats with a thousand ids each, and
// reports of nearly seven megabytes. The messages are made before, so that making them takes nothing from the flood.

import { connect } from 'amqplib'
import { serve } from '../child.mjs'

const EXCHANGE = 'ojs.exchange.direct'
/** As large a result as a report may have. */
const RESULT_LENGTH = 985_000

/** @type {import('amqplib').ConfirmChannel} */
let channel
/** @type {string} */
let key
/** @type {string[]} */
let ids

serve({ open, heartbeats, reports, ask })

/** `jobs`: whose the messages are. @param {{ url: string, queue: string, jobs: string[] }} target */
async function open({ url, queue, jobs }) {
  const connection = await connect(url)
  channel = await connection.createConfirmChannel()
  key = `ojs.queue.control.${queue}`
  ids = jobs
}

/**
 * Heartbeats of `size` ids each; resolves when RabbitMQ has all of them.
 * @param {{ count: number, size: number }} load
 */
async function heartbeats({ count, size }) {
  const body = Buffer.from(JSON.stringify({ worker_id: 'flood', job_ids: ids.slice(0, size) }))
  for (let n = 0; n < count; n++) await publish('ojs.control.heartbeat', body)
  await channel.waitForConfirms()
}

/**
 * Reports of `events` completed jobs each, with a large result for every one of them.
 * @param {{ count: number, events: number }} load
 */
async function reports({ count, events }) {
  const result = 'x'.repeat(RESULT_LENGTH)
  let bytes = 0
  for (let n = 0; n < count; n++) {
    const ended = ids.slice(n * events, (n + 1) * events)
    const completed = ended.map((/** @type {string} */ job_id) => ({
      job_id,
      attempt: 1,
      event: 'completed',
      result,
    }))
    const body = Buffer.from(JSON.stringify({ worker_id: 'flood', events: completed }))
    bytes = body.length
    await publish('ojs.control.report', body)
  }
  await channel.waitForConfirms()
  return { bytes }
}

/** Resolves when everything before has been handled: the answers come in the order of the control queue. */
async function ask() {
  const { queue } = await channel.assertQueue('', { exclusive: true, autoDelete: true })
  const answered = new Promise((resolve) => {
    void channel.consume(queue, resolve, { noAck: true })
  })
  const question = { type: 'ojs.control.sync', contentType: 'application/json', replyTo: queue }
  const body = Buffer.from(JSON.stringify({ queues: [key.replace('ojs.queue.control.', '')] }))
  channel.publish(EXCHANGE, key, body, { ...question, correlationId: 'end', mandatory: true })
  await answered
}

/**
 * @param {string} type
 * @param {Buffer} body
 */
async function publish(type, body) {
  const properties = { type, contentType: 'application/json', persistent: true, mandatory: true }
  if (!channel.publish(EXCHANGE, key, body, properties)) await drained()
}

function drained() {
  return new Promise((resolve) => {
    channel.once('drain', resolve)
  })
}
