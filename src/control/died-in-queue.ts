/** Control messages that a limit took out of their queue: late reports of ends still count. */
import type { ControlMessage, ControlVerdict, DeadLetter } from '../broker/broker.ts'
import type { Deps } from '../operations/deps.ts'
import type { ControlObserver } from '../telemetry/control-metrics.ts'
import { LineBudget } from '../telemetry/line-budget.ts'
import { isWorthHearingLate, typeLabel } from './messages.ts'

export interface DeadControlDeps {
  deps: Pick<Deps, 'clock' | 'logger'>
  observer: Pick<ControlObserver, 'died'>
  /** The AMQP door, which handles dead messages as if they had just arrived. */
  onControl(message: ControlMessage): Promise<ControlVerdict>
}

/**
 * Handles control messages that a limit took out of their queue before the gateway got them, such as a policy
 * with a `message-ttl` while no gateway ran. Their workers have the confirm and have acknowledged the jobs,
 * so nobody would ever send them again.
 *
 * They arrive in the order in which they died, but after messages that are still in their queue: of reports
 * only events about ends count, which may arrive in any order (`messages.ts`). Messages that the door itself
 * refused (`rejected`) were already counted there. Rejects if RabbitMQ should deliver the message again,
 * because the ledger cannot be written now.
 */
export function deadControlDoor({ deps, observer, onControl }: DeadControlDeps) {
  const lines = new LineBudget((suppressed) =>
    deps.logger.warn({ suppressed }, 'more control messages removed from their queues by a limit'),
  )
  return async (letter: DeadLetter): Promise<void> => {
    const { queue, reason } = letter
    if (reason === 'rejected' || reason === 'unknown') return
    const message = messageOf(letter)
    const isHandled = isWorthHearingLate(message.type)
    if (isHandled) await onControl(message)
    const type = typeLabel(message.type)
    observer.died(type, reason)
    const suppressed = lines.take(deps.clock.now())
    if (suppressed === undefined) return
    deps.logger.warn(
      { queue, type, reason, isHandled, ...suppressed },
      'control message removed from its queue by a limit: control queues must have none',
    )
  }
}

/** The control message in a dead letter. Without `reply_to`: the asker no longer waits for an answer. */
function messageOf({ queue, message }: DeadLetter): ControlMessage {
  const { type = '' } = message.properties
  const asker = { replyTo: null, correlationId: null }
  return { queue, type, content: message.content, redelivered: false, isLate: true, ...asker }
}
