/** Times that a cron entry missed while no gateway ran: counted, and told in one event. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { CronEntry } from '../../job/cron/entry.ts'
import type { Schedule, Tick } from '../../job/cron/times.ts'
import type { CronFacts } from '../../telemetry/events.ts'
import type { Deps } from '../deps.ts'
import { cronFacts, nextOf, tellGap } from './cron-job.ts'

/** Missed times of an entry are counted one by one up to this: of some years there may be millions. */
const MAX_MISSED = 100

/** Times of an entry from `first` to `until` (wall time, ms) that have passed and get no job. */
export interface Missed {
  cron: CronFacts
  schedule: Schedule
  first: Tick
  until: number
}

/** Without the entry's template, which may be large: after an outage every entry has missed some times. */
export function missedSince(entry: CronEntry, first: Tick, until: number): Missed {
  const { expression, timezone } = entry
  return { cron: cronFacts(entry), schedule: { expression, timezone }, first, until }
}

/** Emits one event for each of these. Lets other work run in between, as each may take a millisecond. */
export async function tellMissed(deps: Deps, untold: readonly Missed[]): Promise<void> {
  for (const missed of untold) {
    await nextTurn()
    tellOf(deps, missed)
  }
}

function tellOf(deps: Deps, { cron, schedule, first, until }: Missed): void {
  const named = { ...schedule, name: cron.name }
  let count = 0
  let missed: Tick | null = first
  while (missed !== null && missed.at <= until && count < MAX_MISSED) {
    tellGap(deps, cron, missed)
    count++
    missed = nextOf(deps, named, missed.at)
  }
  const hasMore = missed !== null && missed.at <= until
  const what = { reason: 'missed', count, hasMore } as const
  deps.events.emit({ type: 'cron.skipped', cron, scheduledAt: first.at, ...what })
}
