import type { Channel } from 'amqplib'
import { expect } from 'vitest'
import { adminForAll } from '../broker/fixtures.ts'
import { type Admin, scratch } from '../broker/harness.ts'
import { type Vhost, vhostForAll } from '../support/broker/rabbit.ts'
import { type Method, Wire } from '../support/broker/wire.ts'
import { eventually, startTestGateway, type TestGateway } from '../support/gateway/in-process.ts'
import { inTime } from '../support/time/in-time.ts'
import { forAll } from '../support/time/late.ts'

/** Name and type, as seed 002 §12.1 lists them. */
export const METRICS = {
  ojs_amqp_connections_active: 'gauge',
  ojs_amqp_channels_active: 'gauge',
  ojs_amqp_messages_published_total: 'counter',
  ojs_amqp_messages_consumed_total: 'counter',
  ojs_amqp_messages_acked_total: 'counter',
  ojs_amqp_messages_nacked_total: 'counter',
  ojs_amqp_messages_returned_total: 'counter',
  ojs_amqp_messages_unacked: 'gauge',
  ojs_amqp_consumer_utilization: 'gauge',
  ojs_amqp_publish_confirm_latency_seconds: 'histogram',
  ojs_amqp_reconnections_total: 'counter',
}

/** A real RabbitMQ and a real gateway, with a proxy that records every AMQP method between them. */
export interface AmqpStage {
  readonly vhost: Vhost
  readonly wire: Wire
  readonly gateway: TestGateway
  readonly admin: Admin
  readonly clients: Clients
}

/** Calls of HTTP clients. Each expects the status that means success. */
interface Clients {
  /** Returns the job's id. */
  push(queue: string, over?: object): Promise<string>
  /** Fetches until it has exactly this many jobs. */
  fetch(queue: string, count?: number, over?: object): Promise<{ id: string; attempt: number }[]>
  /** Sends a NACK and returns its answer. */
  fail(id: string, error?: object): Promise<Record<string, unknown>>
  /** Returns a job whose first attempt failed, and whose next one went into its retry queue. */
  retried(queue: string, over?: object): Promise<{ id: string; answer: Record<string, unknown> }>
}

/** For all tests of a file or `describe`, in a vhost where nothing was declared before. */
export function amqpStage(env: Record<string, string> = {}): AmqpStage {
  const vhost = vhostForAll()
  const admin = adminForAll(vhost)
  const wire = forAll(
    () => Wire.start(vhost.url),
    (started) => started.stop(),
  )
  const gateway = forAll(
    // Else a consumer would be cancelled if a busy machine lets 2 s pass between two steps of a test.
    () => startTestGateway(wire.url, env, { idleMs: 60_000 }),
    (started) => started.destroy(),
  )
  return { vhost, wire, gateway, admin, clients: clientsOf(gateway) }
}

function clientsOf(gateway: TestGateway): Clients {
  const clients: Clients = {
    push: async (queue, over) => {
      const { status, body } = await gateway.push(queue, over)
      expect(status, JSON.stringify(body)).toBe(201)
      return body.job.id
    },
    fetch: async (queue, count = 1, over = {}) => {
      const jobs: { id: string; attempt: number }[] = []
      await eventually(async () => {
        const wanted = { count: count - jobs.length, wait_ms: 5_000, ...over }
        jobs.push(...(await gateway.fetch([queue], wanted)))
        return jobs.length === count
      })
      return jobs
    },
    fail: async (id, error = {}) => {
      const { status, body } = await gateway.request('POST', '/ojs/v1/workers/nack', {
        job_id: id,
        error: { code: 'smtp_error', message: 'no luck', ...error },
      })
      expect(status, JSON.stringify(body)).toBe(200)
      return body
    },
    retried: async (queue, over) => {
      const fetched = async () => {
        const id = await clients.push(queue, over)
        await clients.fetch(queue)
        return id
      }
      const [id, answer] = await inTime(fetched, clients.fail, gateway.cancel)
      return { id, answer }
    },
  }
  return clients
}

/**
 * RabbitMQ's answer to a declare: `ok` if the entity is new or has the same properties, else the reply code
 * (404: a passive declare finds nothing; 405: exclusive to another connection; 406: other properties).
 */
export async function answerTo(
  admin: Admin,
  ask: (channel: Channel) => Promise<unknown>,
): Promise<'ok' | number> {
  const channel = await scratch(admin)
  try {
    await ask(channel)
    await channel.close()
    return 'ok'
  } catch (error) {
    return Number((error as { code?: unknown }).code)
  }
}

const JOB_QUEUE = /^ojs\.queue\.(?!dlx\.|retry\.|control\.)/

/** The methods with this name that are about job queues. */
export function onJobQueues(wire: Wire, name: string, wanted: object = {}): Method[] {
  return wire
    .all(name, { ...wanted })
    .filter(({ fields }) => JOB_QUEUE.test(String(fields['queue'])))
}

/** The publishes of job messages, to whatever exchange. */
export function jobPublishes(wire: Wire, from = 0): Method[] {
  return wire.all('BasicPublish', ({ fields }) => !isControl(fields['routingKey']), from)
}

export function publishesOf(wire: Wire, id: string): Method[] {
  return jobPublishes(wire).filter(ofJob(id))
}

/** Returns whether a method has a message of this job. */
export function ofJob(id: string): (method: Method) => boolean {
  return ({ properties }) => properties?.['messageId'] === id
}

/** The newest delivery of this job to the gateway or worker. Copies of dead letters do not count. */
export function deliveryOf(wire: Wire, id: string): Method {
  const last = wire
    .all('BasicDeliver', ofJob(id))
    .findLast(({ fields }) => fields['exchange'] === 'ojs.exchange.direct')
  if (!last) throw new Error(`no delivery of ${id}`)
  return last
}

/** The `basic.ack`, `basic.nack` or `basic.reject` that was sent for this delivery. */
export function settlementsOf(wire: Wire, delivery: Method): Method[] {
  const { deliveryTag } = delivery.fields
  const onChannel = wire.onChannelOf(delivery)
  return onChannel
    .slice(onChannel.indexOf(delivery))
    .filter(({ from, name }) => from === 'us' && /^Basic(Ack|Nack|Reject)$/.test(name))
    .filter(({ fields }) => fields['deliveryTag'] === deliveryTag || fields['multiple'] === true)
}

export function headersOf({ properties }: Method): Record<string, unknown> {
  return (properties?.['headers'] ?? {}) as Record<string, unknown>
}

function isControl(routingKey: unknown): boolean {
  return /ojs\.(queue\.)?control\./.test(String(routingKey))
}
