import amqp from 'amqplib'
import { type Vhost, vhostForAll } from '../support/broker/rabbit.ts'
import {
  type Answer,
  eventually,
  startTestGateway,
  type TestGateway,
} from '../support/gateway/in-process.ts'
import { inTime } from '../support/time/in-time.ts'
import { forAll } from '../support/time/late.ts'

// biome-ignore lint/suspicious/noExplicitAny: answers are read as a client would, member by member
type Json = any

/** A gateway on its own vhost, for all tests of the file or `describe` that calls this. */
export function gatewayForAll(
  env: Record<string, string> = {},
  overrides: Parameters<typeof startTestGateway>[2] = {},
): { vhost: Vhost; gateway: TestGateway } {
  const vhost = vhostForAll()
  const gateway = forAll(
    () => startTestGateway(vhost.url, env, overrides),
    (started) => started.destroy(),
  )
  return { vhost, gateway }
}

let count = 0

/** A queue that no other test uses. */
export function freshQueue(): string {
  count += 1
  return `q${count}-${process.pid}`
}

/** PUSHes a job and FETCHes it; the queue must be empty. */
export async function startJob(
  gateway: TestGateway,
  queue: string,
  options: object = {},
): Promise<Json> {
  const pushed = await gateway.push(queue, { options })
  if (pushed.status !== 201) throw new Error(`push: ${JSON.stringify(pushed.body)}`)
  const job = await fetchOne(gateway, queue)
  if (job.id !== pushed.body.job.id) throw new Error(`another job was in ${queue}`)
  return job
}

/** The next job of the queue; throws when none comes. */
export async function fetchOne(
  gateway: TestGateway,
  queue: string,
  over: object = {},
): Promise<Json> {
  const [job] = await gateway.fetch([queue], { wait_ms: 15_000, ...over })
  if (job === undefined) throw new Error(`no job came from ${queue}`)
  return job
}

/** The next `count` jobs of the queue, in the order in which they came; throws when they do not. */
export async function fetchMany(
  gateway: TestGateway,
  queue: string,
  count: number,
  over: object = {},
): Promise<Json[]> {
  const jobs: Json[] = []
  while (jobs.length < count) {
    // FETCH answers the jobs that are buffered; jobs that arrive later are left for the next FETCH.
    const asked = { wait_ms: 15_000, count: count - jobs.length, ...over }
    const more = await gateway.fetch([queue], asked)
    if (more.length === 0) throw new Error(`only ${jobs.length} of ${count} came from ${queue}`)
    jobs.push(...more)
  }
  return jobs
}

/** Waits until the gateway has buffered all `count` jobs; it keeps them for its `idleMs` from then on. */
export async function untilBuffered(
  gateway: TestGateway,
  queue: string,
  count: number,
): Promise<void> {
  const line = `ojs_amqp_buffered{queue="${queue}"} ${count}\n`
  await eventually(async () => {
    // A FETCH keeps the consumer alive, since the gateway returns idle buffers to RabbitMQ.
    const { id } = await fetchOne(gateway, queue)
    await nack(gateway, id, {}, { requeue: true })
    return (await gateway.request('GET', '/metrics')).body.includes(line)
  })
}

export function ack(gateway: TestGateway, id: string): Promise<Answer> {
  return gateway.request('POST', '/ojs/v1/workers/ack', { job_id: id })
}

export function nack(
  gateway: TestGateway,
  id: string,
  error: object = {},
  over: object = {},
): Promise<Answer> {
  return gateway.request('POST', '/ojs/v1/workers/nack', {
    job_id: id,
    error: { code: 'handler_error', message: 'it broke', ...error },
    ...over,
  })
}

/** NACKs a job of `start` so that its retry waits in its retry queue, and is not held by the ledger. */
export async function nackIntoRetryQueue(
  gateway: TestGateway,
  start: () => Promise<Json>,
): Promise<{ job: Json; answer: Answer }> {
  const cancel = ({ id }: Json) => gateway.cancel(id)
  const [job, answer] = await inTime(start, ({ id }) => nack(gateway, id), cancel)
  return { job, answer }
}

export async function stateOf(gateway: TestGateway, id: string): Promise<string> {
  return (await gateway.get(id)).body.job?.state
}

/** Waits until the gateway has moved the job to this state, and returns the job. */
export async function untilState(gateway: TestGateway, id: string, state: string): Promise<Json> {
  await eventually(async () => (await stateOf(gateway, id)) === state)
  return (await gateway.get(id)).body.job
}

export async function deadLetters(gateway: TestGateway, query: string): Promise<Json> {
  const { status, body } = await gateway.request('GET', `/ojs/v1/dead-letter?${query}`)
  if (status !== 200) throw new Error(`dead letters: ${JSON.stringify(body)}`)
  return body
}

/** The ids of the dead letters of this queue, newest first. */
export async function deadIds(gateway: TestGateway, queue: string): Promise<string[]> {
  const { jobs } = await deadLetters(gateway, `queue=${queue}&limit=100`)
  return jobs.map((job: Json) => job.id)
}

/** The events of this job so far, oldest first. */
export async function eventsOf(gateway: TestGateway, queue: string, id: string): Promise<Json[]> {
  const { body } = await gateway.request('GET', `/ojs/v1/events?queues=${queue}&limit=1000`)
  return body.events.filter((event: Json) => event.subject === id)
}

/** The types of the events of this job so far, oldest first. */
export async function storyOf(gateway: TestGateway, queue: string, id: string): Promise<string[]> {
  const events = await eventsOf(gateway, queue, id)
  return events.map(({ type }) => type)
}

/** Runs `work` with a channel on its own connection, and closes both. */
export async function withChannel<T>(
  amqpUrl: string,
  work: (channel: amqp.ConfirmChannel) => Promise<T>,
): Promise<T> {
  const connection = await amqp.connect(amqpUrl)
  try {
    return await work(await connection.createConfirmChannel())
  } finally {
    await connection.close()
  }
}
