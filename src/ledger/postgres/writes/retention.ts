/** Prunes rows whose retention time is over, in small batches. */
import { isErased, type RowState } from '../../../job/job.ts'
import { erased } from '../../../job/transitions/end.ts'
import type { KeptRow } from '../../../job/transitions/row.ts'
import type { PruneCutoffs } from '../../ledger.ts'
import type { Draft } from '../group/draft.ts'
import { wanted } from '../group/side.ts'
import { firstPage } from '../group/sizes.ts'
import { ERRORS, FEEDS, moved, nodeKeys, SOURCES, STEPS, WORKFLOWS } from '../group/workflows.ts'
import { keepKeys, pruneKeptKeys } from '../keyed/kept-keys.ts'

interface Kind {
  state: RowState
  isDeadLetter: boolean
  cutoff: keyof PruneCutoffs
}

const KINDS: readonly Kind[] = [
  { state: 'completed', isDeadLetter: false, cutoff: 'completed' },
  { state: 'cancelled', isDeadLetter: false, cutoff: 'cancelled' },
  { state: 'discarded', isDeadLetter: false, cutoff: 'discarded' },
  { state: 'discarded', isDeadLetter: true, cutoff: 'deadLetters' },
  { state: 'withdrawn', isDeadLetter: false, cutoff: 'withdrawn' },
]

/** How many of the oldest dead letters of a queue one batch looks at. */
const MAX_LOOKED_AT = 2_000
/** Workflows of one batch at most. */
const MAX_WORKFLOWS = 100

/** Prunes one batch of rows whose retention time is over. Returns how many rows it changed. */
export function pruneBatch(
  draft: Draft,
  schema: string,
  cutoffs: PruneCutoffs,
  { now, limit }: { now: number; limit: number },
): number {
  let left = limit
  for (const { state, isDeadLetter, cutoff } of KINDS) {
    if (left === 0) break
    const text = `SELECT j.id, ${policyBytes(schema)} AS bytes FROM ${schema}.jobs j WHERE ended_at IS NOT NULL
      AND NOT message_out AND step IS NULL AND state = $1 AND is_dead_letter = $2 AND ended_at < $3
      ORDER BY ended_at LIMIT $4`
    const found = draft.ask({ text, values: [state, isDeadLetter, cutoffs[cutoff], left] })
    const rows = draft
      .rows(firstPage(found))
      .filter((row) => row.state === state && row.isDeadLetter === isDeadLetter && !row.messageOut)
    if (!isErased(state)) keepKeys(draft, schema, rows, now)
    for (const row of rows) remove(draft, row, now)
    left -= rows.length
  }
  if (left > 0) left -= pruneTombstones(draft, schema, cutoffs.withdrawn, left)
  if (left > 0) left -= pruneKeptKeys(draft, schema, now, left)
  if (left > 0) left -= pruneWorkflows(draft, { cutoff: cutoffs.completed, now }, left)
  return limit - left
}

/** The bytes of the text that has the policy of a unique job, which is read before the row is deleted. */
function policyBytes(schema: string): string {
  const bytes = `(SELECT octet_length(b.envelope) FROM ${schema}.job_bodies b WHERE b.id = j.id)`
  return `CASE WHEN j.unique_key IS NULL THEN 0 ELSE ${bytes} END`
}

function pruneTombstones(draft: Draft, schema: string, before: number, limit: number): number {
  const { memory } = draft
  if (memory.tombstones === 0) return 0
  const table = `${schema}.tombstones`
  const text = `WITH done AS (DELETE FROM ${table} WHERE id IN (SELECT id FROM ${table}
      WHERE cancelled_at < $1 ORDER BY cancelled_at LIMIT $2) RETURNING 1)
    SELECT count(*) AS n FROM done`
  const gone = Number(draft.ask({ text, values: [before, limit] })[0]?.['n'])
  draft.changes.store(null, () => {
    memory.tombstones -= gone
  })
  return gone
}

/** Prunes the oldest dead letters of a queue that has more than `max`. Returns how many rows it changed. */
export function pruneDeadLetters(
  draft: Draft,
  schema: string,
  { queue, max }: { queue: string; max: number },
  { now, limit }: { now: number; limit: number },
): number {
  const surplus = (draft.memory.counts.get(queue)?.dead_letter ?? 0) - max
  if (surplus <= 0) return 0
  const text = `SELECT j.id, ${policyBytes(schema)} AS bytes FROM (
      SELECT id, unique_key, message_out, step, discarded_at FROM ${schema}.jobs
      WHERE queue = $1 AND is_dead_letter ORDER BY discarded_at LIMIT ${MAX_LOOKED_AT}) j
    WHERE NOT message_out AND step IS NULL ORDER BY discarded_at LIMIT $2`
  const found = draft.ask({ text, values: [queue, Math.min(surplus, limit)] })
  const rows = draft
    .rows(firstPage(found))
    .filter(({ isDeadLetter, messageOut }) => isDeadLetter && !messageOut)
  keepKeys(draft, schema, rows, now)
  for (const row of rows) remove(draft, row, now)
  return rows.length
}

/**
 * Deletes a row, or erases it if it is discarded: its copy in the DLX queue outlives it, and a copy that is
 * not recorded yet may appear later, so the id has to stay for a while. So it has if the job has lived before: a
 * message of that life may still come.
 */
function remove(draft: Draft, row: KeptRow, now: number): void {
  if (isErased(row.state) || (row.state !== 'discarded' && row.generation === 0)) {
    draft.remove(row)
    return
  }
  draft.change(row, erased(now))
  if (row.state === 'discarded' && row.deadLetterCopied) draft.staleCopy(row.queue)
}

/**
 * Prunes ended workflows, after which their jobs are prunable like others: all by the retention time of completed
 * jobs, so that few job rows have to wait for their workflow. The last workflow may exceed `limit`. Returns how many rows went: of workflows, and of their nodes.
 */
function pruneWorkflows(
  draft: Draft,
  { cutoff, now }: { cutoff: number; now: number },
  limit: number,
): number {
  const text = `SELECT id, nodes FROM ${draft.schema}.workflows
    WHERE ended_at IS NOT NULL AND ended_at < $1 ORDER BY ended_at, seq LIMIT $2`
  const found = draft.ask({ text, values: [cutoff, Math.min(limit, MAX_WORKFLOWS)] })
  let rows = 0
  const chosen: { id: string; keys: string[] }[] = []
  for (const { id, nodes } of found) {
    if (rows >= limit) break
    rows += 1 + Number(nodes)
    chosen.push({ id: String(id), keys: nodeKeys(String(id), Number(nodes)) })
  }
  const ids = chosen.map(({ id }) => id)
  draft.require({
    sides: [
      wanted(WORKFLOWS, ids),
      wanted(
        STEPS,
        chosen.flatMap(({ keys }) => keys),
      ),
    ],
  })
  releaseJobs(
    draft,
    chosen.flatMap(({ keys }) => keys),
    now,
  )
  for (const { id, keys } of chosen) forget(draft, id, keys)
  return rows
}

/** The jobs of these nodes are no steps any more; what `boundEnds` does for other rows, which it finds by index. */
function releaseJobs(draft: Draft, keys: readonly string[], now: number): void {
  const jobs = draft.rows(keys.flatMap((key) => draft.side(STEPS, key)?.jobId ?? []))
  for (const row of jobs) {
    const endedAt = row.endedAt && Math.min(row.endedAt, now)
    if (row.step !== null) draft.change(row, { step: null, endedAt })
  }
}

function forget(draft: Draft, id: string, keys: readonly string[]): void {
  const state = draft.side(WORKFLOWS, id)?.state
  if (state === undefined) return
  for (const key of keys) {
    for (const table of [STEPS, FEEDS, SOURCES, ERRORS] as const)
      draft.putSide<object>(table, key, null)
  }
  draft.putSide(WORKFLOWS, id, null)
  moved(draft, state, null)
}
