import amqp from 'amqplib'
import { serve } from '../child.mjs'
import { Meter } from '../meter.mjs'
import { quantile } from '../statistics.mjs'
import { HttpConnection } from './http-connection.mjs'
import { jobsRequest } from './requests.mjs'

const JOBS_PER_REQUEST = 500
const CONNECTIONS = 4
const PREFETCH = 1000
/** How long after the last due time the round has failed. */
const TIMEOUT_MS = 60_000

serve({ lateness })

/**
 * Schedules `count` jobs, due from `leadMs` after now on and spread over `spreadMs` (0: all at one instant),
 * and consumes their queue natively. Measures how late each message comes out, by the wall clock that all
 * processes share. A message that comes too early fails the round.
 * @param {{ url: string, amqpUrl: string, queue: string, brokerQueue: string, count: number, leadMs: number, spreadMs: number, watch: import('../meter.mjs').Watched }} load
 */
async function lateness({ url, amqpUrl, queue, brokerQueue, count, leadMs, spreadMs, watch }) {
  const firstAt = Date.now() + leadMs
  const dueAt = (/** @type {number} */ index) => firstAt + Math.floor((index * spreadMs) / count)
  const inRate = await schedule({ url, queue, count, dueAt })
  if (Date.now() >= firstAt) throw new Error(`it takes longer than ${leadMs} ms to schedule them`)
  const meter = new Meter(watch)
  const late = await consumed({ amqpUrl, brokerQueue, count, lastAt: dueAt(count - 1) })
  const usage = meter.stop()
  if (Math.min(...late) < 0) throw new Error('a schedule has come before its time')
  return {
    inRate,
    p50: quantile(late, 0.5),
    p99: quantile(late, 0.99),
    max: late.reduce((a, b) => Math.max(a, b)),
    ...usage,
  }
}

/**
 * Schedules the jobs with PUSH batch; resolves to schedules per second.
 * @param {{ url: string, queue: string, count: number, dueAt: (index: number) => number }} load
 */
async function schedule({ url, queue, count, dueAt }) {
  let next = 0
  const startedAt = performance.now()
  const produce = async () => {
    const connection = await HttpConnection.open(url)
    while (next < count) {
      const size = Math.min(JOBS_PER_REQUEST, count - next)
      const options = Array.from({ length: size }, (_, i) => ({
        scheduled_at: new Date(dueAt(next + i)).toISOString(),
      }))
      next += size
      const { status, body } = await connection.request(jobsRequest(url, queue, options))
      if (status !== 201) throw new Error(`PUSH batch answered ${status}: ${body}`)
    }
    connection.close()
  }
  await Promise.all(Array.from({ length: CONNECTIONS }, produce))
  return (1000 * count) / (performance.now() - startedAt)
}

/**
 * Resolves to how many milliseconds after its own due time each message came, in the order of arrival.
 * @param {{ amqpUrl: string, brokerQueue: string, count: number, lastAt: number }} load
 */
async function consumed({ amqpUrl, brokerQueue, count, lastAt }) {
  const connection = await amqp.connect(amqpUrl, { noDelay: true })
  const channel = await connection.createChannel()
  await channel.prefetch(PREFETCH)
  /** @type {number[]} */
  const late = []
  try {
    /** @type {Promise<void>} */
    const arrived = new Promise((resolve, reject) => {
      const given = () => reject(new Error(`${late.length} of ${count} schedules have come`))
      const timer = setTimeout(given, lastAt - Date.now() + TIMEOUT_MS)
      connection.on('error', reject)
      const take = (/** @type {import('amqplib').ConsumeMessage | null} */ message) => {
        if (message === null) return reject(new Error('RabbitMQ has cancelled the consumer'))
        late.push(Date.now() - Date.parse(message.properties.headers?.['x-ojs-scheduled-at']))
        channel.ack(message)
        if (late.length < count) return
        clearTimeout(timer)
        resolve()
      }
      channel.consume(brokerQueue, take).catch(reject)
    })
    await arrived
  } finally {
    await connection.close()
  }
  return late
}
