import { setTimeout as sleep } from 'node:timers/promises'
import amqp from 'amqplib'
import { serve } from '../child.mjs'
import { quantile } from '../statistics.mjs'
import { faultLine, measuredWindow } from './window.mjs'

/** As the gateway sends them; amqplib would make an int8 of such a small number. */
const INT32_HEADERS = ['x-ojs-attempt', 'x-ojs-max-attempts']

let connection
let consumeConnection
let channels = []
let token

serve({ connect, sample, publish, latency, purge })

/** One connection to publish with several confirm channels, one to consume; as the gateway has. */
async function connect({ url, channelCount }) {
  connection = await open(url)
  consumeConnection = await open(url)
  channels = await Promise.all(
    Array.from({ length: channelCount }, () => connection.createConfirmChannel()),
  )
  return { brokerVersion: connection.connection.serverProperties.version }
}

async function open(url) {
  const opened = await amqp.connect(url, { noDelay: true })
  opened.on('error', stopAtOnce)
  return opened
}

function stopAtOnce(error) {
  process.stderr.write(`${error.stack}\n`)
  process.exit(1)
}

/** Takes the message that the gateway published to `queue` as the one that the ceiling publishes. */
async function sample({ exchange, queue, brokerQueue }) {
  const channel = await connection.createChannel()
  const message = await channel.get(brokerQueue, { noAck: true })
  await channel.close()
  if (!message) throw new Error(`nothing in ${brokerQueue}`)
  const { fields, properties, content } = message
  if (fields.exchange !== exchange || fields.routingKey !== queue) {
    throw new Error(`${brokerQueue} holds a message of ${fields.exchange}, ${fields.routingKey}`)
  }
  token = { exchange, queue, content, options: publishOptions(properties) }
  return { bytes: content.length, properties: Object.keys(token.options) }
}

function publishOptions({ headers, deliveryMode, ...properties }) {
  const typed = Object.entries(headers).map(([name, value]) => [
    name,
    INT32_HEADERS.includes(name) ? { '!': 'int32', value } : value,
  ])
  const given = Object.entries(properties).filter(([, value]) => value !== undefined)
  return {
    ...Object.fromEntries(given),
    headers: Object.fromEntries(typed),
    persistent: deliveryMode === 2,
    mandatory: true,
  }
}

/** Publishes with `inFlight` unconfirmed messages; each confirm is followed by the next publish. */
async function publish({ inFlight, seconds, watch }) {
  const { fault, fail } = faultLine()
  const onReturn = () => fail(new Error('a message was returned'))
  for (const channel of channels) channel.on('return', onReturn)
  const { exchange, queue, content, options } = token
  let created = 0
  let before = 0
  let latencies = []
  let isOver = false

  const run = (channel, done) => {
    const startedAt = performance.now()
    channel.publish(exchange, queue, content, options, (error) => {
      if (error) return fail(error)
      latencies.push(performance.now() - startedAt)
      created += 1
      if (isOver) done()
      else run(channel, done)
    })
  }
  const drained = Promise.all(
    Array.from({ length: inFlight }, (_, index) => {
      const channel = channels[index % channels.length]
      return new Promise((resolve) => run(channel, resolve))
    }),
  )
  const begin = () => {
    before = created
    latencies = []
  }
  const usage = await measuredWindow({ seconds, watch, begin, fault })
  const rate = (created - before) / usage.seconds
  const measured = latencies
  isOver = true
  await Promise.race([drained, fault])
  for (const channel of channels) channel.off('return', onReturn)
  return { rate, p50: quantile(measured, 0.5), p99: quantile(measured, 0.99), created, ...usage }
}

/** From just before one publish to its delivery on the other connection; an idle broker. */
async function latency({ brokerQueue, pauseMs, seconds, watch }) {
  const { fault } = faultLine()
  const { exchange, queue, content, options } = token
  let delivered
  const channel = await consumeConnection.createChannel()
  await channel.prefetch(32)
  await channel.consume(brokerQueue, (message) => {
    channel.ack(message)
    delivered(performance.now())
  })
  let samples = []
  let isOver = false
  const loop = (async () => {
    while (!isOver) {
      await sleep(pauseMs)
      const arrival = new Promise((resolve) => {
        delivered = resolve
      })
      const startedAt = performance.now()
      channels[0].publish(exchange, queue, content, options, () => {})
      samples.push((await arrival) - startedAt)
    }
  })()
  const begin = () => {
    samples = []
  }
  const usage = await measuredWindow({ seconds, watch, begin, fault })
  isOver = true
  await loop
  await channel.close()
  return {
    p50: quantile(samples, 0.5),
    p99: quantile(samples, 0.99),
    count: samples.length,
    ...usage,
  }
}

/** Answers how many messages were ready. */
async function purge({ brokerQueue }) {
  const channel = await connection.createChannel()
  const { messageCount } = await channel.purgeQueue(brokerQueue)
  await channel.close()
  return messageCount
}
