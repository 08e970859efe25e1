/** Runs operations on many jobs, a page of each in turn; goes on with them after a restart. */
import { setTimeout as delay } from 'node:timers/promises'
import type { Deps } from '../operations/deps.ts'
import { OperationRunner } from '../operations/steer/run-operation.ts'
import { Loop } from './loop.ts'

/** For a start that failed, because the ledger could not be written. */
const INTERVAL_MS = 5_000
/**
 * Messages that the outbox may owe before an operation waits for the relay. Retried jobs come to RabbitMQ no
 * faster than it takes them, and other jobs find the relay no further behind than that.
 */
const MAX_OWED = 10_000
const WAIT_MS = 25

async function isBehind({ ledger }: Deps): Promise<boolean> {
  return (await ledger.read.owedMessages(MAX_OWED)) >= MAX_OWED
}

/** See `BulkLedger`. */
export function bulkOperations(deps: Deps): Loop {
  const runner = new OperationRunner(deps)
  const loop = new Loop({
    name: 'bulk-operations',
    everyMs: INTERVAL_MS,
    isDueAtStart: true,
    logger: deps.logger,
    runOnce: async (isStopped) => {
      let isMore = false
      const running = await deps.ledger.bulk.running()
      runner.keepOnly(running)
      for (const operation of running) {
        if (isStopped()) return false
        if (operation.action !== 'delete' && (await isBehind(deps))) {
          await delay(WAIT_MS)
          isMore = true
        } else if (await runner.page(operation)) isMore = true
      }
      return isMore
    },
  })
  deps.bulk.onBegin(() => loop.wake())
  return loop
}
