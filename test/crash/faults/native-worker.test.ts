import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Handler } from '../../../src/sdk/index.ts'
import { NativeWorker } from '../../../src/worker/index.ts'
import { connectAdmin } from '../../broker/harness.ts'
import { inOrder } from '../../support/broker/order.ts'
import { type PrivateNode, startPrivateNode } from '../../support/broker/rabbit.ts'
import { eventually } from '../../support/gateway/in-process.ts'
import { WorkerProcess } from '../../support/gateway/native-worker.ts'
import { gate } from '../../worker/harness.ts'
import { untilRemembered } from '../new-queues.ts'
import {
  fetched,
  newQueue,
  openStage,
  PROFILES,
  pushed,
  type Stage,
  stateOf,
  untilState,
} from './stage.ts'

/** Longer than any wait here takes, on any machine. */
const PATIENCE_MS = 60_000
/** Long enough for a lease to be renewed in time, on any machine. */
const LEASE_MS = 7_000

let node: PrivateNode

beforeAll(async () => {
  node = await startPrivateNode({ plugins: ['rabbitmq_management'] })
})
afterAll(() => node.stop())

async function startWorker(
  url: string,
  queue: string,
  handler: Handler,
  concurrency = 10,
): Promise<NativeWorker> {
  const worker = new NativeWorker({
    url,
    queues: [queue],
    concurrency,
    gracePeriod: 0,
    // See native-worker.mjs.
    answerTimeoutMs: 10_000,
    retryQueueSettleMs: 0,
    logger: false,
    handleSignals: false,
  })
  worker.register('test.job', handler)
  await worker.start()
  return worker
}

/** Pushes `count` jobs, and kills (SIGKILL) a worker process that has all of them in hand. */
async function leftByVictim(
  stage: Stage,
  queue: string,
  count: number,
  visibilityTimeoutMs: number,
): Promise<string[]> {
  const options = { visibility_timeout_ms: visibilityTimeoutMs, retry: { max_attempts: 3 } }
  const ids = await pushed(stage.gateway, queue, count, { options })
  const victim = new WorkerProcess(stage.vhost.url, queue, 'hang')
  await eventually(() => victim.runs.length === count, PATIENCE_MS)
  for (const id of ids) await untilState(stage.gateway, id, 'active')
  await victim.kill9()
  return ids
}

async function consumers({ admin }: Pick<Stage, 'admin'>, queue: string): Promise<number> {
  return (await admin.channel.checkQueue(`ojs.queue.${queue}`)).consumerCount
}

describe.each(PROFILES)('a native worker (%s)', (profile) => {
  const env = { OJS_QUEUE_TYPE: profile }

  test('is killed with jobs in hand: each job runs once more, on another worker', async () => {
    const stage = await openStage(node, { env })
    const queue = newQueue()
    const ids = await leftByVictim(stage, queue, 5, LEASE_MS)
    const runs: [string, number][] = []
    const heir = await startWorker(stage.vhost.url, queue, ({ job, attempt }) => {
      runs.push([job.id, attempt])
    })
    for (const id of ids) {
      const isCompleted = async () => (await stateOf(stage.gateway, id)) === 'completed'
      await eventually(isCompleted, PATIENCE_MS)
    }
    await heir.stop()
    expect(new Map(runs)).toEqual(new Map(ids.map((id) => [id, 2])))
    expect(runs).toHaveLength(ids.length)
  })

  test('is killed, and its queue deleted before its jobs are back: each job is fetched once more', async () => {
    const stage = await openStage(node, { env })
    const queue = newQueue()
    const ids = await leftByVictim(stage, queue, 3, LEASE_MS)
    await stage.admin.channel.deleteQueue(`ojs.queue.${queue}`)
    const again = await fetched(stage.gateway, queue, ids.length)
    expect(inOrder(again.map(({ id }) => id))).toEqual(inOrder(ids))
    expect(again.map(({ attempt }) => attempt)).toEqual([2, 2, 2])
  })

  // A lease of 50 ms is over before the next worker can be there, one of 2 s is not: then a new job message
  // takes the place of the one that the worker has died with.
  test.each([50, 2_000])(
    'is killed by its job each time, with a lease of %i ms: the job ends discarded',
    async (leaseMs) => {
      const stage = await openStage(node, { env })
      const queue = newQueue()
      const options = { visibility_timeout_ms: leaseMs, retry: { max_attempts: 3 } }
      const [id = ''] = await pushed(stage.gateway, queue, 1, { options })
      const attempts: number[] = []
      const isOver = async () => (await stage.gateway.get(id)).body.job.state === 'discarded'
      while (!(await isOver())) {
        const worker = new WorkerProcess(stage.vhost.url, queue, 'poison')
        const over = eventually(isOver, PATIENCE_MS)
        await Promise.race([worker.ended, over])
        await worker.kill9()
        attempts.push(...worker.runs.map(({ attempt }) => attempt))
        // The first worker may die before its start is reported; then there is a fourth one.
        expect(attempts.length).toBeLessThanOrEqual(4)
        over.catch(() => {})
      }
      expect(Math.max(...attempts)).toBe(3)
      const { job } = (await stage.gateway.get(id)).body
      expect(job).toMatchObject({ state: 'discarded', attempt: 3 })
      await eventually(
        async () =>
          (await stage.admin.channel.checkQueue(`ojs.queue.dlx.${queue}`)).messageCount === 1,
      )
    },
  )

  // Each of them costs ten seconds and more, hence one for each profile.
  const how = profile === 'quorum' ? 'killed' : 'restarted'
  test(`goes on when RabbitMQ is ${how}: no job is lost, none runs twice`, async () => {
    const { vhost, gateway } = await openStage(node, { env })
    const queue = newQueue()
    const end = gate()
    const runs: string[] = []
    // No timeout and no lease ends while RabbitMQ is away, because the handlers hold their jobs that long.
    const options = { timeout_ms: 0, visibility_timeout_ms: 600_000 }
    const ids = await pushed(gateway, queue, 30, { options })
    const worker = await startWorker(vhost.url, queue, async ({ job }) => {
      runs.push(job.id)
      await end.opened
    })
    await eventually(() => runs.length === 10)
    const declared = ['', 'dlx.', 'control.'].map((kind) => `ojs.queue.${kind}${queue}`)
    if (profile === 'quorum') await untilRemembered(node, declared)
    if (how === 'killed') await node.kill9()
    await node.restart()
    const upAt = performance.now()
    const admin = await connectAdmin(vhost.url)
    await eventually(async () => (await consumers({ admin }, queue)) === 1, PATIENCE_MS)
    process.stdout.write(
      `  consuming ${Math.round(performance.now() - upAt)} ms after RabbitMQ was back (${profile}, ${how})\n`,
    )
    end.open()
    for (const id of ids) {
      const isCompleted = async () => (await gateway.get(id)).body.job.state === 'completed'
      await eventually(isCompleted, PATIENCE_MS)
    }
    await worker.stop()
    await admin.close()
    expect(inOrder(runs)).toEqual(inOrder(ids))
  })
})
