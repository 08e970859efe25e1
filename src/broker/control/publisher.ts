/** Broadcasts to native workers, and answers to their questions. */
import type { Clock } from '../../clock.ts'
import { partOfHeap } from '../../memory.ts'
import type { Broadcast, PublishOutcome, Reply, ReplyOutcome } from '../broker.ts'
import type { Connection } from '../connection/connection.ts'
import { Opening } from '../connection/wait-until-open.ts'
import {
  controlOptions,
  DIRECT_REPLY,
  isReplyAddress,
  workersKey,
} from '../messages/control-message.ts'
import type { Outgoing } from '../messages/outgoing-message.ts'
import type { Names } from '../names.ts'
import { Publisher, type PublisherDeps } from '../publish/publisher.ts'
import { ReplyQueues } from './reply-queues.ts'

/** Labels of the counters; OJS queue names never begin with `ojs.`. */
const BROADCASTS = 'ojs.control.workers'
const REPLIES = 'ojs.control.replies'
/** RabbitMQ replaces the bare name in a question's `reply_to` by an address that begins so. */
const DIRECT_ADDRESS = `${DIRECT_REPLY}.`
/** Default of `answerMs`; nobody waits for a later answer. */
const ANSWER_MS = 1_000
/** 32,000 questions of all control queues may be here, and each answer may be a whole job. */
const MAX_WAITING = 1_024
/** Why an answer to a queue is not sent that is not the asker's own. */
const NOT_SENT = { shared: 'not-exclusive', missing: 'returned', unknown: 'refused' } as const
const MAX_WAITING_BYTES = partOfHeap(1 / 32, 32 * 1024 * 1024)

export interface ControlPublisherDeps
  extends Omit<PublisherDeps, 'channelCounts' | 'onReturned' | 'onUnanswered'> {
  /** For answers to direct reply addresses; not started yet. */
  reply: Connection
  /** For looking at the queues of askers. */
  declare: Connection
  /** How long an asker waits for an answer (docs/architecture.md §6); 1 s. */
  answerMs?: number
}

/**
 * Publishes broadcasts to workers and answers to RPCs, each on a channel of their own: without the right to
 * write to `amq.default` RabbitMQ closes the channel of every answer, and a cancel must not wait for its
 * reopening.
 *
 * Answers to direct reply addresses have their own connection, opened for the first of them: 3.10 closes
 * (541) the whole connection that publishes to an address which it cannot decode or whose node has left the
 * cluster, and the asker chooses the address.
 */
export class ControlPublisher {
  readonly #names: Names
  readonly #clock: Clock
  readonly #broadcasts: Publisher
  readonly #answers: Publisher
  readonly #direct: Publisher
  readonly #replyConnection: Connection
  readonly #replyQueues: ReplyQueues
  /**
   * Answers wait here until they can be published. The consume connection often comes back first after a
   * loss, so that questions arrive before the publish connection is open. A worker that gets no answer after
   * its reconnect runs what it should not, or consumes a paused queue.
   */
  readonly #opening = new Opening()
  #waitingBytes = 0
  readonly #answerMs: number
  #sent = 0

  constructor(deps: ControlPublisherDeps) {
    this.#names = deps.names
    this.#clock = deps.clock
    this.#replyConnection = deps.reply
    this.#replyQueues = new ReplyQueues(deps.declare, deps.clock)
    this.#answerMs = deps.answerMs ?? ANSWER_MS
    // An answer is returned when nobody waits for it: there is nothing to declare.
    const overrides = {
      channelCounts: { jobs: 0, others: 1 },
      onReturned: () => {},
      onUnanswered: () => {},
    }
    this.#broadcasts = new Publisher({ ...deps, ...overrides })
    const answering = {
      ...deps,
      ...overrides,
      onOpen: () => this.#opening.opened(),
      onChannelError: () => {},
    }
    this.#answers = new Publisher(answering)
    this.#direct = new Publisher({ ...answering, connection: deps.reply })
  }

  get pending(): number {
    return this.#all().reduce((sum, { pending }) => sum + pending, 0)
  }

  /** Number of answers that wait until they can be published. */
  get waiting(): number {
    return this.#opening.waiting
  }

  broadcast({ queue, type, body }: Broadcast): Promise<PublishOutcome> {
    return this.#broadcasts.send({
      ...this.#message(type, body),
      queue: BROADCASTS,
      exchange: this.#names.exchange.direct,
      routingKey: workersKey(queue),
    })
  }

  async reply(reply: Reply): Promise<ReplyOutcome> {
    const { replyTo } = reply
    if (!isReplyAddress(replyTo)) return 'refused'
    if (replyTo.startsWith(DIRECT_ADDRESS)) {
      // The first such answer opens the connection.
      void this.#replyConnection.start()
      return this.#publishAnswer(reply, true)
    }
    const verdict = this.#replyQueues.known(replyTo) ?? (await this.#replyQueues.look(replyTo))
    if (verdict !== 'exclusive') return NOT_SENT[verdict]
    const outcome = await this.#publishAnswer(reply, false)
    if (outcome === 'returned') this.#replyQueues.forget(replyTo)
    return outcome
  }

  #publishAnswer(
    { replyTo, correlationId, type, body }: Reply,
    isDirect: boolean,
  ): Promise<PublishOutcome> {
    const message = this.#message(type, body)
    return this.#sendInTime(isDirect ? this.#direct : this.#answers, {
      ...message,
      queue: REPLIES,
      exchange: '',
      routingKey: replyTo,
      options: {
        ...message.options,
        // 3.10 returns every mandatory message to a direct reply address, even one it has delivered,
        // because the address is no queue: a return would say nothing.
        mandatory: !isDirect,
        ...(correlationId !== null && { correlationId }),
      },
    })
  }

  async drain(deadline: AbortSignal): Promise<void> {
    await Promise.all(this.#all().map((publisher) => publisher.drain(deadline)))
  }

  stop(): void {
    for (const publisher of this.#all()) publisher.stop()
  }

  #all(): Publisher[] {
    return [this.#broadcasts, this.#answers, this.#direct]
  }

  /** `refused`: the publisher could not send the answer within `answerMs`; nobody waits any longer. */
  async #sendInTime(publisher: Publisher, answer: Outgoing): Promise<PublishOutcome> {
    const until = performance.now() + this.#answerMs
    for (;;) {
      const leftMs = Math.max(0, until - performance.now())
      const isOpen = await this.#isOpenWithin(leftMs, publisher, answer.content.length)
      const outcome = isOpen ? await publisher.send(answer) : 'refused'
      // Refused while open: for another reason. Refused and closed: it closed at that moment, so wait again.
      if (!isOpen || outcome !== 'refused' || publisher.isOpen) return outcome
    }
  }

  /** False also when too much is waiting to add `bytes` more. */
  async #isOpenWithin(ms: number, publisher: Publisher, bytes: number): Promise<boolean> {
    if (publisher.isOpen) return true
    const isTooMuch = this.waiting >= MAX_WAITING || this.#waitingBytes + bytes > MAX_WAITING_BYTES
    if (isTooMuch) return false
    this.#waitingBytes += bytes
    const isOpen = await this.#opening.untilOpen(publisher, ms)
    this.#waitingBytes -= bytes
    return isOpen
  }

  #message(type: string, body: string): Omit<Outgoing, 'queue' | 'exchange' | 'routingKey'> {
    this.#sent += 1
    const id = `ojs.control.${this.#sent}`
    return {
      id,
      retryQueueMs: null,
      group: 'others',
      content: Buffer.from(body),
      options: {
        ...controlOptions({ id, type }, this.#clock.wall()),
        mandatory: false,
        persistent: false,
      },
    }
  }
}
