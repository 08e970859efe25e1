import type { Unusable } from '../broker/broker.ts'
import type { ReportedEvent } from '../job/report.ts'
import type { Deps, RequestContext } from './deps.ts'

/** Its worker acknowledges the token and leaves the rest to us, who do not have the job. */
export function isLeftToUs(deps: Deps, { id, said }: ReportedEvent): boolean {
  if (said.event !== 'failed' || said.outcome?.decision === 'discard') return false
  if (said.outcome?.rung_ms != null || deps.ledger.find(id) !== null) return false
  // Cancelled before anybody here knew it: nobody wants it back.
  return !deps.ledger.isTombstoned(id)
}

/**
 * A job that came along and cannot be adopted goes where malformed tokens go. Not so without its
 * dead letter queue, or while RabbitMQ is away: then only the log tells of it.
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

/** In the dead letter queue, or at least in the log. */
export async function keep(
  deps: Deps,
  { id, ...why }: { id: string; problem?: string },
  unusable: Unusable | undefined,
  { requestId }: RequestContext,
): Promise<void> {
  const outcome = unusable && (await deps.broker.publishUnusable(unusable))
  deps.logger.warn(
    { jobId: id, requestId, ...why, ...(outcome && { outcome }) },
    outcome === 'confirmed'
      ? 'a failed job that cannot be adopted is in the dead letter queue'
      : 'a retry of a job that nobody knows was left to us',
  )
}

/** What is wrong with the job that came along, if one did. */
function whyNotAdopted({ adopt }: ReportedEvent): { problem?: string } {
  try {
    adopt?.()
    return {}
  } catch (error) {
    return { problem: error instanceof Error ? error.message : String(error) }
  }
}
