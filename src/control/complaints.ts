/** Log lines about control messages that have no effect, a few in ten seconds at most. */
import type { ControlMessage } from '../broker/broker.ts'
import type { Refusal } from '../job/native/report.ts'
import type { Deps } from '../operations/deps.ts'
import type { Complaint } from '../schemas/requests/control.ts'
import type { MalformedReason } from '../telemetry/control-metrics.ts'
import { LineBudget } from '../telemetry/line-budget.ts'

const MAX_TYPE = 100

/** Logs malformed messages and events, and questions without a private address: at most ten lines of each kind in ten seconds, whatever arrives. */
export class Complaints {
  readonly #deps: Pick<Deps, 'clock' | 'logger'>
  readonly #ofMessages: LineBudget
  readonly #ofEvents: LineBudget
  readonly #ofAnswers: LineBudget
  readonly #ofRefusals: LineBudget

  constructor(deps: Pick<Deps, 'clock' | 'logger'>) {
    this.#deps = deps
    const more = (what: string) => (suppressed: number) => deps.logger.warn({ suppressed }, what)
    this.#ofMessages = new LineBudget(more('more malformed control messages'))
    this.#ofEvents = new LineBudget(more('more invalid events of reports left out'))
    this.#ofRefusals = new LineBudget(more('more control messages about jobs of others'))
    this.#ofAnswers = new LineBudget(more('more answers not sent to queues of others'))
  }

  malformed(
    { queue, type }: ControlMessage,
    reason: MalformedReason,
    cause: unknown,
    requestId: string,
  ): void {
    const suppressed = this.#ofMessages.take(this.#deps.clock.now())
    if (suppressed === undefined) return
    const fields = { queue, type: type.slice(0, MAX_TYPE), reason, requestId }
    const problem = cause instanceof Error ? { problem: cause.message } : {}
    this.#deps.logger.warn({ ...fields, ...problem, ...suppressed }, 'malformed control message')
  }

  /** Logs events that were left out. Their worker acknowledges the jobs and never learns of it. */
  leftOut(
    { queue, type }: ControlMessage,
    fields: Complaint & { count: number },
    requestId: string,
  ) {
    const suppressed = this.#ofEvents.take(this.#deps.clock.now())
    if (suppressed === undefined) return
    this.#deps.logger.warn(
      { queue, type, ...fields, requestId, ...suppressed },
      'invalid events of a report left out',
    )
  }

  /** Logs what a message said about jobs that it may not concern: their number, and one of them. */
  refused(
    { queue, type }: ControlMessage,
    fields: { reason: Refusal; jobId: string; count: number },
    requestId: string,
  ): void {
    const suppressed = this.#ofRefusals.take(this.#deps.clock.now())
    if (suppressed === undefined) return
    this.#deps.logger.warn(
      { queue, type, ...fields, requestId, ...suppressed },
      'control message about jobs that it may not concern (OJS_CONTROL_SCOPE, docs/reference/control-protocol.md)',
    )
  }

  /** Logs a question whose answer would have gone to a queue that is not the asker's alone. */
  notAnswered({ queue, type, replyTo }: ControlMessage): void {
    const suppressed = this.#ofAnswers.take(this.#deps.clock.now())
    if (suppressed === undefined) return
    this.#deps.logger.warn(
      { queue, type, replyTo, ...suppressed },
      'answer not sent: reply_to must be an exclusive or a server-named queue, or amq.rabbitmq.reply-to',
    )
  }
}
