/** pg-boss, which takes jobs in batches and looks for new ones every half second, its shortest interval. */
import { ARGS } from '../../load/requests.mjs'

const BATCH = 100

/** @param {{ queue: string, postgres: string, modules: string }} given */
export async function open({ queue, postgres, modules }) {
  const { PgBoss } = await import(`${modules}/pg-boss/dist/index.js`)
  const boss = new PgBoss({ connectionString: postgres, max: 10, schedule: false })
  boss.on('error', (/** @type {Error} */ error) => {
    throw error
  })
  await boss.start()
  await boss.createQueue(queue)
  const job = { data: { args: ARGS } }
  return {
    enqueue: () => boss.send(queue, job.data),
    enqueueMany: (/** @type {number} */ count) => boss.insert(queue, Array(count).fill(job)),
    work: async (/** @type {number} */ concurrency, /** @type {() => void} */ onJob) => {
      const options = { batchSize: BATCH, pollingIntervalSeconds: 0.5 }
      const workers = Math.max(1, Math.round(concurrency / 10))
      for (let i = 0; i < workers; i++) {
        await boss.work(queue, options, async (/** @type {readonly unknown[]} */ jobs) => {
          for (const _ of jobs) onJob()
        })
      }
      return () => boss.offWork(queue)
    },
    close: () => boss.stop({ graceful: false }),
  }
}
