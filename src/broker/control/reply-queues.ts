/** May an answer go to the queue that an asker named? Only if it is the asker's own. */
import type { Clock } from '../../clock.ts'
import { classify } from '../connection/channel-error.ts'
import type { Connection } from '../connection/connection.ts'
import { isInTime } from '../connection/reconnect.ts'
import { ScratchChannel } from '../connection/temporary-channel.ts'

/** RabbitMQ chooses such names itself and lets nobody declare them: only who was told the name knows it. */
const SERVER_NAMED = 'amq.gen-'
/** How long a verdict counts: meanwhile the queue may be deleted and declared by somebody else. */
const VALID_MS = { exclusive: 30_000, shared: 10_000, missing: 1_000 } as const
const MAX_VERDICTS = 1_000
/** Most looks in a second, and looks that may wait. A look mostly costs a channel, and askers name any queue. */
const MAX_PER_SECOND = 20
const MAX_WAITING = 16
/** A queue whose node is down may take minutes to answer; the asker waits a second. */
const ANSWER_MS = 500
/** Most looks without an answer: each keeps its channel until RabbitMQ gives up. */
const MAX_UNANSWERED = 4

/** `unknown`: RabbitMQ could not be asked, or too many other queues are being looked at. */
type ReplyQueue = 'exclusive' | 'shared' | 'missing' | 'unknown'

/**
 * Finds out whose queue a `reply_to` names. The gateway may publish to any queue, its askers perhaps not: an
 * answer to a queue that others use would let an asker write there with the gateway's rights.
 *
 * A passive declare needs no permission, and fails with 405 for exactly the queues that are exclusive to
 * another connection. Such a queue has one reader, and went there with that connection.
 */
export class ReplyQueues {
  readonly #connection: Connection
  readonly #clock: Clock
  readonly #verdicts = new Map<string, { verdict: ReplyQueue; until: number }>()
  readonly #looks = new Map<string, Promise<ReplyQueue>>()
  #scratch: ScratchChannel
  #line: Promise<unknown> = Promise.resolve()
  #secondEnds = 0
  #looksOfSecond = 0
  #unanswered = 0

  /** `connection`: one that never publishes, so that an alarm does not block it. */
  constructor(connection: Connection, clock: Clock) {
    this.#connection = connection
    this.#clock = clock
    this.#scratch = new ScratchChannel(connection)
  }

  /** What is known without a look; `exclusive` also for a server-named queue. Null: nothing. */
  known(queue: string): ReplyQueue | null {
    if (queue.startsWith(SERVER_NAMED)) return 'exclusive'
    const known = this.#verdicts.get(queue)
    return known !== undefined && known.until > this.#clock.now() ? known.verdict : null
  }

  /** Asks RabbitMQ. Never rejects. */
  async look(queue: string): Promise<ReplyQueue> {
    const present = this.#looks.get(queue)
    if (present !== undefined) return present
    if (!this.#mayLook()) return 'unknown'
    const look = this.#line.then(() => this.#ask(queue)).finally(() => this.#looks.delete(queue))
    this.#line = look
    this.#looks.set(queue, look)
    return look
  }

  /** The answer was returned: the queue is gone, and its name may be another's from now on. */
  forget(queue: string): void {
    this.#verdicts.delete(queue)
  }

  #mayLook(): boolean {
    const now = this.#clock.now()
    if (now >= this.#secondEnds) {
      this.#secondEnds = now + 1_000
      this.#looksOfSecond = 0
    }
    this.#looksOfSecond += 1
    const hasRoom = this.#looks.size < MAX_WAITING && this.#unanswered < MAX_UNANSWERED
    return hasRoom && this.#looksOfSecond <= MAX_PER_SECOND
  }

  async #ask(queue: string): Promise<ReplyQueue> {
    const verdict = await this.#declaredPassively(queue)
    if (verdict === 'unknown') return verdict
    if (this.#verdicts.size >= MAX_VERDICTS) this.#verdicts.clear()
    this.#verdicts.set(queue, { verdict, until: this.#clock.now() + VALID_MS[verdict] })
    return verdict
  }

  async #declaredPassively(queue: string): Promise<ReplyQueue> {
    const scratch = this.#scratch
    try {
      const asked = scratch.run((channel) => channel.checkQueue(queue))
      if (await isInTime(asked, ANSWER_MS)) return 'shared'
      // The next look must not wait behind this one.
      this.#scratch = new ScratchChannel(this.#connection)
      void this.#abandon(scratch, asked)
      return 'unknown'
    } catch (error) {
      const { kind } = classify(error)
      if (kind === 'locked') return 'exclusive'
      return kind === 'not-found' ? 'missing' : 'unknown'
    }
  }

  async #abandon(scratch: ScratchChannel, asked: Promise<unknown>): Promise<void> {
    this.#unanswered += 1
    await asked.catch(() => {})
    await scratch.close()
    this.#unanswered -= 1
  }
}
