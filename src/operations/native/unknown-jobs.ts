/** Reported failures of jobs that the ledger lacks are kept in the dead letter queue. */
import type { PublishOutcome, Unusable } from '../../broker/broker.ts'
import { publishRefusal } from '../../broker/broker-errors.ts'
import { messageOf } from '../../errors.ts'
import type { ReportedEvent } from '../../job/native/report.ts'
import type { Deps, RequestContext } from '../deps.ts'

/**
 * True when the worker acknowledges the job message of a failed job and leaves what follows to the gateway,
 * but the ledger does not have the job.
 */
export async function isLeftToUs(
  deps: Deps,
  { id, ofQueue, said, isStandIn }: ReportedEvent,
): Promise<boolean> {
  if (isStandIn || said.event !== 'failed' || said.outcome?.decision === 'discard') return false
  if (said.outcome?.rung_ms != null || (await deps.ledger.read.standing(id)) !== null) return false
  // A tombstoned job was cancelled before the ledger knew it: it must not be kept.
  return !(await deps.ledger.read.isTombstoned(id, ofQueue))
}

/**
 * Keeps a job that came with a report and cannot be adopted in the dead letter queue, as malformed job
 * messages are; without such a queue only the log names it. Rejects as `keep` does.
 */
export async function keepUnknown(deps: Deps, event: ReportedEvent): Promise<Kept> {
  const { id, shown } = event
  const unusable = shown && {
    id,
    queue: shown.queue,
    content: Buffer.from(JSON.stringify(shown.body)),
  }
  return await keep(deps, { id, ...whyNotAdopted(event) }, unusable)
}

/** A job that cannot be adopted, and what became of it. */
export interface Kept {
  id: string
  problem?: string
  /** Of its publish to the dead letter queue; absent: nobody has it. */
  outcome?: PublishOutcome
}

/**
 * Publishes `unusable` to the dead letter queue. Rejects (503) while RabbitMQ takes no
 * publishes: the report must be delivered again, as nobody else has the job.
 */
export async function keep(
  deps: Deps,
  about: { id: string; problem?: string },
  unusable: Unusable | undefined,
): Promise<Kept> {
  const outcome = unusable && (await deps.broker.publishUnusable(unusable))
  if (unusable && isForLater(deps, outcome)) throw publishRefusal(unusable.queue, outcome)
  return { ...about, ...(outcome && { outcome }) }
}

/** Logs what became of the jobs of one report: the first of those that are kept, and of the others. */
export function logKept(
  { logger }: Pick<Deps, 'logger'>,
  all: readonly Kept[],
  { requestId }: RequestContext,
): void {
  const tell = (some: Kept[], message: string) => {
    const [first] = some
    if (first === undefined) return
    const { id: jobId, ...why } = first
    const others = some.length > 1 ? { count: some.length } : {}
    logger.warn({ jobId, requestId, ...why, ...others }, message)
  }
  tell(
    all.filter(({ outcome }) => outcome === 'confirmed'),
    'unknown job failed and cannot be adopted: it is in the dead letter queue',
  )
  tell(
    all.filter(({ outcome }) => outcome !== 'confirmed'),
    'unknown job failed: it is neither adopted nor known to be in the dead letter queue',
  )
}

/**
 * True when the message was surely not published, or the connection was lost: it has to be sent again later.
 * False after a confirm timeout: RabbitMQ may have the message.
 */
export function isForLater(
  { broker }: Pick<Deps, 'broker'>,
  outcome: PublishOutcome | undefined,
): outcome is 'denied' | 'refused' | 'unknown' {
  if (outcome === 'denied' || outcome === 'refused') return true
  return outcome === 'unknown' && broker.status().state !== 'up'
}

/** Why the job that came with the report cannot be adopted; empty when none came. */
function whyNotAdopted({ adopt }: ReportedEvent): { problem?: string } {
  try {
    adopt?.()
    return {}
  } catch (error) {
    return { problem: messageOf(error) }
  }
}
