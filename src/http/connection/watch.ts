/** A stream that tells how something stands, and not all that happened to it. */
import { OjsError } from '../../errors.ts'
import type { EventRing, FollowedEvent } from '../../telemetry/event-ring.ts'
import type { EventStream, StreamEvent } from './event-stream.ts'

/** After an event it looks a second time: what is reported within a second makes one event only. */
const AGAIN_MS = 1_000
/** How many events are looked at in one turn. */
const LOOKED_AT = 5_000

/** What is to be written now. */
export interface Look {
  events: readonly StreamEvent[]
  /** The stream ends with these. */
  isOver: boolean
}

export interface Watched {
  /** Whether the event tells that there may be something new. */
  isMeant(event: Pick<FollowedEvent, 'jobId' | 'queue'>): boolean
  /** Only what is new. Rejects with 404 when it is gone. */
  look(): Promise<Look>
}

/** Looks once at a time, and only while its client reads: so what it writes is never old. */
export class Watch {
  readonly #watched: Watched
  /** The number of the next event. */
  #next: number
  #isDue = false
  #isLooking = false
  #againAt = Number.POSITIVE_INFINITY

  constructor(watched: Watched, next: number) {
    this.#watched = watched
    this.#next = next
  }

  /** Called several times a second. */
  advance(stream: EventStream, ring: Pick<EventRing, 'oldest' | 'end' | 'follow'>): void {
    const now = performance.now()
    if (this.#hasNews(ring)) {
      this.#isDue = true
      this.#againAt = now + AGAIN_MS
    } else if (now >= this.#againAt) {
      this.#isDue = true
      this.#againAt = Number.POSITIVE_INFINITY
    }
    if (!this.#isDue || this.#isLooking || !stream.isReady) return
    this.#isDue = false
    void this.#look(stream)
  }

  async #look(stream: EventStream): Promise<void> {
    this.#isLooking = true
    try {
      writeLook(stream, await this.#watched.look())
    } catch (error) {
      if (error instanceof OjsError && error.code === 'not_found') stream.end()
      else this.#againAt = performance.now() + AGAIN_MS
    } finally {
      this.#isLooking = false
    }
  }

  #hasNews(ring: Pick<EventRing, 'oldest' | 'end' | 'follow'>): boolean {
    const from = Math.max(this.#next, ring.oldest)
    const end = Math.min(ring.end, from + LOOKED_AT)
    let hasNews = this.#next < from
    for (let number = from; !hasNews && number < end; number++) {
      hasNews = ring.follow(number, this.#watched.isMeant) !== null
    }
    this.#next = end
    return hasNews
  }
}

export function writeLook(stream: EventStream, { events, isOver }: Look): void {
  for (const event of events) stream.send(event)
  if (isOver) stream.end()
}
