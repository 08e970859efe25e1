import type { ControlMessage } from '../broker/broker.ts'
import type { Deps } from '../operations/deps.ts'
import type { MalformedReason } from '../telemetry/control-metrics.ts'
import { LineBudget } from '../telemetry/line-budget.ts'

const MAX_TYPE = 100

/** Log lines about malformed messages, ten in ten seconds; who sends a million gets no more. */
export class Complaints {
  readonly #deps: Pick<Deps, 'clock' | 'logger'>
  readonly #budget = new LineBudget()

  constructor(deps: Pick<Deps, 'clock' | 'logger'>) {
    this.#deps = deps
  }

  malformed(
    { queue, type }: ControlMessage,
    reason: MalformedReason,
    cause: unknown,
    requestId: string,
  ): void {
    const suppressed = this.#budget.take(this.#deps.clock.now())
    if (suppressed === undefined) return
    const fields = { queue, type: type.slice(0, MAX_TYPE), reason, requestId }
    const problem = cause instanceof Error ? { problem: cause.message } : {}
    this.#deps.logger.warn({ ...fields, ...problem, ...suppressed }, 'malformed control message')
  }
}
