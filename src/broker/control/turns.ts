/** Which control messages may be handled at the same time, by what they cost. */
import type { Clock } from '../../clock.ts'

/**
 * Cost of the messages that are handled at a time, of all queues together: about 1,000 events, or 200 ids of
 * heartbeats. Their writes are one group commit of the ledger, which every request over HTTP waits for.
 */
const MAX_COST = 256 * 1024
/**
 * From here on a message is large: one at a time, and the others of its queue wait for its end. After one that
 * took long there is no other for three times as long, so that three quarters of the time are left, for requests
 * over HTTP first of all.
 */
export const LARGE = MAX_COST / 2
const LONG_MS = 5
const RESTS = 3
const MAX_REST_MS = 2_000
/** Of a byte. A heartbeat names a job in 39 bytes; a report needs about 150 for an event. */
const COSTS: ReadonlyMap<string, number> = new Map([
  ['ojs.control.heartbeat', 32],
  ['ojs.control.report', 1],
  ['ojs.control.cancel', 1],
])

interface Turn {
  /** Called in the queue's turn; the message counts as under way until the promise settles. */
  begin(): Promise<void>
  /** Called instead if there will be no turn. */
  drop(): void
}

interface Waiting extends Turn {
  cost: number
}

/**
 * What the handling of a message may cost. Questions cost nothing: they write little, and may wait for RabbitMQ
 * and for the reports of a queue, which must be able to begin meanwhile.
 */
export function costOf(type: unknown, bytes: number): number {
  return (COSTS.get(String(type)) ?? 0) * bytes
}

/**
 * Decides when messages of control queues are handled, so that a flood in one queue holds up neither the other
 * queues nor the requests over HTTP: as many at a time as cost `MAX_COST`, and each queue in its turn. Messages
 * of one queue begin in their order, and at once, in the turn in which they came, if there is room.
 */
export class ControlTurns {
  readonly #clock: Clock
  /** By queue; the queue whose turn is next is first. A queue is here only while messages of it wait. */
  readonly #waiting = new Map<string, Waiting[]>()
  /** The queue of the large message under way. */
  #held: string | null = null
  #cost = 0
  #restsUntil = 0
  #timer: NodeJS.Timeout | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  take(queue: string, cost: number, turn: Turn): void {
    const message = { cost, ...turn }
    const before = this.#waiting.get(queue)
    if (before !== undefined) before.push(message)
    else if (this.#mayBegin(queue, cost)) this.#begin(queue, message)
    else this.#waiting.set(queue, [message])
  }

  /** Nothing that waits will begin; messages that come later may. */
  dropWaiting(): void {
    const all = [...this.#waiting.values()].flat()
    this.#waiting.clear()
    // Without its timer nothing would end the rest.
    clearTimeout(this.#timer)
    this.#restsUntil = 0
    for (const message of all) message.drop()
  }

  #mayBegin(queue: string, cost: number): boolean {
    if (queue === this.#held) return false
    if (cost === 0) return true
    if (cost < LARGE) return this.#cost + cost <= MAX_COST
    return this.#held === null && this.#clock.now() >= this.#restsUntil
  }

  #begin(queue: string, { cost, begin }: Waiting): void {
    const isLarge = cost >= LARGE
    // A large message leaves room for small ones of other queues.
    const counted = Math.min(cost, LARGE)
    const since = this.#clock.now()
    this.#cost += counted
    if (isLarge) this.#held = queue
    const ended = () => {
      this.#cost -= counted
      if (isLarge) this.#rest(since)
      this.#next()
    }
    begin().then(ended, ended)
  }

  #rest(since: number): void {
    this.#held = null
    const now = this.#clock.now()
    const tookMs = now - since
    if (tookMs < LONG_MS) return
    const restMs = Math.min(RESTS * tookMs, MAX_REST_MS)
    this.#restsUntil = now + restMs
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#endRest(), restMs).unref()
  }

  /** Whatever the clock says: a timer may fire a moment before its time by it, and nothing else would wake us. */
  #endRest(): void {
    this.#restsUntil = 0
    this.#next()
  }

  /** Begins what there is room for, one message of each queue in turn. */
  #next(): void {
    for (const [queue, messages] of this.#waiting) {
      const [first] = messages
      if (first === undefined || !this.#mayBegin(queue, first.cost)) continue
      messages.shift()
      this.#waiting.delete(queue)
      // At the end: its next message is looked at when every other queue has had its turn.
      if (messages.length > 0) this.#waiting.set(queue, messages)
      this.#begin(queue, first)
    }
  }
}
