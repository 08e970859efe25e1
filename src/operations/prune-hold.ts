/** Holds retention back when the clock may be far ahead. */
import type { BrokerWarning } from '../broker/broker.ts'
import type { Clock } from '../clock.ts'
import type { Logger } from '../logger.ts'

/** No gateway is down for longer, or seldom; and no retention is so short by default. */
const PLAUSIBLE_MS = 7 * 86_400_000
const HOLD_MS = 3_600_000

/**
 * Keeps a gateway whose clock may be wrong from deleting what only that clock says is old. If the ledger was
 * in use the last time more than a week ago, nothing is pruned for an hour, or until an operator says so.
 */
export class PruneHold {
  readonly #clock: Pick<Clock, 'now'>
  readonly #logger: Logger
  /** When the ledger was in use the last time, and when the hold ends; null: there is none. */
  #hold: { seenAt: number; until: number } | null = null

  /** `seenAt`: clock time of an earlier process; null: the ledger is new. */
  constructor(clock: Pick<Clock, 'now'>, logger: Logger, seenAt: number | null) {
    this.#clock = clock
    this.#logger = logger
    const now = clock.now()
    if (seenAt === null || now - seenAt <= PLAUSIBLE_MS) return
    this.#hold = { seenAt, until: now + HOLD_MS }
    for (const { code, message } of this.warnings()) logger.warn({ code }, message)
  }

  get isHeld(): boolean {
    if (this.#hold !== null && this.#clock.now() >= this.#hold.until) this.release()
    return this.#hold !== null
  }

  /** False: nothing was held. */
  release(): boolean {
    if (this.#hold === null) return false
    this.#hold = null
    this.#logger.warn({}, 'ended jobs are pruned again')
    return true
  }

  warnings(): BrokerWarning[] {
    if (this.#hold === null) return []
    const { seenAt, until } = this.#hold
    const days = Math.floor((until - HOLD_MS - seenAt) / 86_400_000)
    const at = new Date(seenAt).toISOString()
    const untilAt = new Date(until).toISOString()
    const message =
      `The clock is ${days} days ahead of the ledger, which was in use last at ${at}: until ${untilAt} nothing ` +
      'is pruned. If the clock is wrong, stop the gateway, set the clock, and start it. If it is right, ' +
      'wait, or run `ojs-rabbitmq prune`.'
    return [{ code: 'clock_ahead', message, details: { ledger_used_at: at, until: untilAt } }]
  }
}
