/** Publishes answers to questions, and renders errors for the AMQP door. */
import type { ControlMessage } from '../broker/broker.ts'
import { errorBody, OjsError } from '../errors.ts'
import type { Deps } from '../operations/deps.ts'
import type { ControlObserver } from '../telemetry/control-metrics.ts'
import type { Complaints } from './complaints.ts'

/** Publishes an answer. One that does not arrive is only counted. Never rejects. */
export async function reply(
  deps: Pick<Deps, 'broker' | 'logger'>,
  { observer, complaints }: { observer: ControlObserver; complaints: Complaints },
  message: ControlMessage,
  body: string,
): Promise<void> {
  const { type, replyTo, correlationId } = message
  if (replyTo === null) return
  const outcome = await deps.broker.reply({ replyTo, correlationId, type, body })
  if (outcome === 'confirmed') return
  observer.replyDropped(outcome)
  if (outcome === 'not-exclusive') complaints.notAnswered(message)
  else deps.logger.debug({ type, outcome }, 'answer to a control message not delivered')
}

/** The only place where the AMQP door renders errors (seed 001 §16.1). */
export function errorAnswer(thrown: unknown, requestId: string): string {
  const error =
    thrown instanceof OjsError
      ? thrown
      : new OjsError('backend_error', 'The server failed to process the request.')
  return errorBody(error, requestId)
}
