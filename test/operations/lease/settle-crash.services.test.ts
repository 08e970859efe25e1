import { expect, test } from 'vitest'
import { restartDoomed, untilDead } from '../../crash/failpoints.ts'
import { inOrder } from '../../support/broker/order.ts'
import { queueMessages } from '../../support/broker/queue-messages.ts'
import { vhostForAll } from '../../support/broker/rabbit.ts'
import { type Job, jobsOf } from '../../support/gateway/client.ts'
import { Gateway } from '../../support/gateway/gateway.ts'
import { eventually } from '../../support/gateway/in-process.ts'

/**
 * A gateway is killed while it settles 30 jobs of one request. Before the commit, RabbitMQ has every message
 * and the ledger has every lease; after it, both know all outcomes and no client has heard of them. In either
 * case the same request, repeated, settles each job once, and no job runs again that was completed.
 */
const vhost = vhostForAll()

const PATIENCE_MS = 60_000
const JOBS = 30
/** Every tenth job fails for good: RabbitMQ moves its message to the queue of dead letters. */
const isNack = (i: number) => i % 10 === 9
const LEDGER = 'ledger/sqlite/ledger.js:SqliteLedger'

const itemOf = ({ id }: Job, i: number) =>
  isNack(i)
    ? {
        action: 'nack',
        job_id: id,
        attempt: 1,
        error: { code: 'e', message: 'm', retryable: false },
      }
    : { action: 'ack', job_id: id, attempt: 1, result: i }

async function fetchAll({ client }: Gateway, queue: string, count: number): Promise<Job[]> {
  const jobs: Job[] = []
  await eventually(async () => {
    const asked = { queues: [queue], count: count - jobs.length, wait_ms: 500, worker_id: 'w' }
    jobs.push(...jobsOf(await client.fetch(asked)))
    return jobs.length === count
  }, PATIENCE_MS)
  return jobs
}

async function push({ client }: Gateway, queue: string): Promise<void> {
  const options = { queue, visibility_timeout_ms: 300_000 }
  const jobs = Array.from({ length: JOBS }, (_, i) => ({ type: 'a', args: [i], options }))
  expect((await client.send('POST', '/ojs/v1/jobs/batch', { jobs })).status).toBe(201)
}

const settle = ({ client }: Gateway, jobs: readonly Job[]) =>
  client.send('POST', '/ojs/v1/workers/settle', { worker_id: 'w', items: jobs.map(itemOf) })

interface Item {
  status: number
  job_id: string
  error?: { details: { current_state: string } }
}
const itemsOf = ({ body }: Awaited<ReturnType<typeof settle>>) => body['items'] as Item[]

/** The states in the ledger of a dead gateway. */
async function statesIn({ ledger }: Gateway, jobs: readonly Job[]): Promise<string[]> {
  const rows: { id: string; state: string }[] = await ledger.rows('SELECT id, state FROM jobs')
  const states = new Map(rows.map(({ id, state }) => [id, state]))
  return jobs.map(({ id }) => states.get(id) ?? 'lost')
}

test.each([
  ['before the commit, classic', 'classic', `${LEDGER}.complete:before:20`],
  ['before the commit, quorum', 'quorum', `${LEDGER}.complete:before:20`],
  ['after the commit, classic', 'classic', `${LEDGER}.complete:after:1`],
  ['after the commit, quorum', 'quorum', `${LEDGER}.complete:after:1`],
])(
  'a gateway that is killed %s settles the jobs of the repeated request once',
  async (name, type, failpoint) => {
    const queue = name.replaceAll(/\W+/g, '-')
    const isCommitted = failpoint.includes(':after:')
    const gateway = await Gateway.start({ amqpUrl: vhost.url, env: { OJS_QUEUE_TYPE: type } })
    try {
      await restartDoomed(gateway, failpoint)
      await gateway.untilHealthy()
      await push(gateway, queue)
      const jobs = await fetchAll(gateway, queue, JOBS)
      expect(await settle(gateway, jobs)).toMatchObject({ status: 0 })
      await untilDead(gateway, failpoint, PATIENCE_MS)

      const ended = jobs.map((_, i) => (isNack(i) ? 'discarded' : 'completed'))
      const found = await statesIn(gateway, jobs)
      const stated = (i: number) => (found[i] === 'active' ? 200 : 409)
      // A group commit ends after 50 ms, which a busy machine may need for 30 jobs.
      if (isCommitted) expect(found[0]).toBe('completed')
      else expect(found.at(-1)).toBe('active')
      expect(found).toEqual(ended.map((state, i) => (stated(i) === 200 ? 'active' : state)))
      // No message was acknowledged before the commit of its job, and none before a death that follows it at once.
      const messages = async (name = queue) =>
        inOrder(await queueMessages(vhost.url, `ojs.queue.${name}`))
      const isDue = (i: number) => isCommitted || found[i] === 'active'
      const due = jobs.flatMap(({ id }, i) => (isDue(i) ? [id] : []))
      const isBack = (ids: string[]) => due.every((id) => ids.includes(id))
      await eventually(async () => isBack(await messages()), PATIENCE_MS)

      await gateway.restart()
      await gateway.untilHealthy()
      const items = itemsOf(await settle(gateway, jobs))
      expect(items.map(({ job_id }) => job_id)).toEqual(jobs.map(({ id }) => id))
      for (const [i, { status, error }] of items.entries()) {
        expect([i, status]).toEqual([i, stated(i)])
        if (status === 409) expect(error?.details.current_state).toBe(ended[i])
      }
      // None runs again. The gateway drops the messages of ended jobs as they come.
      for (let i = 0; i < 3; i++) {
        const asked = { queues: [queue], count: 100, wait_ms: 500, worker_id: 'w' }
        expect(jobsOf(await gateway.client.fetch(asked))).toEqual([])
      }
      await gateway.stop()
      expect(await statesIn(gateway, jobs)).toEqual(ended)
      expect(await messages()).toEqual([])
      const dead = jobs.flatMap(({ id }, i) => (isNack(i) ? [id] : []))
      expect(await messages(`dlx.${queue}`)).toEqual(inOrder(dead))
    } finally {
      await gateway.dispose()
    }
  },
)
