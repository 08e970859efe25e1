import type { ControlMessage } from '../broker/broker.ts'
import type { Deps } from '../operations/deps.ts'
import type { MalformedReason } from '../telemetry/control-metrics.ts'

const WINDOW_MS = 10_000
const MAX_LINES = 10
const MAX_TYPE = 100

/** Log lines about malformed messages, ten in ten seconds; who sends a million gets no more. */
export class Complaints {
  readonly #deps: Pick<Deps, 'clock' | 'logger'>
  #since = Number.NEGATIVE_INFINITY
  #lines = 0
  #suppressed = 0

  constructor(deps: Pick<Deps, 'clock' | 'logger'>) {
    this.#deps = deps
  }

  malformed(
    { queue, type }: ControlMessage,
    reason: MalformedReason,
    cause: unknown,
    requestId: string,
  ): void {
    const now = this.#deps.clock.now()
    if (now - this.#since > WINDOW_MS) {
      this.#since = now
      this.#lines = 0
    }
    this.#lines += 1
    if (this.#lines > MAX_LINES) {
      this.#suppressed += 1
      return
    }
    const fields = { queue, type: type.slice(0, MAX_TYPE), reason, requestId }
    const problem = cause instanceof Error ? { problem: cause.message } : {}
    const suppressed = this.#suppressed === 0 ? {} : { suppressed: this.#suppressed }
    this.#suppressed = 0
    this.#deps.logger.warn({ ...fields, ...problem, ...suppressed }, 'malformed control message')
  }
}
