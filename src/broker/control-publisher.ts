import type { Clock } from '../clock.ts'
import type { Broadcast, PublishOutcome, Reply } from './broker.ts'
import type { Connection } from './connection.ts'
import { controlOptions, DIRECT_REPLY, workersKey } from './control-message.ts'
import { ControlOpening } from './control-opening.ts'
import { MAX_SHORT_BYTES } from './headers.ts'
import type { Names } from './names.ts'
import type { Outgoing } from './publish-lane.ts'
import { Publisher, type PublisherDeps } from './publisher.ts'

/** Labels of the counters; OJS queue names never begin with `ojs.`. */
const BROADCASTS = 'ojs.control.workers'
const REPLIES = 'ojs.control.replies'
/** What RabbitMQ makes of the bare name when somebody publishes with it. */
const DIRECT_ADDRESS = `${DIRECT_REPLY}.`
/** Ours under any prefix: a reply must never land in a queue of jobs, whoever's it is. */
const OWN_NAME = /(?:^|\.)ojs\./
const CONTROL_CHARACTER = /\p{Cc}/u
/** A later answer is worth nothing. */
const ANSWER_MS = 1_000

export interface ControlPublisherDeps
  extends Omit<PublisherDeps, 'laneCounts' | 'onReturned' | 'onUnanswered'> {
  /** For answers to direct reply addresses; not started yet. */
  replyConnection: Connection
  /** How long an asker waits for an answer (architecture §6); 1 s. */
  answerMs?: number
}

/**
 * What the control plane says: broadcasts to workers and answers to RPCs, on a channel of their own.
 *
 * Answers to direct reply addresses have a connection of their own, opened with the first: ✱ 3.10
 * closes the whole connection of who publishes to one that it cannot decode or whose node has left
 * the cluster (541), and the address is whatever the asker says.
 */
export class ControlPublisher {
  readonly #names: Names
  readonly #clock: Clock
  readonly #publisher: Publisher
  readonly #direct: Publisher
  readonly #replyConnection: Connection
  readonly #opening = new ControlOpening()
  readonly #answerMs: number
  #sent = 0

  constructor(deps: ControlPublisherDeps) {
    this.#names = deps.names
    this.#clock = deps.clock
    this.#replyConnection = deps.replyConnection
    this.#answerMs = deps.answerMs ?? ANSWER_MS
    // Nobody is waiting where an answer is returned: nothing to declare.
    const own = { laneCounts: { jobs: 0, others: 1 }, onReturned: () => {}, onUnanswered: () => {} }
    this.#publisher = new Publisher({
      ...deps,
      ...own,
      onOpen: () => {
        deps.onOpen()
        this.#opening.opened()
      },
    })
    this.#direct = new Publisher({
      ...deps,
      ...own,
      connection: deps.replyConnection,
      onOpen: () => this.#opening.opened(),
      onChannelError: () => {},
    })
  }

  get pending(): number {
    return this.#publisher.pending + this.#direct.pending
  }

  /** Answers that wait until they can be published. */
  get waiting(): number {
    return this.#opening.waiting
  }

  broadcast({ queue, type, body }: Broadcast): Promise<PublishOutcome> {
    return this.#publisher.send({
      ...this.#message(type, body),
      queue: BROADCASTS,
      exchange: this.#names.exchange.direct,
      routingKey: workersKey(queue),
    })
  }

  async reply({ replyTo, correlationId, type, body }: Reply): Promise<PublishOutcome> {
    if (!isReplyAddress(replyTo)) return 'refused'
    const isDirect = replyTo.startsWith(DIRECT_ADDRESS)
    // The connection for them is opened with the first.
    if (isDirect) void this.#replyConnection.start()
    const message = this.#message(type, body)
    return this.#sendInTime(isDirect ? this.#direct : this.#publisher, {
      ...message,
      queue: REPLIES,
      exchange: '',
      routingKey: replyTo,
      options: {
        ...message.options,
        // ✱ 3.10 returns every mandatory message to a direct reply address, those it has handed
        // over too, because that is no queue: a return would say nothing.
        mandatory: !isDirect,
        ...(correlationId !== null && { correlationId }),
      },
    })
  }

  async drain(deadline: AbortSignal): Promise<void> {
    await Promise.all([this.#publisher.drain(deadline), this.#direct.drain(deadline)])
  }

  stop(): void {
    this.#publisher.stop()
    this.#direct.stop()
  }

  /** `refused`: it is still not open, or not open again, when nobody waits for the answer any more. */
  async #sendInTime(publisher: Publisher, answer: Outgoing): Promise<PublishOutcome> {
    const until = performance.now() + this.#answerMs
    for (;;) {
      const leftMs = Math.max(0, until - performance.now())
      const isOpen = await this.#opening.untilOpen(publisher, answer.content.length, leftMs)
      const outcome = isOpen ? await publisher.send(answer) : 'refused'
      // Where it is open it is refused for another reason; else it was closed at that moment.
      if (!isOpen || outcome !== 'refused' || publisher.isOpen) return outcome
    }
  }

  #message(type: string, body: string): Omit<Outgoing, 'queue' | 'exchange' | 'routingKey'> {
    this.#sent += 1
    const id = `ojs.control.${this.#sent}`
    return {
      id,
      rungMs: null,
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

/** Something that we may publish an answer to: a queue of the asker's, or its direct reply-to. */
export function isReplyAddress(replyTo: string): boolean {
  return (
    replyTo !== '' &&
    Buffer.byteLength(replyTo) <= MAX_SHORT_BYTES &&
    !OWN_NAME.test(replyTo) &&
    !CONTROL_CHARACTER.test(replyTo)
  )
}
