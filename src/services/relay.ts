import { setImmediate as nextTurn } from 'node:timers/promises'
import type { JobRow } from '../job/job.ts'
import type { Deps } from '../operations/deps.ts'
import { tellOwedPauses } from '../operations/pause.ts'
import { sendToken } from '../operations/send-token.ts'
import { Loop } from './loop.ts'

const INTERVAL_MS = 30_000
const PAGE = 500
const PARALLEL = 64

interface RelaySummary {
  published: number
  failed: number
}

/**
 * Publishes what the outbox still owes (law 3): at start, when the publish connection comes back
 * or unblocks, when something wakes it, and every 30 s. Never an id that this process has in
 * flight. So it is with pauses that native workers have not heard of.
 */
export function relay(deps: Deps): Loop {
  return new Loop({
    name: 'relay',
    everyMs: INTERVAL_MS,
    isDueAtStart: true,
    logger: deps.logger,
    runOnce: async (isStopped) => {
      const summary = await relayAll(deps, isStopped)
      if (summary.published + summary.failed > 0) deps.logger.info(summary, 'outbox relayed')
      await tellOwedPauses(deps)
      return false
    },
  })
}

/** One walk over the outbox, oldest nonce first, as long as the broker takes publishes. */
async function relayAll(deps: Deps, isStopped: () => boolean): Promise<RelaySummary> {
  const summary = { published: 0, failed: 0 }
  let after = 0
  while (!isStopped() && deps.broker.status().state === 'up') {
    // Of what was committed a moment ago, each caller now has its own token in hand (`sending`).
    // What wakes the relay is often in that very commit: it would publish first, and the PUSH whose
    // token it was would be refused, withdrawn and answered 503 while the job runs.
    await nextTurn()
    const page = deps.ledger.outboxPage(after, PAGE)
    const last = page.at(-1)
    if (last === undefined) break
    after = last.outbox ?? after
    await relayPage(deps, page, isStopped, summary)
  }
  return summary
}

async function relayPage(
  deps: Deps,
  page: readonly JobRow[],
  isStopped: () => boolean,
  summary: RelaySummary,
): Promise<void> {
  // Those in flight while the page was read: their confirm may come before their turn does.
  const owed = page.filter((row) => isOwedNow(row) && !deps.sending.has(row.id))
  const next = owed[Symbol.iterator]()
  const lane = async () => {
    for (const { id, outbox } of next) {
      if (isStopped()) return
      const row = deps.ledger.find(id)
      // It has moved on since the page was read, or somebody is sending it.
      if (row === null || row.outbox !== outbox || !isOwedNow(row)) continue
      if (deps.sending.has(id)) continue
      const { outcome } = await sendToken(deps, row)
      if (outcome === 'confirmed') summary.published++
      else summary.failed++
    }
  }
  await Promise.all(Array.from({ length: PARALLEL }, lane))
}

/**
 * To where the row points now: a job to its queue, a discarded one to the dead letter exchange, the
 * word of a cancelled one to the workers. A
 * retry whose rung never confirmed is held by the ledger until it is due, and goes to the queue.
 */
function isOwedNow({ state }: JobRow): boolean {
  return state === 'available' || state === 'discarded' || state === 'cancelled'
}
