/** Progress and checkpoints of a native worker's job, by control message. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { LiveDelivery } from '../broker/consume/delivery.ts'
import { OjsError } from '../errors.ts'
import { checkpointText, dataText } from '../job/progress.ts'
import { parseJsonObject } from '../schemas/json/json-text.ts'
import { parseNativeCheckpoint, parseNativeProgress } from '../schemas/requests/progress.ts'
import { errorOfAnswer } from '../sdk/transport/errors.ts'
import type { LeaseNotes, ProgressNote } from '../sdk/worker/notes.ts'

/** How often the last checkpoint is asked for at most: for as long as another gateway needs to take over. */
const MOST_ASKED = 30
const ASK_AGAIN_MS = 1_000

export interface AmqpNotesDeps {
  /** Publishes a control message after the reports that wait. False: RabbitMQ has not confirmed it. */
  tell(queue: string, type: string, body: object): Promise<boolean>
  /** Null: no gateway answers, or none knows at the moment. */
  checkpointOf(queue: string, id: string): Promise<{ state?: unknown } | null>
}

export class AmqpNotes implements LeaseNotes {
  readonly #deps: AmqpNotesDeps
  readonly #delivery: () => LiveDelivery
  readonly #attempt: number
  readonly #workerId: () => string
  #last: { state: unknown } | undefined

  constructor(
    deps: AmqpNotesDeps,
    job: { delivery(): LiveDelivery; attempt: number; workerId(): string },
  ) {
    this.#deps = deps
    this.#delivery = job.delivery
    this.#attempt = job.attempt
    this.#workerId = job.workerId
  }

  progress(note: ProgressNote): Promise<void> {
    return this.#tell('ojs.control.progress', note, (body) => {
      const { data } = parseNativeProgress(body)
      if (data != null) dataText(data)
    })
  }

  async checkpoint(state: unknown): Promise<void> {
    await this.#tell('ojs.control.checkpoint', { state }, (body) => {
      checkpointText(parseNativeCheckpoint(body).state, 'state')
    })
    this.#last = { state }
  }

  /**
   * Asks a gateway, since the job message does not carry it. A job that was given back runs as the same attempt again: a
   * first attempt may have one too, most of all if its message was delivered before.
   */
  async lastCheckpoint(): Promise<unknown> {
    if (this.#last !== undefined) return this.#last.state
    const { id, queue, generation, redelivered } = this.#delivery()
    const mayHaveRun = this.#attempt > 1 || generation > 0 || redelivered
    for (let asked = 0; asked < MOST_ASKED; asked += 1) {
      if (asked > 0) await sleep(ASK_AGAIN_MS, undefined, { ref: false })
      const found = await this.#deps.checkpointOf(queue, id)
      if (found !== null) return found.state
      if (!mayHaveRun) return undefined
    }
    throw new Error('No gateway has answered where the job had stopped.')
  }

  /** `check` throws what the gateway would refuse: there is no answer, so nobody else could tell the handler. */
  async #tell(
    type: string,
    note: object,
    check: (body: Record<string, unknown>) => void,
  ): Promise<void> {
    const { id, queue, generation } = this.#delivery()
    const attempt = { job_id: id, generation, attempt: this.#attempt, worker_id: this.#workerId() }
    const body = { ...attempt, ...note }
    try {
      check(parseJsonObject(Buffer.from(JSON.stringify(body))))
    } catch (error) {
      throw asAnswered(error)
    }
    if (await this.#deps.tell(queue, type, body)) return
    throw new Error(`RabbitMQ has not confirmed a message of the type ${type}.`)
  }
}

/** The error that an HTTP worker would get. */
function asAnswered(error: unknown): unknown {
  if (!(error instanceof OjsError)) return error
  const { code, message, retryable, details, status } = error
  return errorOfAnswer({ status, body: { error: { code, message, retryable, details } } }) ?? error
}
