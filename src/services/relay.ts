/** Publishes what the outbox owes: at the start, after a reconnect, when woken, every 30 s. */
import type { Service } from '../lifecycle.ts'
import type { Deps } from '../operations/deps.ts'
import { tellOwedPauses } from '../operations/queues/pause.ts'
import { Loop } from './loop.ts'
import { Outbox } from './outbox.ts'

const INTERVAL_MS = 30_000
/** How long until the next look, if another part of the gateway was just sending an owed message. */
const AGAIN_MS = 1_000

export interface Relay extends Service {
  /** Looks for messages owed since the last look. `all`: for all of them, also those that failed before. */
  wake(what?: 'all'): void
  /** Queues for which RabbitMQ takes none of the owed messages, and for how long, in ms. */
  stuck(): ReadonlyMap<string, number>
}

/**
 * Publishes the messages that the outbox owes (docs/architecture.md, law 3): at start, when the publish
 * connection comes back or unblocks, when `wake` is called, every 30 s, and a second after it skipped a
 * message because another part of the gateway was sending it. Never publishes for a job id that this process
 * has in flight. Each pass also tells native workers of pauses that they have not heard of.
 *
 * Each queue has a line of its own (`QueueSender`), so that no queue waits for another: not for one with ten
 * thousand due jobs, and not for one that is full, gone or does not answer.
 */
export function relay(deps: Deps): Relay {
  let again: NodeJS.Timeout | undefined
  const lookAgain = () => {
    clearTimeout(again)
    again = setTimeout(() => loop.wake(), AGAIN_MS).unref()
  }
  let isTelling = false
  const tellPauses = () => {
    if (isTelling) return
    isTelling = true
    // Not awaited: a worker's queue that does not confirm the broadcast must not hold up job messages.
    void tellOwedPauses(deps).finally(() => {
      isTelling = false
    })
  }
  const outbox = new Outbox(deps, { everyMs: INTERVAL_MS, onRoom: () => loop.wake() })
  const loop = new Loop({
    name: 'relay',
    everyMs: INTERVAL_MS,
    isDueAtStart: true,
    logger: deps.logger,
    runOnce: async (isStopped) => {
      tellPauses()
      await outbox.look(isStopped)
      if (outbox.hasPassed && deps.broker.status().state === 'up') lookAgain()
      return false
    },
  })
  return {
    name: loop.name,
    start: () => loop.start(),
    stop: async (deadline) => {
      await loop.stop(deadline)
      clearTimeout(again)
      await outbox.stop(deadline)
    },
    wake: (what) => {
      if (what === 'all') outbox.forgive()
      loop.wake()
    },
    stuck: () => outbox.stuck(),
  }
}
