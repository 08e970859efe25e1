import type { Clock } from '../clock.ts'
import { timestamp } from '../job/document.ts'
import type { JobRow } from '../job/job.ts'
import { traceIdOf } from '../job/traceparent.ts'
import type { JobEvent } from './events.ts'

/** One event in the form of ojs-digest §10.1; `data` also has what §10.2 and the suite want. */
export interface RecordedEvent {
  specversion: '1.0'
  /** `evt_<UUIDv7>`: later events have greater ids. */
  id: string
  type: string
  source: string
  time: string
  /** The job's id. */
  subject: string
  data: Readonly<Record<string, unknown>> & { job_id: string; job_type: string; queue: string }
}

export interface EventQuery {
  /** Only events after this one; null: from the oldest that is kept. */
  after: string | null
  /** Empty: all. */
  types: ReadonlySet<string>
  queues: ReadonlySet<string>
  limit: number
}

export interface EventPage {
  events: readonly RecordedEvent[]
  /** For the next `after`; null as long as there has been no event. */
  cursor: string | null
  has_more: boolean
  /** True when events after `after` have been dropped already. */
  gap: boolean
}

/** The newest events of this process, in memory: a window to look through, not a history. */
export class EventRing {
  readonly #capacity: number
  readonly #clock: Clock
  readonly #newId: () => string
  readonly #events: RecordedEvent[] = []
  /** Where the oldest event stands once the ring is full. */
  #head = 0
  #newest: string | null = null

  constructor(capacity: number, clock: Clock, newId: () => string) {
    this.#capacity = capacity
    this.#clock = clock
    this.#newId = newId
  }

  /** For `createJobEvents`. */
  readonly onJobEvent = (event: JobEvent): void => {
    if (event.type === 'token.malformed') return
    const recorded: RecordedEvent = {
      specversion: '1.0',
      id: `evt_${this.#newId()}`,
      type: event.type,
      source: 'ojs://ojs-rabbitmq',
      time: timestamp(this.#clock.wall()),
      subject: event.job.id,
      data: { ...commonData(event.job), ...ownData(event) },
    }
    this.#newest = recorded.id
    if (this.#events.length < this.#capacity) {
      this.#events.push(recorded)
    } else {
      this.#events[this.#head] = recorded
      this.#head = (this.#head + 1) % this.#capacity
    }
  }

  list(query: EventQuery): EventPage {
    const found: RecordedEvent[] = []
    const { start, gap } = this.#startOf(query.after)
    for (let i = start; i < this.#events.length; i++) {
      const event = this.#at(i)
      if (!event || !matches(event, query)) continue
      if (found.length === query.limit) {
        return { events: found, cursor: found.at(-1)?.id ?? query.after, has_more: true, gap }
      }
      found.push(event)
    }
    // Everything up to the newest was looked at, whether it matched or not.
    return { events: found, cursor: this.#newest ?? query.after, has_more: false, gap }
  }

  #at(i: number): RecordedEvent | undefined {
    return this.#events[(this.#head + i) % this.#events.length]
  }

  /** Ids grow with time, but within a millisecond in no order: the exact one is looked for. */
  #startOf(after: string | null): { start: number; gap: boolean } {
    if (after === null) return { start: 0, gap: false }
    for (let i = this.#events.length - 1; i >= 0; i--) {
      if (this.#at(i)?.id === after) return { start: i + 1, gap: false }
    }
    return { start: 0, gap: true }
  }
}

function matches(event: RecordedEvent, { types, queues }: EventQuery): boolean {
  if (types.size > 0 && !types.has(event.type)) return false
  return queues.size === 0 || queues.has(event.data.queue)
}

function commonData(job: JobRow): RecordedEvent['data'] {
  const traceparent = job.carry?.traceparent
  return {
    job_id: job.id,
    job_type: job.type,
    queue: job.queue,
    state: job.state,
    attempt: job.attempt,
    ...(job.workerId !== null && { worker_id: job.workerId }),
    ...(traceparent && { trace_id: traceIdOf(traceparent) }),
  }
}

function ownData(event: Exclude<JobEvent, { type: 'token.malformed' }>): object {
  const { job } = event
  switch (event.type) {
    case 'job.enqueued':
      return { priority: job.priority }
    case 'job.completed':
      return { duration_ms: (job.completedAt ?? 0) - (job.startedAt ?? job.completedAt ?? 0) }
    case 'job.cancelled':
      return { previous_state: event.previousState }
    case 'job.discarded':
      return { total_attempts: job.attempt }
    case 'job.started':
    case 'job.expired':
      return {}
  }
}
