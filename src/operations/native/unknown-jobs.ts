import type { PublishOutcome, Unusable } from '../../broker/broker.ts'
import { publishRefusal } from '../../broker/refusals.ts'
import { messageOf } from '../../errors.ts'
import type { ReportedEvent } from '../../job/report.ts'
import type { Deps, RequestContext } from '../deps.ts'

/** Its worker acknowledges the token and leaves the rest to us, who do not have the job. */
export function isLeftToUs(deps: Deps, { id, said, isStandIn }: ReportedEvent): boolean {
  if (isStandIn || said.event !== 'failed' || said.outcome?.decision === 'discard') return false
  if (said.outcome?.rung_ms != null || deps.ledger.standing(id) !== null) return false
  // Cancelled before anybody here knew it: nobody wants it back.
  return !deps.ledger.isTombstoned(id)
}

/**
 * A job that came along and cannot be adopted goes where malformed tokens go; without its dead letter
 * queue only the log tells of it. Rejects as `keep` does.
 */
export async function keepUnknown(
  deps: Deps,
  event: ReportedEvent,
  context: RequestContext,
): Promise<void> {
  const { id, shown } = event
  const unusable = shown && {
    id,
    queue: shown.queue,
    content: Buffer.from(JSON.stringify(shown.body)),
  }
  await keep(deps, { id, ...whyNotAdopted(event) }, unusable, context)
}

/**
 * In the dead letter queue, or at least in the log. Rejects (503) while RabbitMQ takes no publishes:
 * the report has to come again, as nobody else has the job.
 */
export async function keep(
  deps: Deps,
  { id, ...why }: { id: string; problem?: string },
  unusable: Unusable | undefined,
  { requestId }: RequestContext,
): Promise<void> {
  const outcome = unusable && (await deps.broker.publishUnusable(unusable))
  if (unusable && isForLater(deps, outcome)) throw publishRefusal(unusable.queue, outcome)
  deps.logger.warn(
    { jobId: id, requestId, ...why, ...(outcome && { outcome }) },
    outcome === 'confirmed'
      ? 'a failed job that cannot be adopted is in the dead letter queue'
      : 'a retry of a job that nobody knows was left to us',
  )
}

/** Surely not published, or cut off; a publish that is not confirmed in time may be in the queue. */
export function isForLater(
  { broker }: Pick<Deps, 'broker'>,
  outcome: PublishOutcome | undefined,
): outcome is 'denied' | 'refused' | 'unknown' {
  if (outcome === 'denied' || outcome === 'refused') return true
  return outcome === 'unknown' && broker.status().state !== 'up'
}

/** What is wrong with the job that came along, if one did. */
function whyNotAdopted({ adopt }: ReportedEvent): { problem?: string } {
  try {
    adopt?.()
    return {}
  } catch (error) {
    return { problem: messageOf(error) }
  }
}
