// Declares with plain amqplib what a gateway declares for new queues, as fast as RabbitMQ lets it.

import { connect } from 'amqplib'
import { serve } from '../child.mjs'

/** As many at a time as the gateway. */
const CHANNELS = 8
const EXCHANGE = 'ojs.exchange.direct'
const DEAD = 'ojs.exchange.dlx'

/** @type {import('amqplib').Channel[]} */
let channels

serve({ open, declare })

/** @param {{ url: string }} target */
async function open({ url }) {
  const connection = await connect(url)
  channels = await Promise.all(Array.from({ length: CHANNELS }, () => connection.createChannel()))
}

/**
 * For each name a job queue, a dead letter queue and a control queue with their bindings; resolves to seconds.
 * @param {{ names: readonly string[], type: string }} load
 */
async function declare({ names, type }) {
  const begun = performance.now()
  const left = [...names]
  await Promise.all(
    channels.map(async (/** @type {import('amqplib').Channel} */ channel) => {
      for (let name = left.pop(); name !== undefined; name = left.pop())
        await declareOne(channel, name, type)
    }),
  )
  return (performance.now() - begun) / 1000
}

/**
 * @param {import('amqplib').Channel} channel
 * @param {string} name
 * @param {string} type
 */
async function declareOne(channel, name, type) {
  const queue = (
    /** @type {string} */ name,
    /** @type {string} */ type,
    /** @type {object} */ rest,
  ) => {
    const args = { 'x-queue-type': type, 'x-dead-letter-exchange': DEAD, ...rest }
    return channel.assertQueue(name, { durable: true, arguments: args })
  }
  await queue(`bare.${name}`, type, type === 'classic' ? { 'x-max-priority': 10 } : {})
  await channel.bindQueue(`bare.${name}`, EXCHANGE, `bare.${name}`)
  await queue(`bare.dlx.${name}`, 'quorum', {})
  await channel.bindQueue(`bare.dlx.${name}`, DEAD, `bare.dlx.${name}`)
  await queue(`bare.control.${name}`, type, {})
  await channel.bindQueue(`bare.control.${name}`, EXCHANGE, `bare.control.${name}`)
}
