/** Progress of a job as JSON, and as the events of its stream (OJS progress). */
import { timestamp } from '../../job/document.ts'
import { isTerminal, type RowState } from '../../job/job.ts'
import type { Progress } from '../../operations/lease/progress.ts'

/** `progress` is a fraction. Without a report it is null, not absent (OJS progress). */
export function progressText({ job, note }: Progress): string {
  const { id, state, attempt } = job
  const head = JSON.stringify({
    job_id: id,
    state,
    attempt,
    progress: note?.progress ?? null,
    ...(note !== null && note.message !== null && { message: note.message }),
    ...(note !== null && { updated_at: timestamp(note.updatedAt) }),
  })
  return `${head.slice(0, -1)},"data":${note?.data ?? 'null'}}`
}

/** The id of the last event in the stream of a job: who has seen it need not come again. */
export function endId(id: string): string {
  return `evt_end_${id}`
}

interface ProgressEvent {
  id?: string
  event?: string
  data: string
}

/** What a reader of the stream of one job has been told. */
export class ProgressTold {
  #last: string | null = null

  /** What is new since then. */
  next(progress: Progress): { events: ProgressEvent[]; isOver: boolean } {
    const { id, state } = progress.job
    const data = progressText(progress)
    const isOver = isTerminal(state)
    const events: ProgressEvent[] = []
    // The end says how far the job was, too: only who comes after it is told twice.
    if (isOver ? this.#last === null : this.#last !== data) events.push(...both('progress', data))
    if (isOver) events.push(...both(nameOf(state), data).map((one) => ({ id: endId(id), ...one })))
    this.#last = data
    return { events, isOver }
  }
}

/** OJS's document names the events, and OJS's admin console hears only those without a name. */
function both(event: string, data: string): ProgressEvent[] {
  return [{ event, data }, { data }]
}

function nameOf(state: RowState): string {
  return state === 'discarded' ? 'failed' : state
}
