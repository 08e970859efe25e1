/** Events as server-sent events: in the words of OJS realtime, and in those of `GET /events`. */
import { timestamp } from '../../job/document.ts'
import type { FollowedEvent } from '../../telemetry/event-ring.ts'

/** What a stream is about. */
export interface StreamFilter {
  /** Its name in events about the stream itself: `all`, `job:…`, `queue:…`. */
  channel: string
  isMeant(event: Pick<FollowedEvent, 'jobId' | 'queue'>): boolean
  /** Names of events, or beginnings that end in `*`; empty: those of the form. */
  types: ReadonlySet<string>
  /** `realtime`: changes of state and what has no change; `all`: every event of `GET /events`. */
  form: 'realtime' | 'all'
  /** After this event the stream ends. */
  isLast?(event: FollowedEvent): boolean
}

interface Rendered {
  id?: string
  event: string
  data: object
}

/** The events to write for one of the ring: none, or itself, or the change of state that it tells of, or both. */
export function rendered(event: FollowedEvent, { types, form }: StreamFilter): Rendered[] {
  const { id, type } = event.recorded
  const isChange = event.moved !== null
  const isWanted = (name: string, isUsual: boolean) =>
    types.size === 0 ? isUsual : [...types].some((pattern) => matches(pattern, name))
  const events: Rendered[] = []
  if (isWanted('job.state_changed', form === 'realtime') && isChange) {
    events.push({ id, event: 'job.state_changed', data: changeOf(event) })
  }
  // In the form of OJS realtime, a failed attempt is told by the change that follows it.
  const isUsual = form === 'all' || REALTIME.has(type)
  if (isWanted(type, isUsual)) events.push({ id, event: type, data: flat(event) })
  return events
}

const REALTIME: ReadonlySet<string> = new Set([
  'job.progress',
  'job.heartbeat',
  'queue.paused',
  'queue.resumed',
])

function matches(pattern: string, name: string): boolean {
  return pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : pattern === name
}

type Changed = Omit<FollowedEvent, 'recorded'> & {
  recorded: Pick<FollowedEvent['recorded'], 'time' | 'data'>
}

/** OJS realtime: `type` is the type of the job here. */
export function changeOf({ recorded, jobId, queue, moved }: Changed): object {
  const { job_type: type, attempt, worker_id: workerId } = recorded.data
  return {
    event: 'job.state_changed',
    job_id: jobId,
    queue,
    type,
    from: moved?.from ?? null,
    to: moved?.to,
    timestamp: recorded.time,
    attempt,
    ...(workerId !== undefined && { worker_id: workerId }),
  }
}

function flat({ recorded, jobId, queue }: FollowedEvent): object {
  const { data, type, time } = recorded
  return {
    event: type,
    ...(jobId !== null && { job_id: jobId, type: data['job_type'] }),
    ...(queue !== null && { queue }),
    timestamp: time,
    ...data,
    ...(type === 'job.progress' && progress(data)),
  }
}

/** OJS realtime counts to 100, and has the message under another name. */
function progress({
  progress_percent: percent,
  progress_message: message,
}: Record<string, unknown>) {
  return { progress: percent ?? 0, ...(message !== undefined && { message }) }
}

/** Tells a reader that events between its last one and the next are gone. */
export function dropped(channel: string, count: number): Rendered {
  const data = { channel, dropped_count: count, timestamp: timestamp(Date.now()) }
  return { event: 'system.events_dropped', data }
}

/** Tells a reader who comes again that the last event it saw is not known any more. */
export function gap(channel: string, lastId: string): Rendered {
  const now = timestamp(Date.now())
  return { event: 'system.gap', data: { channel, gap_start: timeIn(lastId) ?? now, gap_end: now } }
}

/** An id of ours is `evt_` and a UUIDv7, whose first 48 bits are its time. */
function timeIn(id: string): string | null {
  const [, high = '', low = ''] = /^evt_([0-9a-f]{8})-([0-9a-f]{4})-7/.exec(id) ?? []
  const ms = Number.parseInt(high + low, 16)
  return Number.isSafeInteger(ms) && ms < 253_402_300_800_000 ? timestamp(ms) : null
}
