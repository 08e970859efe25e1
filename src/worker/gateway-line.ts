import type { LiveDelivery } from '../broker/delivery.ts'
import type { RpcReply } from '../broker/direct-rpc.ts'
import { membersOf } from '../job/json-value.ts'
import type { AmqpLink } from './link.ts'

/** After no answer to a claim: how long the next ones are not asked. */
const SILENCE_MS = 30_000
/** Queues of one `sync`. */
const MAX_QUEUES = 100

export interface Claimed {
  decision: 'run' | 'drop' | 'discard'
  attempt: number
}

/** What a gateway knows that matters before anything is consumed. */
export interface Synced {
  /** Cancelled jobs whose token may still come, and up to which generation: by id. */
  tombstones: Map<string, number>
  /** There are more than these: every token has to be claimed. */
  truncated: boolean
  paused: string[]
  directive: 'running' | 'quiet' | 'terminate'
}

/** The questions of a worker to whatever gateway is alive (architecture §5, §6). */
export class GatewayLine {
  readonly #link: AmqpLink
  readonly #workerId: () => string
  #silentUntil = 0
  #isAlone = false

  /** `workerId`: of who syncs and claims; a producer does neither. */
  constructor(link: AmqpLink, workerId: () => string = () => '') {
    this.#link = link
    this.#workerId = workerId
  }

  /** Nobody answered the last question, whenever that was. */
  get isAlone(): boolean {
    return this.#isAlone
  }

  /** Nobody answered the last question, not long ago. */
  get isSilent(): boolean {
    return this.#now() < this.#silentUntil
  }

  /** Null: nobody has answered in time; a worker may run without the answer. */
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
      for (const [id, generation] of some.tombstones) all.tombstones.set(id, generation)
      all.paused.push(...some.paused)
      all.truncated ||= some.truncated
      all.directive = some.directive
    }
    return all
  }

  /** May this token be run? Null, and so it may: nobody answers, or nobody did a moment ago. */
  async claim(delivery: LiveDelivery): Promise<Claimed | null> {
    if (this.isSilent) return null
    const { id, queue, generation, attempt } = delivery
    const reply = await this.#ask(queue, 'ojs.control.claim', {
      job_id: id,
      generation,
      attempt,
      worker_id: this.#workerId(),
    })
    return reply.outcome === 'answered' ? claimedIn(reply.body) : null
  }

  /**
   * Lets a living gateway declare a queue that is gone, or one of its retry queues, before we do: it
   * has to write down first whose tokens went with it.
   */
  async announce(queue: string, rungMs?: number): Promise<void> {
    if (this.isSilent) return
    const rung = rungMs === undefined ? {} : { rung_ms: rungMs }
    await this.#ask('default', 'ojs.control.sync', { queues: [queue], ...rung })
  }

  async #syncSome(queues: readonly string[]): Promise<Synced | null> {
    const question = { queues, worker_id: this.#workerId() }
    let reply = await this.#ask('default', 'ojs.control.sync', question)
    if (reply.outcome === 'returned') {
      // Nobody has been here yet. A gateway that comes later finds the question, and our queues.
      await this.#link.declarer.recheck('default')
      reply = await this.#ask('default', 'ojs.control.sync', question)
    }
    return reply.outcome === 'answered' ? syncedIn(reply.body) : null
  }

  async #ask(queue: string, type: string, body: object): Promise<RpcReply> {
    const { answerTimeoutMs, publishTimeoutMs } = this.#link.options
    // After a cut the connection that asks may be back later than the one that consumes. Nobody has
    // kept silent to what was not asked: the next question need not wait either.
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
  const { decision, attempt } = membersOf(body)
  if (decision === 'drop' || decision === 'discard') return { decision, attempt: 0 }
  return decision === 'run' && Number.isInteger(attempt)
    ? { decision, attempt: Number(attempt) }
    : null
}

/** Null: an error, or an answer that is none. */
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

/** Named only where the job has had more than one life. */
function generationOf(id: string, later: Record<string, unknown>): number {
  const generation = Object.hasOwn(later, id) ? later[id] : 0
  return typeof generation === 'number' ? generation : 0
}

function textsIn(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : []
}
