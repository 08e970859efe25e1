/** A worker's questions to the gateways: sync, claim, announcements. */
import type { LiveDelivery } from '../broker/consume/delivery.ts'
import type { RpcReply } from '../broker/control/rpc-client.ts'
import { membersOf } from '../job/values/json-value.ts'
import type { AmqpLink } from './connection.ts'

/** After a question without an answer: for how long no claim or announcement is sent. */
const SILENCE_MS = 30_000
/** Queues in one `sync`. */
const MAX_QUEUES = 100

export interface Claimed {
  decision: 'run' | 'drop' | 'discard' | 'requeue'
  attempt: number
  /** With `run`: the gateway has begun the attempt already. */
  isStarted?: boolean
}

/** A claim of a job with a concurrency key. */
export interface KeyedQuestion {
  /** The same question had no answer. */
  again: boolean
  /** The members that show the job to a gateway that does not know it; empty: it does. */
  shown: string
}

/** What a worker must learn from a gateway before it consumes. */
export interface Synced {
  /**
   * Ids of cancelled jobs whose job message may still arrive, each with the newest generation it concerns.
   */
  tombstones: Map<string, number>
  /** There are more cancelled jobs than these, so every job message must be claimed. */
  truncated: boolean
  paused: string[]
  directive: 'running' | 'quiet' | 'terminate'
}

/** Sends a worker's questions to any gateway that is alive (docs/architecture.md §5, §6). */
export class GatewayRpc {
  readonly #link: AmqpLink
  readonly #workerId: () => string
  #silentUntil = 0
  #isAlone = false

  /** `workerId`: of the worker that syncs and claims; a producer does neither. */
  constructor(link: AmqpLink, workerId: () => string = () => '') {
    this.#link = link
    this.#workerId = workerId
  }

  /** No gateway answered the last question, however long ago that was. */
  get isAlone(): boolean {
    return this.#isAlone
  }

  /** No gateway answered the last question, and that was not long ago. */
  get isSilent(): boolean {
    return this.#now() < this.#silentUntil
  }

  /** Asks for what a worker must know. Null: no gateway answered in time; the worker may go on without. */
  async sync(queues: readonly string[]): Promise<Synced | null> {
    const all: Synced = {
      tombstones: new Map(),
      truncated: false,
      paused: [],
      directive: 'running',
    }
    for (let from = 0; from < queues.length; from += MAX_QUEUES) {
      const some = await this.#syncSome(queues.slice(from, from + MAX_QUEUES))
      if (some === null) return null
      // An id may have had jobs in several queues.
      for (const [id, generation] of some.tombstones)
        all.tombstones.set(id, Math.max(generation, all.tombstones.get(id) ?? 0))
      all.paused.push(...some.paused)
      all.truncated ||= some.truncated
      all.directive = some.directive
    }
    return all
  }

  /**
   * Asks whether this job message may run. Null: no gateway answers, or none did a moment ago; then it may.
   * `keyed`: its job has a concurrency key; then it may not, and the question is asked whoever was silent.
   */
  async claim(delivery: LiveDelivery, keyed?: KeyedQuestion): Promise<Claimed | null> {
    if (this.isSilent && keyed === undefined) return null
    const { id, queue, generation, attempt } = delivery
    const reply = await this.#ask(queue, 'ojs.control.claim', {
      job_id: id,
      generation,
      attempt,
      worker_id: this.#workerId(),
      redelivered: delivery.redelivered,
      ...(keyed && keyedMembers(keyed)),
    })
    return reply.outcome === 'answered' ? claimedIn(reply.body) : null
  }

  /** The checkpoint of a job; without `state`: it has none. Null: no gateway answers, or none knows at the moment. */
  async checkpointOf(queue: string, id: string): Promise<{ state?: unknown } | null> {
    const reply = await this.#ask(queue, 'ojs.control.info', { job_id: id, queue })
    if (reply.outcome !== 'answered') return null
    const { job, error } = membersOf(reply.body)
    if (error !== undefined && membersOf(error)['code'] !== 'not_found') return null
    return membersOf(membersOf(job)['checkpoint'])
  }

  /**
   * Lets a gateway, if one is alive, declare a missing queue, or one of its retry queues, before this process
   * does. The gateway must first record which jobs lost their job messages with it.
   */
  async announce(queue: string, retryQueueMs?: number): Promise<void> {
    if (this.isSilent) return
    const retryQueue = retryQueueMs === undefined ? {} : { rung_ms: retryQueueMs }
    await this.#ask('default', 'ojs.control.sync', { queues: [queue], ...retryQueue })
  }

  async #syncSome(queues: readonly string[]): Promise<Synced | null> {
    const question = { queues, worker_id: this.#workerId() }
    let reply = await this.#ask('default', 'ojs.control.sync', question)
    if (reply.outcome === 'returned') {
      // No gateway has declared the control queue yet. Declare it, so that a gateway that starts later finds
      // the question, and the queues.
      await this.#link.declarer.recheck('default')
      reply = await this.#ask('default', 'ojs.control.sync', question)
    }
    return reply.outcome === 'answered' ? syncedIn(reply.body) : null
  }

  async #ask(queue: string, type: string, body: object): Promise<RpcReply> {
    const { answerTimeoutMs, publishTimeoutMs } = this.#link.options
    // After a network failure the publish connection may be back later than the consume connection. A
    // question that could not be sent does not count as unanswered, so the next one need not wait either.
    if (!(await this.#link.untilPublishing(publishTimeoutMs))) return { outcome: 'silent' }
    const reply = await this.#link.ask(queue, type, body, answerTimeoutMs)
    this.#isAlone = reply.outcome !== 'answered'
    this.#silentUntil = this.#isAlone ? this.#now() + SILENCE_MS : 0
    return reply
  }

  #now(): number {
    return this.#link.clock.now()
  }
}

function claimedIn(body: unknown): Claimed | null {
  const { decision, attempt, started } = membersOf(body)
  if (decision === 'drop' || decision === 'discard' || decision === 'requeue') {
    return { decision, attempt: 0 }
  }
  return decision === 'run' && Number.isInteger(attempt)
    ? { decision, attempt: Number(attempt), isStarted: started === true }
    : null
}

function keyedMembers({ again, shown }: KeyedQuestion): object {
  const job = shown === '' ? {} : membersOf(JSON.parse(`{${shown.slice(1)}}`))
  return { keyed: true, ...(again && { again }), ...job }
}

/** Null: the answer is an error, or invalid. */
function syncedIn(body: unknown): Synced | null {
  const { tombstones, generations, truncated, paused, directive } = membersOf(body)
  if (!Array.isArray(tombstones)) return null
  const later = membersOf(generations)
  return {
    tombstones: new Map(textsIn(tombstones).map((id) => [id, generationOf(id, later)])),
    truncated: truncated === true,
    paused: textsIn(paused),
    directive: directive === 'quiet' || directive === 'terminate' ? directive : 'running',
  }
}

/** The answer names a job's generation only if it is not 0. */
function generationOf(id: string, later: Record<string, unknown>): number {
  const generation = Object.hasOwn(later, id) ? later[id] : 0
  return typeof generation === 'number' ? generation : 0
}

function textsIn(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : []
}
