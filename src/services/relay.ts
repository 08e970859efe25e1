import type { Service } from '../lifecycle.ts'
import type { Deps } from '../operations/deps.ts'
import { tellOwedPauses } from '../operations/pause.ts'
import { Loop } from './loop.ts'
import { Outbox } from './outbox.ts'

const INTERVAL_MS = 30_000
/** Until the next look at what somebody else had in hand. */
const AGAIN_MS = 1_000

export interface Relay extends Service {
  /** Looks for what is owed since the last look; `all`: for everything, whatever failed before. */
  wake(what?: 'all'): void
  /** Queues of which RabbitMQ takes nothing that it is owed, and for how long, in ms. */
  stuck(): ReadonlyMap<string, number>
}

/**
 * Publishes what the outbox owes (law 3): at start, when the publish connection comes back or
 * unblocks, when something wakes it, every 30 s, and a second after it has found something in
 * somebody's hand. Never an id that this process has in flight. So it is with pauses that native
 * workers have not heard of.
 *
 * Each queue has a line of its own, so that no queue waits for another: neither behind ten thousand
 * jobs that are due with its one, nor behind a queue that is full, gone or does not answer.
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
    // Not waited for: a worker's queue that does not confirm must not hold up tokens.
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
