/** What is recorded of jobs beside their rows: their history, their progress, their checkpoints. */
import { readHistory } from '../../../job/history/changes.ts'
import { type Checkpoint, isErased } from '../../../job/job.ts'
import type { ProgressNote } from '../../../job/progress.ts'
import type { HistoryLedger } from '../../history.ts'
import type { CheckpointLedger, ProgressLedger } from '../../progress.ts'
import type { CheckpointReads, HistoryReads, ProgressReads } from '../../reads.ts'
import { jobsOf, ROW, TEXTS } from '../group/columns.ts'
import type { Groups } from '../group/groups.ts'
import type { Memory } from '../group/memory.ts'
import { CHECKPOINTS, PROGRESS } from '../group/notes.ts'
import { type SideTable, selectSide, wanted } from '../group/side.ts'
import type { Reader } from '../reader.ts'
import { clearHistory } from '../writes/history.ts'
import { remove, report, save } from '../writes/notes.ts'

export function historyLedger(groups: Groups): HistoryLedger {
  return {
    clear: (id) => groups.write({ wants: { ids: [id] }, run: (draft) => clearHistory(draft, id) }),
  }
}

export function progressLedger(groups: Groups): ProgressLedger {
  return {
    report: (id, fence, said) => {
      const sides = [wanted(PROGRESS, [id])]
      if (said.checkpoint !== null) sides.push(wanted(CHECKPOINTS, [id]))
      const wants = { short: [id], sides }
      return groups.write({ wants, run: (draft) => report(draft, id, fence, said) })
    },
  }
}

export function checkpointLedger(groups: Groups): CheckpointLedger {
  return {
    save: (id, fence, checkpoint) => {
      const wants = { short: [id], sides: [wanted(CHECKPOINTS, [id])] }
      return groups.write({ wants, run: (draft) => save(draft, id, fence, checkpoint) })
    },
    remove: (id) => {
      const wants = { short: [id], sides: [wanted(CHECKPOINTS, [id])] }
      return groups.write({ wants, run: (draft) => remove(draft, id) })
    },
  }
}

type NoteReads = { history: HistoryReads; progress: ProgressReads; checkpoints: CheckpointReads }

export function noteReads(schema: string, reader: Reader, memory: Memory): NoteReads {
  /** Most ledgers have none of them, and are not asked. */
  const find = async <T extends object>(table: SideTable<T>, id: string): Promise<T | null> => {
    if (!memory.usedSides.has(table.name)) return null
    const text = `${selectSide(schema, table)} WHERE ${table.key} = $1`
    const [row] = await reader.rows(text, [id])
    if (row === undefined) return null
    const { sideKey: _, ...found } = row
    return found as T
  }
  return {
    history: {
      find: async (id) => {
        const text = `SELECT ${ROW}, ${TEXTS} FROM ${schema}.jobs j
          JOIN ${schema}.job_bodies b USING (id) WHERE j.id = $1`
        const [row] = await reader.rows(text, [id])
        if (row === undefined || isErased(row['state'])) return null
        const [job] = jobsOf([row])
        return job === undefined ? null : { job, ...readHistory(String(row['history'])) }
      },
    },
    progress: {
      find: (id): Promise<ProgressNote | null> => find(PROGRESS, id),
      present: async (ids) => {
        if (!memory.usedSides.has(PROGRESS.name)) return new Map()
        const text = `${selectSide(schema, PROGRESS)} WHERE job_id = ANY($1::text[]) AND EXISTS (
          SELECT 1 FROM ${schema}.jobs j WHERE j.id = job_id
            AND j.generation = progress.generation AND j.attempt = progress.attempt)`
        const rows = await reader.rows(text, [ids])
        return new Map(
          rows.map(({ sideKey, ...note }) => [String(sideKey), note as unknown as ProgressNote]),
        )
      },
    },
    checkpoints: { find: (id): Promise<Checkpoint | null> => find(CHECKPOINTS, id) },
  }
}
