/** Runs operations on many jobs, a page of each in turn; goes on with them after a restart. */
import { setTimeout as delay } from 'node:timers/promises'
import type { Deps } from '../operations/deps.ts'
import { MAX_OWED, Rooms, WAIT_MS } from '../operations/steer/rooms.ts'
import { OperationRunner } from '../operations/steer/run-operation.ts'
import { Loop } from './loop.ts'
import { reportsOut } from './reports-out.ts'

/** For a start that failed, because the ledger could not be written. */
const INTERVAL_MS = 5_000
/** Between two looks whether the reports of native workers are heard. */
const UNHEARD_MS = 100
/** As long as a gateway that stands still may have some (`Broker.controlBacklogConsumed`). */
const MOST_UNHEARD_MS = 60_000

/** See `BulkLedger`. */
export function bulkOperations(deps: Deps, maxOwed = MAX_OWED): Loop {
  const runner = new OperationRunner(deps)
  const rooms = new Rooms(deps, maxOwed)
  const areReportsOut = reportsOut(deps, MOST_UNHEARD_MS)
  const loop = new Loop({
    name: 'bulk-operations',
    everyMs: INTERVAL_MS,
    isDueAtStart: true,
    logger: deps.logger,
    runOnce: async (isStopped) => {
      const running = await deps.ledger.read.bulk.running()
      runner.keepOnly(running)
      rooms.keepOnly(running)
      if (running.length > 0 && areReportsOut()) {
        await delay(UNHEARD_MS)
        return true
      }
      let isMore = false
      let doAllWait = true
      for (const operation of running) {
        if (isStopped()) return false
        if (!(await rooms.isThereFor(operation))) {
          isMore = true
          continue
        }
        doAllWait = false
        const { acted, isOver } = await runner.page(operation)
        rooms.use(operation, acted)
        if (!isOver) isMore = true
      }
      if (isMore && doAllWait) await delay(WAIT_MS)
      return isMore
    },
  })
  deps.bulk.onBegin(() => loop.wake())
  return loop
}
