import { setTimeout as sleep } from 'node:timers/promises'
import amqp from 'amqplib'
import { serve } from '../child.mjs'
import { Meter } from '../meter.mjs'
import { quantile } from '../statistics.mjs'
import { countedWindow, faultLine, RAMP_MS, sampledWindow } from './window.mjs'

/** Sent as int32, as the gateway does; amqplib would send such a small number as an int8. */
const INT32_HEADERS = ['x-ojs-attempt', 'x-ojs-max-attempts']
const FILL_IN_FLIGHT = 1000
/** At some ten thousand messages a second, little would be left after the usual ramp of a second. */
const DRAIN_RAMP_MS = 250
const TRIM_STEP = 500

/** @type {import('amqplib').ChannelModel} */
let connection
/** @type {import('amqplib').ChannelModel} */
let consumeConnection
/** @type {import('amqplib').ConfirmChannel[]} */
let channels = []
/** @type {{ exchange: string, queue: string, content: Buffer, options: import('amqplib').Options.Publish }} */
let published

serve({ connect, sample, publish, fill, latency, drain, consume, circulate, depth, purge, trim })

/**
 * Opens a connection with several confirm channels to publish, and one to consume, as the gateway does.
 * @param {{ url: string, channelCount: number }} load
 */
async function connect({ url, channelCount }) {
  connection = await open(url)
  consumeConnection = await open(url)
  channels = await Promise.all(
    Array.from({ length: channelCount }, () => connection.createConfirmChannel()),
  )
  return { brokerVersion: connection.connection.serverProperties.version }
}

/** @param {number} index */
function channelAt(index) {
  const channel = channels[index % channels.length]
  if (channel === undefined) throw new Error('not connected')
  return channel
}

/**
 * What a consumer is given. Null: RabbitMQ has cancelled it.
 * @param {import('amqplib').ConsumeMessage | null} message
 */
function given(message) {
  if (message === null) throw new Error('RabbitMQ has cancelled a consumer')
  return message
}

/** @param {string} url */
async function open(url) {
  const opened = await amqp.connect(url, { noDelay: true })
  opened.on('error', stopAtOnce)
  return opened
}

/** @param {Error} error */
function stopAtOnce(error) {
  process.stderr.write(`${error.stack}\n`)
  process.exit(1)
}

/**
 * Takes the message that the gateway published to `queue` as the message that the ceiling publishes.
 * @param {{ exchange: string, queue: string, brokerQueue: string }} load
 */
async function sample({ exchange, queue, brokerQueue }) {
  const channel = await connection.createChannel()
  const message = await channel.get(brokerQueue, { noAck: true })
  await channel.close()
  if (!message) throw new Error(`nothing in ${brokerQueue}`)
  const { fields, properties, content } = message
  if (fields.exchange !== exchange || fields.routingKey !== queue) {
    throw new Error(`${brokerQueue} holds a message of ${fields.exchange}, ${fields.routingKey}`)
  }
  published = { exchange, queue, content, options: publishOptions(properties) }
  const { messageId: id } = properties
  return { id, bytes: content.length, properties: Object.keys(published.options) }
}

/** @param {import('amqplib').MessageProperties} properties */
function publishOptions({ headers = {}, deliveryMode, ...properties }) {
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

/**
 * Keeps `inFlight` messages unconfirmed; each confirm is followed by the next publish.
 * @param {{ inFlight: number, seconds: number, watch: import('../meter.mjs').Watched }} load
 */
async function publish({ inFlight, seconds, watch }) {
  const { fault, fail } = faultLine()
  const onReturn = () => fail(new Error('a message was returned'))
  for (const channel of channels) channel.on('return', onReturn)
  const { exchange, queue, content, options } = published
  let created = 0
  /** @type {number[]} */
  let latencies = []
  let isOver = false

  const run = (
    /** @type {import('amqplib').ConfirmChannel} */ channel,
    /** @type {() => void} */ done,
  ) => {
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
      const channel = channelAt(index)
      return new Promise((resolve) => run(channel, () => resolve(undefined)))
    }),
  )
  const begin = () => {
    latencies = []
  }
  const round = await countedWindow({ done: () => created, begin, seconds, watch, fault })
  isOver = true
  await Promise.race([drained, fault])
  for (const channel of channels) channel.off('return', onReturn)
  return { p50: quantile(latencies, 0.5), p99: quantile(latencies, 0.99), created, ...round }
}

/**
 * Publishes `count` messages; resolves when all are confirmed.
 * @param {{ count: number }} load
 */
async function fill({ count }) {
  const { exchange, queue, content, options } = published
  let owed = count
  const run = (
    /** @type {import('amqplib').ConfirmChannel} */ channel,
    /** @type {() => void} */ done,
    /** @type {(error: unknown) => void} */ fail,
  ) => {
    if (owed === 0) return done()
    owed -= 1
    channel.publish(exchange, queue, content, options, (error) => {
      if (error) fail(error)
      else run(channel, done, fail)
    })
  }
  const runOn = (/** @type {import('amqplib').ConfirmChannel} */ channel) =>
    new Promise((resolve, reject) => run(channel, () => resolve(undefined), reject))
  await Promise.all(Array.from({ length: FILL_IN_FLIGHT }, (_, i) => runOn(channelAt(i))))
}

/**
 * Consumes the queue and acknowledges each message singly, with `prefetch` of them in flight. The round ends
 * early when the queue's `jobs` messages are used up.
 * @param {{ brokerQueue: string, jobs: number, prefetch: number, seconds: number, watch: import('../meter.mjs').Watched }} load
 */
async function drain({ brokerQueue, jobs, prefetch, seconds, watch }) {
  const { fault } = faultLine()
  const channel = await consumeConnection.createChannel()
  await channel.prefetch(prefetch)
  let acked = 0
  let endRound = () => {}
  /** @type {Promise<void>} */
  const ended = new Promise((resolve) => {
    endRound = resolve
  })
  await channel.consume(brokerQueue, (message) => {
    channel.ack(given(message))
    acked += 1
    if (acked === jobs) endRound()
  })
  const window = { seconds, watch, fault, ended, rampMs: DRAIN_RAMP_MS }
  const round = await countedWindow({ done: () => acked, ...window })
  await channel.close()
  return round
}

/**
 * Consumes and acknowledges `jobs` messages one by one, measured from the first delivery to the last ack.
 * @param {{ brokerQueue: string, jobs: number, prefetch: number, watch: import('../meter.mjs').Watched }} load
 */
async function consume({ brokerQueue, jobs, prefetch, watch }) {
  const channel = await consumeConnection.createChannel()
  await channel.prefetch(prefetch)
  let acked = 0
  /** @type {Meter | undefined} */
  let meter
  /** @type {Promise<void>} */
  const worked = new Promise((resolve, reject) => {
    const take = (/** @type {import('amqplib').ConsumeMessage | null} */ message) => {
      meter ??= new Meter(watch)
      channel.ack(given(message))
      acked += 1
      if (acked === jobs) resolve()
    }
    channel.consume(brokerQueue, take).catch(reject)
  })
  await worked
  const usage = (meter ?? new Meter(watch)).stop()
  await channel.close()
  return { rate: jobs / usage.seconds, ...usage }
}

/**
 * As `circulate` of drain.mjs, but with bare messages: the rate counts only the time of consuming.
 * @param {{ brokerQueue: string, segment: number, prefetch: number, seconds: number, watch: import('../meter.mjs').Watched }} load
 */
async function circulate({ brokerQueue, segment, prefetch, seconds, watch }) {
  const consumeFor = async (/** @type {number} */ ms) => {
    const sum = { jobs: 0, ms: 0 }
    while (sum.ms < ms) {
      await fill({ count: segment })
      const startedAt = performance.now()
      await consumeMany(brokerQueue, segment, prefetch)
      sum.ms += performance.now() - startedAt
      sum.jobs += segment
    }
    return sum
  }
  await consumeFor(RAMP_MS)
  const meter = new Meter(watch)
  const { jobs, ms } = await consumeFor(1000 * seconds)
  return { rate: (1000 * jobs) / ms, ...meter.stop() }
}

/**
 * Consumes `count` messages. Deliveries beyond that go back to the queue when the channel closes.
 * @param {string} brokerQueue
 * @param {number} count
 * @param {number} prefetch
 */
async function consumeMany(brokerQueue, count, prefetch) {
  const channel = await consumeConnection.createChannel()
  await channel.prefetch(prefetch)
  let acked = 0
  /** @type {Promise<void>} */
  const worked = new Promise((resolve, reject) => {
    const take = (/** @type {import('amqplib').ConsumeMessage | null} */ message) => {
      if (acked === count) return
      channel.ack(given(message))
      acked += 1
      if (acked === count) resolve()
    }
    channel.consume(brokerQueue, take).catch(reject)
  })
  await worked
  await channel.close()
}

/**
 * Measures from just before a publish to its delivery on the other connection, while the broker is idle.
 * @param {{ brokerQueue: string, pauseMs: number, seconds: number, watch: import('../meter.mjs').Watched }} load
 */
async function latency({ brokerQueue, pauseMs, seconds, watch }) {
  const { exchange, queue, content, options } = published
  /** @type {(at: number) => void} */
  let delivered
  const channel = await consumeConnection.createChannel()
  await channel.prefetch(32)
  await channel.consume(brokerQueue, (message) => {
    channel.ack(given(message))
    delivered(performance.now())
  })
  const sample = async () => {
    await sleep(pauseMs)
    const arrival = new Promise((resolve) => {
      delivered = resolve
    })
    const startedAt = performance.now()
    channelAt(0).publish(exchange, queue, content, options, () => {})
    return (await arrival) - startedAt
  }
  const measured = await sampledWindow({ seconds, watch, sample })
  await channel.close()
  return measured
}

/**
 * Resolves to the number of messages that were ready.
 * @param {{ brokerQueue: string }} load
 */
async function purge({ brokerQueue }) {
  const channel = await connection.createChannel()
  const { messageCount } = await channel.purgeQueue(brokerQueue)
  await channel.close()
  return messageCount
}

/**
 * The number of ready messages.
 * @param {{ brokerQueue: string }} load
 */
async function depth({ brokerQueue }) {
  const channel = await connection.createChannel()
  const { messageCount } = await channel.checkQueue(brokerQueue)
  await channel.close()
  return messageCount
}

/**
 * Removes the oldest messages until at most `keep + 499` are left. It takes whole prefetch windows and
 * acknowledges the last one after it has cancelled the consumer, so that no message goes back to the queue.
 * @param {{ brokerQueue: string, keep: number }} load
 */
async function trim({ brokerQueue, keep }) {
  let windows = Math.floor(((await depth({ brokerQueue })) - keep) / TRIM_STEP)
  if (windows <= 0) return
  const channel = await consumeConnection.createChannel()
  await channel.prefetch(TRIM_STEP)
  /** @type {Promise<void>} */
  const worked = new Promise((resolve, reject) => {
    let taken = 0
    const take = async (/** @type {import('amqplib').ConsumeMessage | null} */ message) => {
      taken += 1
      if (taken % TRIM_STEP !== 0) return
      windows -= 1
      if (windows === 0) await channel.cancel(given(message).fields.consumerTag)
      channel.ack(given(message), true)
      if (windows === 0) resolve()
    }
    channel.consume(brokerQueue, (message) => take(message).catch(reject)).catch(reject)
  })
  await worked
  await channel.close()
}
