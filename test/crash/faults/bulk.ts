import { expect, onTestFinished, test } from 'vitest'
import type { PrivateNode } from '../../support/broker/rabbit.ts'
import { jobsOf } from '../../support/gateway/client.ts'
import { Gateway } from '../../support/gateway/gateway.ts'
import { eventually } from '../../support/gateway/in-process.ts'
import { restartDoomed, untilDead } from '../failpoints.ts'
import { newQueue } from './stage.ts'

const PATIENCE_MS = 120_000
/** Some pages of an operation. */
const JOBS = 1_500
const BATCH = 500

const ADVANCE = 'ledger/sqlite/bulk/bulk.js:SqliteBulk.advance'
const AFTER_COMMIT = `${ADVANCE}:after:2`
const BEFORE_COMMIT = `${ADVANCE}:before:2`
/** Some of what the operation owes is published. */
const IN_RELAY = 'broker/rabbit-broker.js:RabbitBroker.publish:after:300'

interface Row {
  state: string
  generation: number
}

/** Operations by filter go on after `kill -9`, and no job is acted on twice. */
export function bulkFaults(node: PrivateNode): void {
  test('a gateway killed within cancel and retry of many jobs acts on each job once', async () => {
    const gateway = await open(node)
    const queue = newQueue()
    await push(gateway, queue)

    const cancel = await operate(gateway, 'cancel', { queue, state: 'scheduled' }, [
      AFTER_COMMIT,
      BEFORE_COMMIT,
    ])
    expect(cancel).toMatchObject({ state: 'completed', succeeded: JOBS, failed: 0 })
    const kills = [AFTER_COMMIT, IN_RELAY]
    const retry = await operate(gateway, 'retry', { queue, state: 'cancelled' }, kills)
    expect(retry).toMatchObject({ state: 'completed', succeeded: JOBS, failed: 0 })

    const runs = await worked(gateway, queue)
    expect(new Set(runs).size).toBe(JOBS)
    expect(runs).toHaveLength(JOBS)
    await gateway.stop()
    const rows = await rowsOf(gateway, queue)
    expect(rows).toHaveLength(JOBS)
    // A job that was retried twice would have begun a third life.
    expect(new Set(rows.map((row) => `${row.state} ${row.generation}`))).toEqual(
      new Set(['completed 1']),
    )
  })
}

async function open(node: PrivateNode): Promise<Gateway> {
  const vhost = await node.createVhost()
  onTestFinished(() => vhost.drop())
  const gateway = await Gateway.start({ amqpUrl: vhost.url })
  onTestFinished(() => gateway.dispose())
  await gateway.untilHealthy()
  return gateway
}

async function push({ client }: Gateway, queue: string): Promise<void> {
  const options = { queue, delay_until: '2040-01-01T00:00:00Z', visibility_timeout_ms: 300_000 }
  for (let i = 0; i < JOBS; i += BATCH) {
    const jobs = Array.from({ length: BATCH }, () => ({ type: 'a', args: [], options }))
    expect((await client.send('POST', '/ojs/v1/jobs/batch', { jobs })).status).toBe(201)
  }
}

/** Begins an operation, kills the gateway at each of these points, and waits for the operation's end. */
async function operate(
  gateway: Gateway,
  action: string,
  filter: object,
  kills: readonly string[],
): Promise<Record<string, unknown>> {
  const { client } = gateway
  let place: string | undefined
  for (const failpoint of kills) {
    await restartDoomed(gateway, failpoint)
    if (place === undefined) {
      await gateway.untilHealthy()
      const body = { filter, confirm: true, async: true }
      const { status, headers } = await client.send(
        'POST',
        `/ojs/v1/admin/jobs/bulk/${action}`,
        body,
      )
      expect(status).toBe(202)
      place = headers.location ?? ''
    }
    await untilDead(gateway, failpoint, PATIENCE_MS)
  }
  await gateway.restart()
  let operation: Record<string, unknown> = {}
  await eventually(async () => {
    operation = (await client.send('GET', place ?? '')).body
    return operation['state'] === 'completed'
  }, PATIENCE_MS)
  return operation
}

/** The ids of all jobs that a worker was given, until it gets no more. */
async function worked({ client }: Gateway, queue: string): Promise<string[]> {
  const runs: string[] = []
  await eventually(async () => {
    const asked = { queues: [queue], count: 100, wait_ms: 700, worker_id: 'w' }
    const jobs = jobsOf(await client.fetch(asked))
    const items = jobs.map(({ id }) => ({ action: 'ack', job_id: id, attempt: 1 }))
    if (items.length > 0) {
      await client.send('POST', '/ojs/v1/workers/settle', { worker_id: 'w', items })
    }
    runs.push(...jobs.map(({ id }) => id))
    return runs.length >= JOBS && jobs.length === 0
  }, PATIENCE_MS)
  return runs
}

function rowsOf({ ledger }: Gateway, queue: string): Promise<Row[]> {
  return ledger.rows(`SELECT state, generation FROM jobs WHERE queue = '${queue}'`)
}
