/** One message in hand: its job's attempt, from its begin to its settlement. */
import type { LiveDelivery } from '../broker/consume/delivery.ts'
import { OJS_HEADERS } from '../broker/messages/headers.ts'
import { attemptKey } from '../job/native/report.ts'
import type { ReportedOutcome } from '../job/request.ts'
import { failureOf } from '../job/retry/failure.ts'
import type { Job } from '../sdk/job.ts'
import type { JobError, Lease, Settlement } from '../sdk/worker/source.ts'
import {
  type EventName,
  errorMember,
  eventText,
  leanErrorMember,
  resultMember,
  startMember,
  unusable,
} from './event-text.ts'
import { AmqpNotes, type AmqpNotesDeps } from './lease-notes.ts'
import type { MessageJob } from './message-job.ts'
import type { OneByOne } from './one-by-one.ts'
import { shownMembers } from './reported-job.ts'
import type { ReportOutcome } from './reporter.ts'
import type { FailedRun } from './retry-message.ts'

export type Ending = 'ack' | 'dead-letter' | 'give-back'

export interface LeaseDeps extends AmqpNotesDeps {
  workerId(): string
  /** Wall time, ms. */
  now(): number
  started(queue: string, key: string, event: string): void
  report(queue: string, key: string, event: string, isStart?: boolean): Promise<ReportOutcome>
  decide(run: FailedRun): Promise<ReportedOutcome>
  /** Begins last attempts, which are recorded first, one after another. */
  lastAttempts: OneByOne
  /** Called when the delivery is settled or lost with its channel; a lost job message is delivered again. */
  onOver(lease: AmqpLease, ending: Ending): void
}

/** `isRecorded`: its start must be recorded before it runs. `isStarted`: a gateway has begun it already. */
export interface RunAs {
  attempt: number
  isRecorded: boolean
  isStarted?: boolean
}

/**
 * `waiting`: not begun. `running`: its handler runs. `failing`: its handler has failed, and a way for the
 * next job message is being looked for, which takes seconds if the retry queue is new. `ending`: the next
 * message or the report of the end is on its way, so heartbeats must not name the job any more. `over`:
 * settled, given back or cancelled.
 */
type Phase = 'waiting' | 'running' | 'failing' | 'ending' | 'over'

/** One job message in hand, run as attempt `attempt`. */
export class AmqpLease implements Lease {
  readonly job: Job
  readonly attempt: number
  readonly traceparent?: string
  readonly tracestate?: string
  /** Replaced when RabbitMQ delivers the same job message again. */
  delivery: LiveDelivery
  phase: Phase = 'waiting'
  readonly notes: AmqpNotes
  readonly #deps: LeaseDeps
  readonly #jobMessage: MessageJob
  /** `started` must be confirmed before the handler runs, because the handler may kill the process. */
  readonly #mustRecordStart: boolean
  /** The `started` event was sent, or is about to be. */
  #isStartTold = false
  /** Wall time, ms. */
  #startedAt = 0

  constructor(deps: LeaseDeps, delivery: LiveDelivery, jobMessage: MessageJob, run: RunAs) {
    this.#deps = deps
    this.#jobMessage = jobMessage
    this.delivery = delivery
    this.attempt = run.attempt
    this.notes = new AmqpNotes(deps, {
      delivery: () => this.delivery,
      attempt: run.attempt,
      workerId: deps.workerId,
    })
    this.#mustRecordStart = run.isRecorded
    this.#isStartTold = run.isStarted ?? false
    this.job = { ...jobMessage.job, attempt: run.attempt }
    const headers = delivery.raw.properties.headers ?? {}
    const traceparent: unknown = headers[OJS_HEADERS.traceId]
    const tracestate: unknown = headers[OJS_HEADERS.traceState]
    if (typeof traceparent === 'string') this.traceparent = traceparent
    if (typeof tracestate === 'string') this.tracestate = tracestate
  }

  get isOver(): boolean {
    return this.phase === 'over'
  }

  /** Whether heartbeats must name the job: otherwise the gateway would take it for dead. */
  get isAtWork(): boolean {
    return this.phase === 'running' || this.phase === 'failing'
  }

  begin(): boolean | Promise<boolean> {
    if (this.phase !== 'waiting') return false
    if (this.#mustRecordStart) {
      const isLast = this.attempt >= this.#jobMessage.maxAttempts
      const begin = () => this.#beginRecorded()
      return isLast ? this.#deps.lastAttempts.run(begin) : begin()
    }
    const isTold = this.#isStartTold
    this.#isStartTold = true
    if (!isTold) this.#deps.started(this.#queue, this.#key, this.#event('started'))
    this.#run()
    return true
  }

  /**
   * Confirms `started` before the handler runs. Otherwise the attempts of a job that kills its worker would
   * not be counted, and it would be tried for ever.
   */
  async #beginRecorded(): Promise<boolean> {
    // Cancelled or given back while others began.
    if (this.phase !== 'waiting') return false
    this.#isStartTold = true
    const report = (event: string) => this.#deps.report(this.#queue, this.#key, event, true)
    let outcome = await report(this.#event('started'))
    if (outcome === 'too-large') outcome = await report(this.#bareEvent('started', ''))
    const isReported = outcome === 'reported'
    // The job was cancelled or given back while the report was under way.
    if (this.phase !== 'waiting') return false
    if (isReported && this.delivery.isLive()) {
      this.#run()
      return true
    }
    // The channel was lost meanwhile: another worker may have got the job message and run it.
    if (isReported) await this.release()
    else this.#end('give-back')
    return false
  }

  #run(): void {
    this.phase = 'running'
    this.#startedAt = this.#deps.now()
  }

  /** Reports the end, waits for the confirm, then acknowledges (docs/architecture.md, law 2). */
  async complete(result: unknown): Promise<Settlement> {
    const member = resultMember(result)
    if (typeof member !== 'string') return this.fail(member)
    const members = `${startMember(this.#startedAt)}${member}`
    const settlement = await this.#finish('ack', () => this.#event('completed', members))
    if (settlement !== 'too-large') return settlement
    return this.fail(unusable("it is larger than RabbitMQ's max_message_size"))
  }

  /** Publishes the next job message or leaves it to the gateway, reports that, then settles the delivery. */
  async fail(error: JobError): Promise<Settlement> {
    if (this.isOver) return 'stale'
    this.phase = this.phase === 'running' ? 'failing' : 'ending'
    const { delivery, attempt } = this
    const failure = failureOf(error)
    const run = { delivery, jobMessage: this.#jobMessage, attempt, failure }
    const outcome = await this.#deps.decide({ ...run, onPublish: () => this.#stopNaming() })
    const ending = outcome.decision === 'discard' ? 'dead-letter' : 'ack'
    const next = `,"outcome":${JSON.stringify(outcome)}`
    const isLeft = outcome.decision === 'retry' && outcome.rung_ms == null
    const lean = leanErrorMember(failure) + next
    const settlement = await this.#finish(
      ending,
      () => this.#event('failed', errorMember(failure) + next, isLeft),
      () => this.#event('failed', lean, isLeft),
      // A gateway that takes over the retry needs the job in the event.
      ...(isLeft ? [] : [() => this.#bareEvent('failed', lean)]),
    )
    return this.#endUntold(settlement)
  }

  /**
   * Called right before the next job message is published. Another worker may get that message and fail at
   * once; a heartbeat that still named the job would then make the gateway begin another attempt.
   */
  #stopNaming(): void {
    if (this.phase === 'failing') this.phase = 'ending'
  }

  /** Ends a job whose `expires_at` has passed: it does not run, and the gateway discards it. */
  async expire(): Promise<Settlement> {
    return this.#endUntold(await this.#finish('ack', () => this.#event('expired')))
  }

  /**
   * Reports, waits for the confirm, then requeues: the next consumer may run the job at once, as this
   * attempt.
   */
  async release(): Promise<void> {
    if (this.isOver) return
    if (!this.#isStartTold) return this.#end('give-back')
    const jobMessage = `,"token_attempt":${this.delivery.attempt}`
    await this.#finish('give-back', () => this.#event('released', jobMessage))
  }

  /** The job was cancelled: drops its job message once that is reported. */
  async cancel(): Promise<void> {
    if (this.phase !== 'waiting' && this.phase !== 'running') return
    this.phase = 'over'
    if (await tellDropped(this.#deps, this.delivery)) this.#end('ack')
  }

  /**
   * Reports the first of `events` that RabbitMQ accepts, then settles the delivery. `too-large`: RabbitMQ
   * accepts none of them.
   */
  async #finish(
    ending: Ending,
    ...events: readonly (() => string)[]
  ): Promise<Settlement | 'too-large'> {
    if (this.isOver) return 'stale'
    this.phase = 'ending'
    for (const event of events) {
      const outcome = await this.#deps.report(this.#queue, this.#key, event())
      if (this.isOver) return 'stale'
      if (outcome === 'too-large') continue
      // The delivery stays unsettled: RabbitMQ gives the job message to the next consumer when this channel
      // ends.
      if (outcome === 'given-up') return 'failed'
      this.#end(ending)
      return 'settled'
    }
    return 'too-large'
  }

  /**
   * If RabbitMQ accepts no message about the end, dead-letters the job message: the gateway then discards the
   * job because of the dead letter.
   */
  #endUntold(settlement: Settlement | 'too-large'): Settlement {
    if (settlement !== 'too-large') return settlement
    this.#end('dead-letter')
    return 'settled'
  }

  #end(ending: Ending): void {
    this.phase = 'over'
    settle(this.delivery, ending)
    this.#deps.onOver(this, ending)
  }

  get #queue(): string {
    return this.delivery.queue
  }

  get #key(): string {
    return attemptKey(this.delivery.generation, this.attempt, this.job.id)
  }

  #event(event: EventName, more = '', isLeft = false): string {
    const shown = shownMembers(this.#jobMessage, this.delivery, { event, beside: more, isLeft })
    return this.#bareEvent(event, more + shown)
  }

  #bareEvent(event: EventName, more: string): string {
    return eventText(this.#deps.now(), this.delivery, this.attempt, event, more)
  }
}

/**
 * Reports `dropped` for the message of a cancelled job; must be confirmed before the message is acknowledged.
 * Without this event the gateway might keep the cancelled job, and name it to every worker that syncs, for
 * ever. False: it was not reported, and the job message must stay unsettled, for RabbitMQ to give it to the
 * next consumer.
 */
export async function tellDropped(
  deps: Pick<LeaseDeps, 'now' | 'report'>,
  delivery: LiveDelivery,
): Promise<boolean> {
  // The channel is gone, so RabbitMQ delivers the job message again.
  if (!delivery.isLive()) return true
  const { id, generation, attempt, queue } = delivery
  const event = eventText(deps.now(), delivery, attempt, 'dropped')
  const outcome = await deps.report(queue, attemptKey(generation, attempt, id), event)
  return outcome !== 'given-up'
}

export function settle(delivery: LiveDelivery, ending: Ending): void {
  if (ending === 'ack') delivery.ack()
  else if (ending === 'dead-letter') delivery.deadLetter()
  else delivery.giveBack()
}
