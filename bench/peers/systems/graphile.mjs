/** graphile-worker, with local queue, completions in batches, and no listening log. */
import { createRequire } from 'node:module'
import { ARGS } from '../../load/requests.mjs'

/** @param {{ queue: string, postgres: string, modules: string }} given */
export async function open({ queue, postgres, modules }) {
  /** @type {any} */
  const { makeWorkerUtils, run, Logger } = createRequire(`${modules}/`)('graphile-worker')
  const logger = new Logger(() => () => {})
  const utils = await makeWorkerUtils({ connectionString: postgres, logger, maxPoolSize: 10 })
  await utils.migrate()
  const spec = { identifier: queue, payload: { args: ARGS } }
  return {
    enqueue: () => utils.addJob(queue, spec.payload),
    enqueueMany: (/** @type {number} */ count) => utils.addJobs(Array(count).fill(spec)),
    work: async (/** @type {number} */ concurrency, /** @type {() => void} */ onJob) => {
      const worker = {
        concurrentJobs: concurrency,
        maxPoolSize: 10,
        pollInterval: 2_000,
        localQueue: { size: 500, refetchDelay: { durationMs: 10 } },
        completeJobBatchDelay: 0,
        failJobBatchDelay: 0,
      }
      const runner = await run({
        connectionString: postgres,
        logger,
        noHandleSignals: true,
        taskList: { [queue]: () => onJob() },
        preset: { worker },
      })
      return () => runner.stop()
    },
    close: () => utils.release(),
  }
}
