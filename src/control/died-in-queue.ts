import type { ControlMessage, ControlVerdict, DeadLetter } from '../broker/broker.ts'
import type { Deps } from '../operations/deps.ts'
import type { ControlObserver } from '../telemetry/control-metrics.ts'
import { LineBudget } from '../telemetry/line-budget.ts'
import { isWorthHearingLate, typeLabel } from './messages.ts'

export interface DeadControlDeps {
  deps: Pick<Deps, 'clock' | 'logger'>
  observer: Pick<ControlObserver, 'died'>
  /** The door itself: what died is handled as if it had come. */
  onControl(message: ControlMessage): Promise<ControlVerdict>
}

/**
 * Control messages that a limit has taken out of their queue before we had them, such as a policy with
 * a `message-ttl` while no gateway ran. Their workers have the confirm, and have acknowledged the jobs:
 * nobody would ever say it again. They come in the order in which they died, after what is still in
 * their queue: of reports only those of ends count in any order (`messages.ts`). What the door itself
 * has refused (`rejected`) was counted there. Rejects where the message should come again: the ledger
 * cannot be written now.
 */
export function deadControlDoor({ deps, observer, onControl }: DeadControlDeps) {
  const lines = new LineBudget((suppressed) =>
    deps.logger.warn({ suppressed }, 'more control messages died in their queues'),
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
      'a control message died in its queue: control queues must have no limits',
    )
  }
}

/** Without the address of an asker: no answer is waited for any more. */
function messageOf({ queue, message }: DeadLetter): ControlMessage {
  const { type = '' } = message.properties
  const asker = { replyTo: null, correlationId: null }
  return { queue, type, content: message.content, redelivered: false, isLate: true, ...asker }
}
