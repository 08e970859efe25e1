/** Progress and checkpoints: noted in the write that extends the lease of their job. */
import { type Checkpoint, isErased, isTerminal, type JobRow, standingOf } from '../../../job/job.ts'
import { noted } from '../../../job/progress.ts'
import { extended } from '../../../job/transitions/lease.ts'
import type { KeptRow } from '../../../job/transitions/row.ts'
import type { ExtendedLease } from '../../leases.ts'
import type {
  CheckpointLedger,
  NoteFence,
  NotNoted,
  ProgressLedger,
  Reported,
  Saved,
} from '../../progress.ts'
import type { Draft } from '../group/draft.ts'
import { CHECKPOINTS, PROGRESS } from '../group/notes.ts'
import { leaseOf } from './leases.ts'

type Report = Parameters<ProgressLedger['report']>[2]
type SaveFence = Parameters<CheckpointLedger['save']>[1]

/** See `ProgressLedger.report`. */
export function report(
  draft: Draft,
  id: string,
  fence: NoteFence,
  { now, checkpoint, ...said }: Report,
): Reported {
  const row = jobOf(draft, id, fence)
  if ('outcome' in row) return row
  const job = standingOf(row)
  const lease = extend(draft, row, fence, now)
  if (lease === null) return { outcome: 'stale', job }
  const { note, isTold } = noted(draft.side(PROGRESS, id), row, said, now)
  draft.putSide(PROGRESS, id, note)
  const saved = checkpoint === null ? null : put(draft, id, now, checkpoint)
  return { outcome: 'noted', job, note, lease, isTold, checkpoint: saved }
}

/** See `CheckpointLedger.save`. */
export function save(
  draft: Draft,
  id: string,
  fence: SaveFence,
  { now, state }: { now: number; state: string },
): Saved {
  const row = jobOf(draft, id, fence)
  if ('outcome' in row) return row
  const lease = extend(draft, row, fence, now)
  const isWaiting = fence.waitingToo && row.state !== 'active' && !isTerminal(row.state)
  if (lease === null && !isWaiting) return { outcome: 'stale', job: standingOf(row) }
  return { outcome: 'saved', checkpoint: put(draft, id, now, state), lease }
}

/** See `CheckpointLedger.remove`. */
export function remove(draft: Draft, id: string): boolean {
  const isThere = draft.side(CHECKPOINTS, id) !== null
  if (isThere) draft.putSide(CHECKPOINTS, id, null)
  return isThere
}

/** The job of an attempt that begins, with its checkpoint if it has one. */
export function resumed(draft: Draft, job: JobRow): JobRow {
  const checkpoint = draft.side(CHECKPOINTS, job.id)
  return checkpoint === null ? job : { ...job, checkpoint }
}

function put(draft: Draft, id: string, now: number, state: string): Checkpoint {
  const { sequence } = draft.side(CHECKPOINTS, id) ?? { sequence: 0 }
  const checkpoint = { state, sequence: sequence + 1, createdAt: now }
  draft.putSide(CHECKPOINTS, id, checkpoint)
  return checkpoint
}

function jobOf(draft: Draft, id: string, { ofQueue }: NoteFence): KeptRow | NotNoted {
  const row = draft.row(id)
  if (row === null || isErased(row.state)) return { outcome: 'unknown' }
  return ofQueue !== null && row.queue !== ofQueue ? { outcome: 'elsewhere' } : row
}

/** Null: the job is not active, or the fence does not match. */
function extend(draft: Draft, row: KeptRow, fence: NoteFence, now: number): ExtendedLease | null {
  const change = extended(row, { ...fence, now, leaseMs: null })
  return change && leaseOf(draft.change(row, change))
}
