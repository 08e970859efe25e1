/** Cron entries whose newest time made no job, and why health should say so. */
import type { BrokerWarning } from '../../broker/broker.ts'
import type { CronEntry } from '../../job/cron/entry.ts'
import { timestamp } from '../../job/document.ts'
import type { Deps } from '../deps.ts'
import type { CronStop } from '../in-flight.ts'

/** Entries stop now and then; nothing may be kept for each entry that ever was. */
const MAX_STOPPED = 1_000

/** Notes why an entry makes no jobs; null: it does again, or was changed so that it may. */
export function noteStop(
  { transient: { cronStops } }: Pick<Deps, 'transient'>,
  { name }: Pick<CronEntry, 'name'>,
  stop: CronStop | null,
): void {
  cronStops.delete(name)
  if (stop === null) return
  const [oldest] = cronStops.keys()
  // Entries that were removed since are dropped in this way.
  if (cronStops.size >= MAX_STOPPED && oldest !== undefined) cronStops.delete(oldest)
  cronStops.set(name, stop)
}

/** The warnings about enabled entries that make no jobs, and will not by themselves. */
export async function stoppedCronWarnings(
  deps: Pick<Deps, 'broker' | 'ledger' | 'transient'>,
): Promise<BrokerWarning[]> {
  const warnings: BrokerWarning[] = []
  for (const [name, stop] of deps.transient.cronStops) {
    if (stop.kind === 'blocked' && !(await isGone(deps, stop))) continue
    const entry = await deps.ledger.read.cron.find(name)
    if (entry === null || !entry.isEnabled || entry.seq !== stop.seq) continue
    warnings.push(stop.kind === 'blocked' ? blocked(name, stop) : invalid(name, stop))
  }
  return warnings
}

type Stop<Kind> = CronStop & { kind: Kind }

/** True if RabbitMQ no longer has the message of an available job: any other may still end. */
async function isGone(
  { broker, ledger }: Pick<Deps, 'broker' | 'ledger'>,
  { jobId, queue }: Stop<'blocked'>,
): Promise<boolean> {
  const before = broker.driftedBefore(queue)
  const row = before === null ? null : await ledger.read.standing(jobId)
  return row?.state === 'available' && row.enqueuedAt <= (before ?? 0)
}

function blocked(cron: string, { jobId, queue }: Stop<'blocked'>): BrokerWarning {
  return {
    code: 'cron_blocked',
    message: `Cron job '${cron}' makes no job, because job '${jobId}' of queue '${queue}' is not over, and RabbitMQ has no message of it: a program acknowledged it without reporting the job. Cancel the job, or recover the queue.`,
    details: { cron, queue, job_id: jobId },
  }
}

function invalid(cron: string, { at, fault }: Stop<'invalid'>): BrokerWarning {
  const scheduledAt = timestamp(at)
  return {
    code: 'cron_invalid',
    message: `Cron job '${cron}' made no job at ${scheduledAt}, because it would be refused now: ${fault} Change the entry or its schema; this warning goes when it makes a job again.`,
    details: { cron, scheduled_at: scheduledAt },
  }
}
