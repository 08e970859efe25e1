/** The job of one cron tick, and the entry's next time. */
import type { CronDefinition, CronEntry } from '../../job/cron/entry.ts'
import { withTick } from '../../job/cron/entry.ts'
import { nextTick, type Schedule, type Tick } from '../../job/cron/times.ts'
import type { NewJob } from '../../job/job.ts'
import type { CronFacts } from '../../telemetry/events.ts'
import type { Deps, RequestContext } from '../deps.ts'
import { jobOf } from '../enqueue/push.ts'

/** Makes the job of one tick, without storing it. Throws `OjsError`. */
export function newCronJob(
  deps: Deps,
  entry: Pick<CronEntry, 'name' | 'template'>,
  tick: number,
  context: RequestContext,
): NewJob {
  return jobOf(deps, withTick(entry, tick), context)
}

/** The part of an entry that events carry. */
export function cronFacts({ name, expression, template }: CronDefinition): CronFacts {
  const queue = template.options?.queue ?? template.queue ?? 'default'
  return { name, expression, jobType: template.type, queue }
}

/** Returns null also when this machine no longer knows the time zone: one entry must not stop the others. */
export function nextOf(
  deps: Pick<Deps, 'logger'>,
  { name, ...schedule }: Schedule & { name: string },
  instant: number,
): Tick | null {
  try {
    return nextTick(schedule, instant)
  } catch (error) {
    deps.logger.error({ err: error, cron: name }, 'cron job: the next time cannot be calculated')
    return null
  }
}

/** Emits one `cron.skipped` for the times that waited when their entry was removed or disabled, if there are any. */
export function tellDropped(deps: Pick<Deps, 'events'>, { queued, ...entry }: CronEntry): void {
  const [scheduledAt] = queued
  if (scheduledAt === undefined) return
  const what = { reason: 'dropped', count: queued.length, hasMore: false } as const
  deps.events.emit({ type: 'cron.skipped', cron: cronFacts(entry), scheduledAt, ...what })
}

/** Emits `cron.skipped` for a time that the clocks leap over before `next`; no tick of its own would. */
export function tellGap(deps: Pick<Deps, 'events'>, cron: CronFacts, next: Tick | null): void {
  if (next === null || next.gapAt === null) return
  deps.events.emit({ type: 'cron.skipped', cron, scheduledAt: next.gapAt, reason: 'dst_skip' })
}
