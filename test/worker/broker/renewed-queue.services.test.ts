import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { NativeWorker } from '../../../src/worker/index.ts'
import { connectAdmin } from '../../broker/harness.ts'
import { createVhost } from '../../support/broker/rabbit.ts'
import { eventually, startTestGateway, type TestGateway } from '../../support/gateway/in-process.ts'

const QUEUE = 'email'

async function isMarked({ ledger }: TestGateway): Promise<boolean> {
  const rows = await ledger.rows(
    'SELECT 1 FROM queues WHERE marker IS NOT NULL',
    'SELECT 1 FROM queues WHERE identity IS NOT NULL',
  )
  return rows.length > 0
}

/**
 * Stops the gateway once its ledger has a queue identity. A ledger cannot be read while a gateway uses it.
 */
async function stopMarked(gateway: TestGateway): Promise<void> {
  await sleep(500)
  await gateway.stop()
  while (!(await isMarked(gateway))) {
    await gateway.restart()
    await sleep(500)
    await gateway.stop()
  }
}

test.each(['classic', 'quorum'] as const)(
  'jobs of a queue that vanished while no gateway ran, and that a native worker declared anew, run once each (%s)',
  async (queueType) => {
    const vhost = await createVhost()
    const admin = await connectAdmin(vhost.url)
    const gateway = await startTestGateway(
      vhost.url,
      { OJS_QUEUE_TYPE: queueType },
      { watchMs: 50 },
    )
    const runs: string[] = []
    const worker = new NativeWorker({
      url: vhost.url,
      queues: [QUEUE],
      queueType,
      gracePeriod: 0,
      logger: false,
      handleSignals: false,
    })
    worker.register('test.job', ({ job }) => void runs.push(job.id))
    try {
      const pushes = await Promise.all([1, 2, 3].map(() => gateway.push(QUEUE)))
      const ids: string[] = pushes.map(({ body }) => body.job.id)
      await stopMarked(gateway)
      await vhost.deleteQueue(`ojs.queue.${QUEUE}`)
      await worker.start()
      expect((await admin.channel.checkQueue(`ojs.queue.${QUEUE}`)).consumerCount).toBe(1)
      await gateway.restart()
      for (const id of ids) {
        await eventually(async () => (await gateway.get(id)).body.job.state === 'completed')
      }
      expect(new Set(runs)).toEqual(new Set(ids))
      expect(runs).toHaveLength(ids.length)
    } finally {
      await worker.stop()
      await gateway.destroy()
      await admin.close()
      await vhost.drop()
    }
  },
)
