/** FETCH: takes buffered deliveries, claims their jobs in one transaction, settles the rest. */
import type { Delivery } from '../../broker/broker.ts'
import { isTerminal, type JobRow } from '../../job/job.ts'
import { earlySchedule } from '../../job/native/schedule.ts'
import { checkQueueName } from '../../job/queue-name.ts'
import type { FetchRequest } from '../../job/request.ts'
import { leaseMsOf } from '../../job/values/duration.ts'
import type { ClaimResult, ClaimTerms } from '../../ledger/leases.ts'
import { busy, type MemoryShare, UNCOUNTED_BYTES } from '../../memory.ts'
import { heapOfText } from '../../schemas/json/json-heap.ts'
import { parseFetch } from '../../schemas/requests/validator.ts'
import { storedEvent } from '../../telemetry/events.ts'
import { fetching } from '../../telemetry/tracing.ts'
import { adoptedJob, reportedError } from '../adopt/adopt.ts'
import type { Deps, RequestContext } from '../deps.ts'
import { emitPromoted } from '../emit-promoted.ts'
import { followNews } from '../job-end.ts'
import { acknowledgeEarly } from '../lease/hand-over.ts'
import { deadLetterDelivery, requeueLease, toDeadLetters } from '../lease/lease-end.ts'
import { isPaused } from '../queues/pause.ts'
import { requireConsuming } from '../require-broker.ts'
import { requireQueueInScope } from '../scope.ts'
import { Fetched, type Round } from './fetched.ts'
import { takeBackStart, withinLimits } from './rate-limits.ts'

const MAX_COUNT = 100
const MAX_WAIT_MS = 30_000

/**
 * FETCH (seed 001 §7.3, seed 002 §5.2): takes job messages from the gateway's delivery buffers and claims
 * their jobs in one transaction. Returns an empty list when there is no job. Throws 400 and 503.
 */
export async function fetch(
  deps: Deps,
  body: unknown,
  context: RequestContext,
  signal: AbortSignal,
): Promise<JobRow[]> {
  const request = askedFor(parseFetch(body))
  // The body is parsed: a long poll must not keep the memory that was reserved for it.
  context.memory?.giveBack()
  for (const [i, queue] of request.queues.entries()) {
    checkQueueName(queue, deps.settings.prefix, `queues[${i}]`)
    requireQueueInScope(context, queue, `queues[${i}]`)
  }
  requireConsuming(deps)
  if (!mayFetch(deps, request)) return []
  const { queues, worker_id: workerId } = request
  // Returned without `await`: an await would keep this function's reference to `body` during the long poll.
  return fetching({ queues, workerId }, context, () => poll(deps, request, context, signal))
}

/** Copies the fields that FETCH uses: a long poll must not keep the rest of the body, perhaps megabytes. */
function askedFor(body: FetchRequest): FetchRequest {
  return {
    queues: body.queues,
    count: body.count ?? body.batch_size ?? null,
    worker_id: body.worker_id ?? null,
    visibility_timeout_ms: leaseMsOf(body, 'visibility_timeout'),
    wait_ms: body.wait_ms ?? null,
  }
}

/**
 * Takes and claims deliveries in rounds until it has `count` jobs or no delivery is left. One round is not
 * enough: it may bring messages of jobs that have ended or may not start yet, and these must not take the
 * place of available jobs behind them (seed 001 §7.3).
 */
async function poll(
  deps: Deps,
  request: FetchRequest,
  context: RequestContext,
  signal: AbortSignal,
): Promise<JobRow[]> {
  const { queues } = request
  const waitMs = clamp(request.wait_ms ?? 0, 0, MAX_WAIT_MS)
  const count = clamp(request.count ?? 1, 0, MAX_COUNT)
  const fetched = new Fetched({ queues, count, waitMs }, deps.clock)
  while (!fetched.isOver) {
    const deliveries = await deps.broker.take({
      ...fetched.next(),
      hasClaimable: (queue, beyond = 0) => deps.ledger.known.claimable(queue) > beyond,
      signal,
    })
    if (deliveries.length === 0) break
    const round = await sift(deps, deliveries, request, context, fetched.hasSome)
    fetched.add(round)
    if (!fetched.hasSome) context.memory?.giveBack()
    if (round.isLast || signal.aborted) break
    if (!fetched.hasSome) await passOver(deps, deliveries, request, context)
  }
  return withoutPaused(deps, fetched.jobs)
}

/**
 * After a round without any job: settles at once what else of these queues belongs to jobs that are over. A
 * FETCH of one job would pass over one message per commit, behind a bulk cancel of thousands. Jobs that can run
 * stay in the buffer, in their place, for whoever is next.
 */
async function passOver(
  deps: Deps,
  round: readonly Delivery[],
  request: FetchRequest,
  context: RequestContext,
): Promise<void> {
  for (const queue of new Set(round.map((delivery) => delivery.queue))) {
    const next = deps.broker.peek(queue, MAX_COUNT)
    const rows = await deps.ledger.read.standings(next.map(({ id }) => id))
    const over = next.filter(({ id }) => isTerminal(rows.get(id)?.state ?? 'available'))
    const taken = deps.broker.takeThese(queue, over)
    // One may have been retried meanwhile.
    const claimed = await claim(deps, withoutStaged(deps, taken), request, context)
    await giveBack(deps, claimed)
  }
}

/**
 * A FETCH that has claimed some jobs may wait for more, and their queue be paused meanwhile. After PAUSE was
 * answered none of its jobs is handed out, so these go back, and the attempts are not counted.
 */
function withoutPaused(deps: Deps, jobs: JobRow[]): JobRow[] {
  const paused = jobs.filter(({ queue }) => isPaused(deps, queue))
  if (paused.length === 0) return jobs
  void giveBack(deps, paused).catch((err) => {
    deps.logger.warn({ err, jobs: paused.length }, 'jobs of a paused queue could not be given back')
  })
  return jobs.filter((job) => !paused.includes(job))
}

interface Sifted extends Round {
  /** True: every delivery became a job, there is no memory for more, or the worker may not fetch now. */
  isLast: boolean
}

const NOTHING_MORE: Sifted = { jobs: [], bytes: 0, isLast: true }

/**
 * Claims the jobs of `deliveries`. `hasSome`: earlier rounds of this FETCH have claimed jobs. A failure
 * then only ends the FETCH; an error would lose those jobs for the client until their leases run out.
 */
async function sift(
  deps: Deps,
  deliveries: Delivery[],
  request: FetchRequest,
  context: RequestContext,
  hasSome: boolean,
): Promise<Sifted> {
  if (!mayFetch(deps, request)) {
    // An operator told the worker to stop fetching while this FETCH waited.
    deps.broker.putBack(deliveries)
    return NOTHING_MORE
  }
  try {
    const whole = withoutStaged(deps, deliveries)
    const fit = withinMemory(deps, whole, context.memory)
    const jobs = await claim(deps, withinLimits(deps, fit), request, context)
    const isFull = fit.length < whole.length && (hasSome || jobs.length > 0)
    // A checkpoint is in the answer twice.
    const resumed = jobs.reduce((sum, job) => sum + 2 * (job.checkpoint?.state.length ?? 0), 0)
    const bytes = fit.reduce((sum, { size }) => sum + size, resumed)
    return { jobs, bytes, isLast: isFull || jobs.length === deliveries.length }
  } catch (err) {
    if (!hasSome) throw err
    const { requestId } = context
    deps.logger.warn(
      { err, requestId },
      'FETCH answered without its last jobs: they could not be claimed',
    )
    return NOTHING_MORE
  }
}

/** Notes the worker as seen. Returns false when it was told to stop fetching (seed 001 §10.4). */
function mayFetch(deps: Deps, { worker_id: workerId, queues }: FetchRequest): boolean {
  return workerId == null || deps.workers.fetched(workerId, queues)
}

/**
 * Gives fetched jobs back that are not answered, as when the HTTP client has disconnected: they return to
 * the head of the buffer and the attempt is not counted (docs/architecture.md §4.4).
 */
export async function giveBack(deps: Deps, jobs: readonly JobRow[]): Promise<void> {
  await Promise.all(jobs.map((job) => requeueLease(deps, job.id, job)))
}

/** Parks the job messages of a batch whose confirms are not all in: the batch may still be withdrawn. */
function withoutStaged(deps: Deps, deliveries: Delivery[]): Delivery[] {
  if (deps.jobMessages.staging.size === 0) return deliveries
  return deliveries.filter((delivery) => {
    const isStaged = deps.jobMessages.staging.has(delivery.id)
    if (isStaged) deps.broker.park(delivery, null)
    return !isStaged
  })
}

async function claim(
  deps: Deps,
  deliveries: readonly Delivery[],
  request: FetchRequest,
  context: RequestContext,
): Promise<JobRow[]> {
  if (deliveries.length === 0) return []
  const terms = termsOf(deps, request, context)
  const jobMessages = deliveries.map((delivery) => ({
    id: delivery.id,
    queue: delivery.queue,
    generation: delivery.generation,
    attempt: delivery.attempt,
    isHeldDelivery: deps.jobMessages.held.get(delivery.id) === delivery,
    reportedError: () => reportedError(delivery.message.headers),
    adopt: () => adoptedJob(deps, delivery, scheduleOf(delivery)),
  }))
  let results: ClaimResult[]
  try {
    results = await deps.ledger.claim(jobMessages, terms)
  } catch (error) {
    for (const delivery of deliveries) takeBackStart(deps, delivery)
    deps.broker.putBack(deliveries)
    throw error
  }
  const jobs: JobRow[] = []
  for (const [i, delivery] of deliveries.entries()) {
    const result = results[i]
    if (result) settle(deps, delivery, result, context)
    if (result?.verdict === 'claimed') jobs.push(result.job)
    else takeBackStart(deps, delivery)
  }
  await acknowledgeEarly(deps, jobs)
  return jobs
}

function scheduleOf({ attempt, message }: Delivery): ReturnType<typeof earlySchedule> {
  return earlySchedule(attempt, message.headers)
}

function termsOf(deps: Deps, request: FetchRequest, cause: RequestContext): ClaimTerms {
  return {
    now: deps.clock.now(),
    wall: deps.clock.wall(),
    workerId: request.worker_id ?? null,
    leaseMs: request.visibility_timeout_ms ?? null,
    defaultLeaseMs: deps.settings.visibilityTimeoutMs,
    cause,
  }
}

/** Does to the delivery what the arrival table decided; the ledger has committed its part. */
function settle(
  deps: Deps,
  delivery: Delivery,
  result: ClaimResult,
  context: RequestContext,
): void {
  switch (result.verdict) {
    case 'claimed':
      deps.jobMessages.unsure.forget(delivery.id)
      delivery.forgetContent()
      deps.jobMessages.held.set(result.job.id, delivery)
      if (result.promoted) emitPromoted(deps, result.job)
      deps.events.emit({ type: 'job.started', job: result.job, requestId: context.requestId })
      return
    case 'drop':
    case 'held':
    case 'tombstoned':
      drop(deps, delivery)
      return
    case 'scheduled':
      drop(deps, delivery)
      deps.events.emit({ type: storedEvent(result.job), job: result.job })
      return
    case 'expired':
      if (result.news !== undefined) followNews(deps, result.news)
      drop(deps, delivery)
      deps.events.emit({ type: 'job.expired', job: result.job })
      return
    case 'exhausted':
      if (result.news !== undefined) followNews(deps, result.news)
      deps.events.emit({ type: 'job.discarded', job: result.job })
      deadLetterDelivery(deps, delivery, result.job)
      return
    case 'dead-letter':
      deadLetterDelivery(deps, delivery, result.job)
      return
    case 'hand-over':
      // The delivery that was held for this lease is dead when its channel is gone; RabbitMQ has sent the
      // job message again as this delivery.
      if (!deps.jobMessages.held.get(result.job.id)?.isLive())
        deps.jobMessages.held.delete(result.job.id)
      // The ack was lost, so RabbitMQ delivers the job message once more; the lease is handed over then.
      if (delivery.ack() === 'lost') void deps.ledger.handBack([result.job]).catch(() => {})
      return
    case 'rearmed':
      delivery.ack()
      deps.wakeRelay()
      return
    case 'hold':
      deps.broker.park(delivery, result.until)
      return
    case 'keep':
      return
    case 'paused':
      deps.broker.putBack([delivery])
      return
    case 'malformed': {
      const { queue, id } = delivery
      deps.events.emit({ type: 'message.malformed', queue, id, error: result.error })
      toDeadLetters(deps, delivery)
      return
    }
  }
}

function drop(deps: Deps, delivery: Delivery): void {
  if (delivery.ack() !== 'settled') return
  deps.jobMessages.unsure.forget(delivery.id)
  deps.ledger.messageReturned(delivery.id, delivery.generation, delivery.attempt)
}

function clamp(value: number, low: number, high: number): number {
  return Math.min(Math.max(value, low), high)
}

/**
 * Returns the leading deliveries that `memory` has room for, since each becomes a row and a part of the
 * answer; puts the others back into the buffer. Throws 503 when there is no room for any.
 */
function withinMemory(
  deps: Deps,
  deliveries: Delivery[],
  memory: MemoryShare | undefined,
): Delivery[] {
  if (memory === undefined || isUncounted(deliveries)) return deliveries
  const firstWithoutRoom = deliveries.findIndex(
    ({ message }) => !memory.take(heapOfText(message.content)),
  )
  if (firstWithoutRoom === -1) return deliveries
  deps.broker.putBack(deliveries.slice(firstWithoutRoom))
  if (firstWithoutRoom === 0) throw busy()
  return deliveries.slice(0, firstWithoutRoom)
}

function isUncounted(deliveries: readonly Delivery[]): boolean {
  let bytes = 0
  for (const { size } of deliveries) bytes += size
  return bytes < UNCOUNTED_BYTES
}
