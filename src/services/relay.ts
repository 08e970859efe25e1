import { once } from 'node:events'
import type { JobRow } from '../job/job.ts'
import type { Service } from '../lifecycle.ts'
import type { Deps } from '../operations/deps.ts'
import { sendToken } from '../operations/send-token.ts'

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
 * flight. One pass at a time; a wake during a pass causes one more.
 */
export class Relay implements Service {
  readonly name = 'relay'
  readonly #deps: Deps
  #timer: NodeJS.Timeout | undefined
  #pass: Promise<void> | undefined
  #again = false
  #stopped = true

  constructor(deps: Deps) {
    this.#deps = deps
  }

  async start(): Promise<void> {
    if (!this.#stopped) return
    this.#stopped = false
    this.#timer = setInterval(() => this.wake(), INTERVAL_MS)
    this.#timer.unref()
    this.wake()
  }

  async stop(deadline: AbortSignal): Promise<void> {
    this.#stopped = true
    clearInterval(this.#timer)
    if (this.#pass === undefined || deadline.aborted) return
    await Promise.race([this.#pass, once(deadline, 'abort')])
  }

  /** Single flight; cheap to call often. */
  wake(): void {
    if (this.#stopped) return
    if (this.#pass !== undefined) {
      this.#again = true
      return
    }
    this.#pass = this.#run().finally(() => {
      this.#pass = undefined
      if (this.#again) {
        this.#again = false
        this.wake()
      }
    })
  }

  async #run(): Promise<void> {
    try {
      const summary = await relayOnce(this.#deps, () => this.#stopped)
      if (summary.published + summary.failed > 0) {
        this.#deps.logger.info(summary, 'outbox relayed')
      }
    } catch (error) {
      this.#deps.logger.error({ err: error }, 'relay failed')
    }
  }
}

/** One walk over the outbox, oldest nonce first, as long as the broker takes publishes. */
async function relayOnce(
  deps: Deps,
  isStopped: () => boolean = () => false,
): Promise<RelaySummary> {
  const summary = { published: 0, failed: 0 }
  let after = 0
  while (!isStopped() && deps.broker.status().state === 'up') {
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
 * To where the row points now: a job to its queue, a discarded one to the dead letter exchange. A
 * retry whose rung never confirmed is held by the ledger until it is due, and goes to the queue.
 */
function isOwedNow({ state }: JobRow): boolean {
  return state === 'available' || state === 'discarded'
}
