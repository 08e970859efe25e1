import { expect, test, vi } from 'vitest'
import { PostgresLedger } from '../../../src/ledger/postgres/ledger.ts'
import { SqliteLedger } from '../../../src/ledger/sqlite/ledger.ts'
import { topologyWith } from '../../broker/harness.ts'
import { gatewayForAll, untilState } from '../../operations/harness.ts'
import { eventually } from '../../support/gateway/in-process.ts'
import { isOnPostgres } from '../../support/gateway/test-ledger.ts'
import { benchIn } from '../harness.ts'

const { vhost, gateway } = gatewayForAll({ OJS_QUEUE_TYPE: 'quorum' }, { watchMs: 50 })
const stage = benchIn(vhost)
/** A spy, because a ledger cannot be read while a gateway uses it. */
const recordIdentity = vi.spyOn(
  (isOnPostgres ? PostgresLedger : SqliteLedger).prototype,
  'recordIdentity',
)

async function untilMarked(queue: string): Promise<void> {
  const at = () => recordIdentity.mock.calls.findIndex(([name]) => name === queue)
  await eventually(() => at() >= 0)
  await recordIdentity.mock.results[at()]?.value
}

/** Deletes and declares within a millisecond: RabbitMQ cancels no consumer of a quorum queue then. */
async function renew(queue: string): Promise<void> {
  const entities = topologyWith({ queueType: 'quorum' }).ofQueue(queue, '3.10.8')
  const name = `ojs.queue.${queue}`
  const entity = entities.find((one) => one.name === name)
  if (entity?.entity !== 'queue') throw new Error(`no queue ${name}`)
  await Promise.all([
    stage.admin.channel.deleteQueue(name),
    stage.admin.channel.assertQueue(name, { arguments: entity.arguments }),
    stage.admin.channel.bindQueue(name, 'ojs.exchange.direct', queue),
  ])
}

test('a retry whose queue was deleted still runs when a worker declares that retry queue anew', async () => {
  const queue = 'retried'
  const retryQueue = `ojs.queue.retry.${queue}.4000`
  const retry = { initial_interval: 'PT4S', backoff_coefficient: 1, jitter: false }
  const pushed = async (): Promise<string> =>
    (await gateway.push(queue, { options: { retry } })).body.job.id
  const id = await pushed()
  await gateway.fetch([queue], { wait_ms: 10_000 })
  const error = { code: 'x', message: 'x' }
  await gateway.request('POST', '/ojs/v1/workers/nack', { job_id: id, error })
  await eventually(
    async () => (await stage.admin.channel.checkQueue(retryQueue)).messageCount === 1,
  )
  await stage.admin.channel.deleteQueue(retryQueue)
  const failed = new Set<string>()
  await stage.start(
    { queues: [queue], queueType: 'quorum' },
    {
      'test.job': ({ job, attempt }) => {
        if (attempt > 1) return
        failed.add(job.id)
        throw new Error('no')
      },
    },
  )
  const other = await pushed()
  await untilState(gateway, other, 'retryable')
  await untilState(gateway, id, 'completed')
  await untilState(gateway, other, 'completed')
  expect([...failed]).toEqual([other])
})

test('a worker runs the jobs of a queue that replaced its own, although RabbitMQ did not cancel its consumer', async () => {
  const queue = 'deaf'
  const runs: string[] = []
  const pushed = async (): Promise<string> => (await gateway.push(queue)).body.job.id
  await stage.start(
    { queues: [queue], queueType: 'quorum' },
    { 'test.job': ({ job }) => runs.push(job.id) },
  )
  await untilState(gateway, await pushed(), 'completed')
  await untilMarked(queue)
  await renew(queue)
  const id = await pushed()
  await untilState(gateway, id, 'completed')
  expect(runs.filter((one) => one === id)).toHaveLength(1)
})
