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
/** Counting what is owed costs a millisecond and more: worth it for a tenth of that only. */
const LEAST_ROOM = 0.1
const WAIT_MS = 25

/** How many jobs may still owe their messages; counted anew when that is used up. */
class Room {
  readonly #ledger: Deps['ledger']
  readonly #maxOwed: number
  #left = 0

  constructor({ ledger }: Pick<Deps, 'ledger'>, maxOwed: number) {
    this.#ledger = ledger
    this.#maxOwed = maxOwed
  }

  async isThere(): Promise<boolean> {
    if (this.#left > 0) return true
    const room = this.#maxOwed - (await this.#ledger.read.owedMessages(this.#maxOwed))
    if (room < LEAST_ROOM * this.#maxOwed) return false
    this.#left = room
    return true
  }

  use(jobs: number): void {
    this.#left -= jobs
  }
}

/** See `BulkLedger`. */
export function bulkOperations(deps: Deps, maxOwed = MAX_OWED): Loop {
  const runner = new OperationRunner(deps)
  const room = new Room(deps, maxOwed)
  const loop = new Loop({
    name: 'bulk-operations',
    everyMs: INTERVAL_MS,
    isDueAtStart: true,
    logger: deps.logger,
    runOnce: async (isStopped) => {
      let isMore = false
      const running = await deps.ledger.read.bulk.running()
      runner.keepOnly(running)
      for (const operation of running) {
        if (isStopped()) return false
        if (operation.action !== 'delete' && !(await room.isThere())) {
          await delay(WAIT_MS)
          isMore = true
          continue
        }
        const { acted, isOver } = await runner.page(operation)
        if (operation.action !== 'delete') room.use(acted)
        if (!isOver) isMore = true
      }
      return isMore
    },
  })
  deps.bulk.onBegin(() => loop.wake())
  return loop
}
