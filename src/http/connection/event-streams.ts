/** All streams of server-sent events: what each has read of the ring, how many there may be, their end. */
import type { Request, Response } from 'express'
import { OjsError } from '../../errors.ts'
import type { EventRing } from '../../telemetry/event-ring.ts'
import { dropped, gap, rendered, type StreamFilter } from '../message/stream-events.ts'
import { EventStream, type Patience } from './event-stream.ts'
import { type Look, Watch, type Watched, writeLook } from './watch.ts'

/** How often new events are written. */
const PUMP_MS = 50
/** So that one stream takes at most 1,000 events a second of the event loop's time. */
const EVENTS_PER_PUMP = 50
/** How many events one stream looks at for those that it wants. */
const LOOKED_AT = 5_000
const STATS_MS = 1_000
/** Of all clients, and of one key or address. */
const MAX_STREAMS = 256
const MAX_OF_CLIENT = 100
const PATIENCE: Patience = { stuckMs: 30_000, lastWordMs: 1_000 }

export type FollowedRing = Pick<EventRing, 'oldest' | 'end' | 'follow' | 'numberAfter'>

interface Following {
  filter: StreamFilter
  /** The number of the next event. */
  next: number
}

interface Follower {
  stream: EventStream
  client: string
  /** Null: a stream of statistics. */
  follows: Following | Watch | null
}

/**
 * A stream keeps no events of its own: only its place in the ring. So a slow reader costs no memory, and
 * misses events only when the ring has lost them, which it is told.
 */
export class EventStreams {
  readonly #ring: FollowedRing
  readonly #stats: () => object
  readonly #patience: Patience
  readonly #followers = new Set<Follower>()
  #timer: NodeJS.Timeout | undefined
  #statsAt = 0
  #isEnding = false

  /** `stats`: called once a second while somebody listens. */
  constructor(ring: FollowedRing, stats: () => object, patience = PATIENCE) {
    this.#ring = ring
    this.#stats = stats
    this.#patience = patience
  }

  get size(): number {
    return this.#followers.size
  }

  /** Follows the ring from its end, or from behind the event that the client has seen last. Throws 429, 503. */
  follow(
    request: Request,
    response: Response,
    filter: StreamFilter,
    end = this.#ring.end,
  ): EventStream {
    const seen = request.get('last-event-id')
    const next = seen === undefined || seen === '' ? end : this.#ring.numberAfter(seen)
    const stream = this.#open(request, response, { filter, next: next ?? end })
    if (next === null) stream.send(gap(filter.channel, seen ?? ''))
    return stream
  }

  /** Tells how something stands, from what `first` has seen after the event before `end`. Throws 429, 503. */
  watch(request: Request, response: Response, watched: Watched, first: Look, end: number): void {
    writeLook(this.#open(request, response, new Watch(watched, end)), first)
  }

  followStats(request: Request, response: Response): void {
    this.#open(request, response, null).send({ event: 'metrics', data: this.#stats() })
  }

  /** Call when the server stops: no further streams, and a last word for those that there are. */
  endAll(): void {
    this.#isEnding = true
    const data = { grace_period_ms: 5_000 }
    for (const { stream } of this.#followers) stream.end({ event: 'server.shutdown', data })
  }

  #open(request: Request, response: Response, follows: Follower['follows']): EventStream {
    const client = request.admission.key?.name ?? request.socket.remoteAddress ?? ''
    this.#requireRoom(client)
    const stream = new EventStream(request, response, this.#patience, () => {
      this.#followers.delete(follower)
      if (this.#followers.size === 0) clearInterval(this.#timer)
    })
    const follower = { stream, client, follows }
    if (this.#followers.size === 0) this.#timer = setInterval(() => this.#pump(), PUMP_MS).unref()
    this.#followers.add(follower)
    return stream
  }

  #requireRoom(client: string): void {
    if (this.#isEnding) {
      throw new OjsError('backend_error', 'The gateway is shutting down.', {
        status: 503,
        retryAfterSeconds: 5,
      })
    }
    const ofClient = [...this.#followers].filter((follower) => follower.client === client).length
    if (this.#followers.size < MAX_STREAMS && ofClient < MAX_OF_CLIENT) return
    throw new OjsError('rate_limited', 'Too many event streams are open.', {
      details: { reason: 'too_many_streams', limit: MAX_STREAMS, limit_per_client: MAX_OF_CLIENT },
      retryAfterSeconds: 5,
    })
  }

  #pump(): void {
    const now = performance.now()
    const stats = now - this.#statsAt >= STATS_MS && this.#hasStats() ? this.#stats() : null
    if (stats !== null) this.#statsAt = now
    for (const { stream, follows } of this.#followers) {
      if (follows instanceof Watch) follows.advance(stream, this.#ring)
      else if (follows) this.#advance(stream, follows)
      else if (stats !== null && stream.isReady) stream.send({ event: 'metrics', data: stats })
      stream.keepAlive()
    }
  }

  #hasStats(): boolean {
    return [...this.#followers].some(({ follows }) => follows === null)
  }

  #advance(stream: EventStream, follows: Following): void {
    const { filter } = follows
    const { oldest, end } = this.#ring
    if (stream.isReady && follows.next < oldest) {
      stream.send(dropped(filter.channel, oldest - follows.next))
      follows.next = oldest
    }
    let written = 0
    for (let looked = 0; looked < LOOKED_AT && written < EVENTS_PER_PUMP; looked++) {
      if (follows.next >= end || !stream.isReady) return
      const event = this.#ring.follow(follows.next, filter.isMeant)
      follows.next += 1
      if (event === null) continue
      for (const each of rendered(event, filter)) {
        written += 1
        stream.send(each)
      }
      if (filter.isLast?.(event)) stream.end()
    }
  }
}
