/** The newest events in memory, for `GET /ojs/v1/events`. */
import type { Clock } from '../clock.ts'
import { timestamp } from '../job/document.ts'
import type { JobRow, RowState } from '../job/job.ts'
import { traceIdOf } from '../job/trace/traceparent.ts'
import { type ListedEvent, ownData, stateBefore } from './event-data.ts'
import {
  type CronEvent,
  isOnlyCounted,
  type JobEvent,
  type QueueEvent,
  type SystemEvent,
  type WorkerEvent,
} from './events.ts'
import { type WorkflowEvent, workflowData } from './workflow-events.ts'

/** One event in the form of OJS events; `data` also has what §10.2 and the conformance suite want. */
interface RecordedEvent {
  specversion: '1.0'
  /** `evt_<UUIDv7>`, in the order of the events; the time in it is that of the first look at them. */
  id: string
  type: string
  source: string
  time: string
  /**
   * The id of the job, workflow, worker or operation; for cron and queue events the name of the recurring job
   * or queue.
   */
  subject: string
  data: Readonly<Record<string, unknown>>
}

export interface EventQuery {
  /** Only events after this one; null: from the oldest event that is kept. */
  after: string | null
  /** Empty: all types. */
  types: ReadonlySet<string>
  queues: ReadonlySet<string>
  limit: number
}

export interface EventPage {
  events: readonly RecordedEvent[]
  /** The `after` of the next request; null as long as there has been no event. */
  cursor: string | null
  has_more: boolean
  /** True if events after `after` have already been dropped. */
  gap: boolean
}

/** An event with the change of state that it tells of, for readers who follow the ring. */
export interface FollowedEvent {
  recorded: RecordedEvent
  jobId: string | null
  queue: string | null
  /** Null: it tells of no change. `from` null: the job is new. */
  moved: { from: RowState | null; to: RowState } | null
}

/** What is kept of an event: little, because thousands of them stay in memory. */
interface Kept {
  /** Null until events are listed: see `#nameAll`. */
  id: string | null
  type: RecordedEvent['type']
  time: number
  /** Null: the subject is the job. */
  subject: string | null
  /** Null: the event has no job. */
  jobId: string | null
  jobType: string | null
  /** Null: a workflow has no queue. */
  queue: string | null
  /** Null: the event is not about the state of a job. */
  state: RowState | null
  /** The state before; undefined: the event tells of no change. */
  from: RowState | null | undefined
  attempt: number
  workerId: string | null
  traceparent: string | null
  /** Data that only events of this type have. */
  own: Readonly<Record<string, unknown>> | null
}

/** The newest events of this process, in memory: for looking at recent events, not a history. */
export class EventRing {
  readonly #capacity: number
  readonly #clock: Clock
  readonly #newId: () => string
  readonly #events: Kept[] = []
  /** Index of the oldest event once the ring is full. */
  #head = 0
  #newest: Kept | undefined
  /** The number of all events so far; each event is known by its number, from 0. */
  #count = 0
  /** How many of them have an id. */
  #named = 0

  constructor(capacity: number, clock: Clock, newId: () => string) {
    this.#capacity = capacity
    this.#clock = clock
    this.#newId = newId
  }

  /** A listener for `createJobEvents`. */
  readonly onJobEvent = (event: JobEvent): void => {
    if (event.type === 'message.malformed' || event.type === 'job.staged') return
    if (isOnlyCounted(event)) return
    const kept = 'workflow' in event ? this.#keepWorkflow(event) : this.#keep(event)
    this.#count += 1
    this.#newest = kept
    if (this.#events.length < this.#capacity) {
      this.#events.push(kept)
    } else {
      this.#events[this.#head] = kept
      this.#head = (this.#head + 1) % this.#capacity
    }
  }

  #keep(event: ListedEvent): Kept {
    if ('cron' in event) return this.#keepCron(event)
    if ('queue' in event) return this.#keepQueue(event)
    if (event.type === 'worker.stopped') return this.#keepWorker(event)
    if (isSystemEvent(event)) return this.#keepSystem(event)
    if ('bulk' in event) {
      const subject = event.bulk.id ?? event.requestId ?? ''
      return { ...this.#keepOther(event), subject, queue: null, own: ownData(event) }
    }
    const { job } = event
    // The job of a heartbeat event is only a lease, not a whole row.
    const row = 'state' in job ? job : null
    return {
      id: null,
      type: event.type,
      time: this.#clock.wall(),
      subject: null,
      jobId: job.id,
      jobType: job.type,
      queue: job.queue,
      state: row?.state ?? 'active',
      from: stateBefore(event),
      attempt: event.type === 'job.failed' ? event.attempt : job.attempt,
      workerId: event.type === 'job.heartbeat' ? event.workerId : workerOf(row),
      traceparent: row?.carry?.traceparent ?? null,
      own: ownData(event),
    }
  }

  #keepWorkflow(event: WorkflowEvent): Kept {
    const about = { subject: event.workflow.id, queue: null }
    return { ...this.#keepOther(event), ...about, own: workflowData(event) }
  }

  #keepCron(event: CronEvent): Kept {
    const { name, jobType, queue } = event.cron
    const job = event.type === 'cron.triggered' ? event.job : null
    const traceparent = job?.carry?.traceparent ?? null
    const about = { subject: name, jobId: job?.id ?? null, jobType, queue, traceparent }
    return { ...this.#keepOther(event), ...about, own: ownData(event) }
  }

  #keepQueue(event: QueueEvent): Kept {
    return { ...this.#keepOther(event), subject: event.queue, queue: event.queue }
  }

  #keepWorker(event: WorkerEvent): Kept {
    const { workerId } = event
    const about = { subject: workerId, workerId, queue: null }
    return { ...this.#keepOther(event), ...about, own: ownData(event) }
  }

  #keepSystem(event: SystemEvent): Kept {
    return { ...this.#keepOther(event), subject: 'system', queue: null, own: ownData(event) }
  }

  /** The common part of events that are not about the state of a job. */
  #keepOther({ type }: Pick<JobEvent, 'type'>): Omit<Kept, 'subject' | 'queue'> {
    const time = this.#clock.wall()
    const none = { jobId: null, jobType: null, state: null, workerId: null, traceparent: null }
    return { id: null, type, time, ...none, from: undefined, attempt: 0, own: null }
  }

  list(query: EventQuery): EventPage {
    this.#nameAll()
    const found: Kept[] = []
    const { start, gap } = this.#startOf(query.after)
    for (let i = start; i < this.#events.length; i++) {
      const event = this.#at(i)
      if (!event || !matches(event, query)) continue
      if (found.length === query.limit) {
        return page(found, found.at(-1), query, { has_more: true, gap })
      }
      found.push(event)
    }
    // The cursor is the newest event, because all events up to it were looked at, matching or not.
    return page(found, this.#newest, query, { has_more: false, gap })
  }

  /**
   * Gives ids to the events that have none, in their order. Most events are never listed, and to make an id
   * for each would cost more than to keep the rest of it.
   */
  #nameAll(): void {
    const oldest = this.oldest
    for (let i = Math.max(0, this.#named - oldest); i < this.#events.length; i++) {
      const event = this.#at(i)
      if (event) event.id ??= this.#newId()
    }
    this.#named = this.#count
  }

  /** The number of the oldest event that is kept. */
  get oldest(): number {
    return this.#count - this.#events.length
  }

  /** The number of the next event. */
  get end(): number {
    return this.#count
  }

  /** The event with this number; null if it is not kept any more, or `isWanted` says no. */
  follow(
    number: number,
    isWanted: (event: Pick<Kept, 'jobId' | 'queue'>) => boolean,
  ): FollowedEvent | null {
    const event = number < this.oldest ? undefined : this.#at(number - this.oldest)
    if (event === undefined || !isWanted(event)) return null
    this.#nameAll()
    const { jobId, queue, state, from } = event
    const moved = from === undefined || state === null ? null : { from, to: state }
    return { recorded: recorded(event), jobId, queue, moved }
  }

  /** The number of the event after the one with this id; null if that is not kept. */
  numberAfter(id: string): number | null {
    this.#nameAll()
    const { start, gap } = this.#startOf(id)
    return gap ? null : this.oldest + start
  }

  #at(i: number): Kept | undefined {
    return this.#events[(this.#head + i) % this.#events.length]
  }

  /**
   * Looks for exactly the event `after`. An id of an earlier process would sort among the ids of this one,
   * but that event is gone.
   */
  #startOf(after: string | null): { start: number; gap: boolean } {
    if (after === null) return { start: 0, gap: false }
    for (let i = this.#events.length - 1; i >= 0; i--) {
      if (after === eventId(this.#at(i))) return { start: i + 1, gap: false }
    }
    return { start: 0, gap: true }
  }
}

function isSystemEvent(event: ListedEvent): event is SystemEvent {
  return event.type === 'system.maintenance.started' || event.type === 'system.maintenance.ended'
}

function page(
  found: readonly Kept[],
  last: Kept | undefined,
  query: EventQuery,
  rest: Pick<EventPage, 'has_more' | 'gap'>,
): EventPage {
  return { events: found.map(recorded), cursor: eventId(last) ?? query.after, ...rest }
}

function eventId(event: Kept | undefined): string | undefined {
  return event && `evt_${event.id}`
}

/** No worker has an `available` job: the name in its row is that of the worker that gave it back. */
function workerOf(row: JobRow | null): string | null {
  return row === null || row.state === 'available' ? null : row.workerId
}

function matches(event: Kept, { types, queues }: EventQuery): boolean {
  if (types.size > 0 && !types.has(event.type)) return false
  return queues.size === 0 || (event.queue !== null && queues.has(event.queue))
}

function recorded(event: Kept): RecordedEvent {
  const traceId = event.traceparent === null ? undefined : traceIdOf(event.traceparent)
  return {
    specversion: '1.0',
    id: `evt_${event.id}`,
    type: event.type,
    source: 'ojs://ojs-rabbitmq',
    time: timestamp(event.time),
    subject: event.subject ?? event.jobId ?? '',
    data: {
      ...(event.jobId !== null && { job_id: event.jobId }),
      ...(event.jobType !== null && { job_type: event.jobType }),
      ...(event.queue !== null && { queue: event.queue }),
      ...(event.state !== null && { state: event.state, attempt: event.attempt }),
      ...(event.workerId !== null && { worker_id: event.workerId }),
      ...(traceId !== undefined && { trace_id: traceId }),
      ...event.own,
    },
  }
}
