/** The tables of recurring jobs, and how the runs of entries keep what became of their jobs. */
import type { CronEntry } from '../../../job/cron/entry.ts'
import { isErased } from '../../../job/job.ts'
import type { KeptRow } from '../../../job/transitions/row.ts'
import type { CronState } from '../../writes/cron.ts'
import type { Statement } from '../connection.ts'
import type { SideTable } from './side.ts'

export interface EntryRow extends Omit<CronState, 'name' | 'queued'> {
  queued: string | null
}

export const ENTRIES: SideTable<EntryRow> = {
  name: 'cron_jobs',
  key: 'name',
  columns: {
    seq: 'bigint',
    nextRunAt: 'bigint',
    lastRunAt: 'bigint',
    lastJobId: 'text',
    runCount: 'bigint',
    queued: 'text',
    isEnabled: 'boolean',
    expression: 'text',
    timezone: 'text',
    overlap: 'text',
    createdAt: 'bigint',
    description: 'text',
  },
}

/** JSON texts, and the queues that they name. */
export const TEMPLATES: SideTable<{ template: string; queue: string }> = {
  name: 'cron_templates',
  key: 'name',
  columns: { template: 'text', queue: 'text' },
}

export function toState(name: string, { queued, ...row }: EntryRow): CronState {
  return { name, ...row, queued: queued === null ? [] : (JSON.parse(queued) as number[]) }
}

export function toRow({ name: _, queued, ...state }: CronState): EntryRow {
  return { ...state, queued: queued.length === 0 ? null : JSON.stringify(queued) }
}

export function toEntry(state: CronState, template: string): CronEntry {
  return { ...state, template: JSON.parse(template) as CronEntry['template'] }
}

/** True for an ended job of an entry whose row is about to go. */
export function endsRun(before: KeptRow, after: KeptRow | null): boolean {
  if (before.cronEntry === null || before.endedAt === null || isErased(before.state)) return false
  return after === null || isErased(after.state)
}

/** Keeps how these jobs ended. */
export function endRuns(schema: string, rows: readonly KeptRow[]): Statement[] {
  if (rows.length === 0) return []
  const text = `UPDATE ${schema}.cron_runs r
    SET state = n.state, started_at = n.started_at, ended_at = n.ended_at
    FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[])
      AS n (job_id, state, started_at, ended_at) WHERE r.job_id = n.job_id`
  const values = [
    rows.map(({ id }) => id),
    rows.map(({ state }) => state),
    rows.map(({ startedAt }) => startedAt),
    rows.map(({ endedAt }) => endedAt),
  ]
  return [{ text, values }]
}
