/** Maintenance mode: no new work is accepted, everything else goes on. */
import type { BrokerWarning } from '../broker/broker.ts'
import { invalidField, OjsError } from '../errors.ts'
import { timestamp } from '../job/document.ts'
import { durationMsOf } from '../job/values/duration.ts'
import type { Maintenance } from '../ledger/maintenance.ts'
import { type MaintenanceRequest, parseMaintenance } from '../schemas/requests/admin.ts'
import type { Deps, RequestContext } from './deps.ts'

/** What `Retry-After` says if nobody knows when the maintenance ends, and the most that it says. */
const UNKNOWN_WAIT_S = 30
const MAX_WAIT_S = 3_600

/** Null: there is none. */
export function currentMaintenance({ ledger }: Pick<Deps, 'ledger'>): Maintenance | null {
  return ledger.known.maintenance.current()
}

export function isInMaintenance(deps: Pick<Deps, 'ledger'>): boolean {
  return currentMaintenance(deps) !== null
}

/** Throws 503 with `Retry-After` during maintenance. On the hot path. */
export function requireNoMaintenance(deps: Pick<Deps, 'ledger' | 'clock'>): void {
  const maintenance = deps.ledger.known.maintenance.current()
  if (maintenance !== null) throw refusal(maintenance, deps.clock.wall())
}

function refusal({ reason, endsAt }: Maintenance, wall: number): OjsError {
  const leftS = endsAt === null ? UNKNOWN_WAIT_S : Math.ceil((endsAt - wall) / 1000)
  const because = reason === null ? '' : `: ${reason}`
  return new OjsError('backend_error', `Maintenance: no new jobs are accepted now${because}.`, {
    status: 503,
    details: {
      reason: 'maintenance',
      ...(reason !== null && { maintenance_reason: reason }),
      ...(endsAt !== null && { ends_at: timestamp(endsAt) }),
    },
    retryAfterSeconds: Math.min(Math.max(leftS, 1), MAX_WAIT_S),
  })
}

/**
 * Begins or ends maintenance mode (OJS admin API §14): PUSH, batches, workflows and runs of cron jobs wait
 * for its end, while workers go on. It survives a restart, and never ends by itself. Returns what holds from
 * now on. Throws 400, 503.
 */
export async function setMaintenance(
  deps: Deps,
  body: unknown,
  context: RequestContext,
): Promise<Maintenance | null> {
  const request = parseMaintenance(body)
  const { requestId, principal } = context
  if (!request.enabled) {
    const ended = await deps.ledger.maintenance.end()
    if (ended === null) return null
    deps.logger.info({ ...ended, requestId, principal }, 'maintenance ended')
    deps.events.emit({ type: 'system.maintenance.ended', reason: ended.reason, requestId })
    return null
  }
  const startedAt = deps.clock.wall()
  const durationMs = durationOf(request)
  const { maintenance, isNew } = await deps.ledger.maintenance.begin({
    startedAt,
    endsAt: durationMs === null ? null : startedAt + durationMs,
    reason: request.reason || null,
  })
  const what = isNew ? 'maintenance began' : 'maintenance changed'
  deps.logger.info({ ...maintenance, requestId, principal }, what)
  const { reason } = maintenance
  if (isNew) deps.events.emit({ type: 'system.maintenance.started', reason, requestId })
  return maintenance
}

/** The member is `estimated_duration` in OJS's document, and `duration` in OJS's own admin pages. */
function durationOf(request: MaintenanceRequest): number | null {
  const { estimated_duration: named, duration: other } = request
  if (named != null && other != null && named !== other) {
    throw invalidField('duration', "'duration' and 'estimated_duration' differ.")
  }
  const field = named == null ? 'duration' : 'estimated_duration'
  const given = named ?? other
  return given == null ? null : durationMsOf(given, field)
}

/** For health: that there is maintenance, and whether it was to be over by now. */
export function maintenanceWarnings({
  ledger,
  clock,
}: Pick<Deps, 'ledger' | 'clock'>): BrokerWarning[] {
  const maintenance = ledger.known.maintenance.current()
  if (maintenance === null) return []
  const { startedAt, endsAt, reason } = maintenance
  const since = timestamp(startedAt)
  const isLate = endsAt !== null && endsAt < clock.wall()
  const message =
    `Maintenance since ${since}: no new jobs are accepted.` +
    (isLate ? ` It was to be over at ${timestamp(endsAt)}, and does not end by itself.` : '')
  return [{ code: 'maintenance', message, details: { started_at: since, reason } }]
}
