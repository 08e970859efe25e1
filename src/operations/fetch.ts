import type { Delivery } from '../broker/broker.ts'
import type { JobRow } from '../job/job.ts'
import { checkQueueName } from '../job/queue-name.ts'
import type { FetchRequest } from '../job/request.ts'
import type { ClaimResult, ClaimTerms } from '../ledger/leases.ts'
import { parseFetch } from '../schemas/validator.ts'
import { fetching } from '../telemetry/tracing.ts'
import type { Deps, RequestContext } from './deps.ts'
import { emitPromoted } from './emit-promoted.ts'
import { adoptedJob } from './enqueue/adopt.ts'
import { takeBackStart, withinLimits } from './fetch/fetch-limits.ts'
import { withinMemory } from './fetch/fetch-memory.ts'
import { Fetched, type Round } from './fetch/fetched.ts'
import { acknowledgeEarly } from './lease/hand-over.ts'
import { deadLetterDelivery, requeueLease, toDeadLetters } from './lease/lease-end.ts'
import { reportedError } from './native/reported-error.ts'
import { requireConsuming } from './require-broker.ts'

const MAX_COUNT = 100
const MAX_WAIT_MS = 30_000

/**
 * FETCH (seed 001 §7.3, seed 002 §5.2): takes tokens from the buffers and claims their jobs in one
 * transaction. An empty list is a normal answer. Throws 400 and 503.
 */
export async function fetch(
  deps: Deps,
  body: unknown,
  context: RequestContext,
  signal: AbortSignal,
): Promise<JobRow[]> {
  const request = askedFor(parseFetch(body))
  // Only until here, however long it waits now.
  context.memory?.giveBack()
  for (const [i, queue] of request.queues.entries()) {
    checkQueueName(queue, deps.settings.prefix, `queues[${i}]`)
  }
  requireConsuming(deps)
  if (!mayFetch(deps, request)) return []
  const { queues, worker_id: workerId } = request
  // Not awaited here: this frame holds the body.
  return fetching({ queues, workerId }, context, () => poll(deps, request, context, signal))
}

/** The rest of the body is not kept while there is no job: it may be megabytes, for each who waits. */
function askedFor(body: FetchRequest): FetchRequest {
  return {
    queues: body.queues,
    count: body.count ?? null,
    worker_id: body.worker_id ?? null,
    visibility_timeout_ms: body.visibility_timeout_ms ?? null,
    wait_ms: body.wait_ms ?? null,
  }
}

/**
 * Rounds, until `count` jobs are there or nothing is left that could be one: the token of a job that
 * is over, or whose turn has not come, must not stand for one that is available (seed 001 §7.3).
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
      hasClaimable: (queue, beyond = 0) => deps.ledger.claimable(queue) > beyond,
      signal,
    })
    if (deliveries.length === 0) break
    const round = await sift(deps, deliveries, request, context, fetched.hasSome)
    fetched.add(round)
    if (!fetched.hasSome) context.memory?.giveBack()
    if (round.isLast || signal.aborted) break
  }
  return fetched.jobs
}

interface Sifted extends Round {
  /** Each delivery was a job, there is no memory for more, or the worker may have none. */
  isLast: boolean
}

const NOTHING_MORE: Sifted = { jobs: [], bytes: 0, isLast: true }

/** Those of them that are jobs. `hasSome`: the fetch has others, which no failure may take from it. */
async function sift(
  deps: Deps,
  deliveries: Delivery[],
  request: FetchRequest,
  context: RequestContext,
  hasSome: boolean,
): Promise<Sifted> {
  if (!mayFetch(deps, request)) {
    // It was told while it waited.
    deps.broker.putBack(deliveries)
    return NOTHING_MORE
  }
  try {
    const whole = withoutStaged(deps, deliveries)
    const fit = withinMemory(deps, whole, context.memory)
    const jobs = await claim(deps, withinLimits(deps, fit), request, context)
    const isFull = fit.length < whole.length && (hasSome || jobs.length > 0)
    const bytes = fit.reduce((sum, { size }) => sum + size, 0)
    return { jobs, bytes, isLast: isFull || jobs.length === deliveries.length }
  } catch (err) {
    if (!hasSome) throw err
    const { requestId } = context
    deps.logger.warn({ err, requestId }, 'a FETCH is answered without what came last')
    return NOTHING_MORE
  }
}

/** Notes the worker as seen. False: it was told to stop fetching (seed 001 §10.4), and gets nothing. */
function mayFetch(deps: Deps, { worker_id: workerId, queues }: FetchRequest): boolean {
  return workerId == null || deps.workers.fetched(workerId, queues)
}

/**
 * The client of a FETCH was gone before its answer was written: the jobs go back to the head of
 * the buffer and the attempt is not counted (architecture §4.4).
 */
export async function giveBack(deps: Deps, jobs: readonly JobRow[]): Promise<void> {
  await Promise.all(jobs.map((job) => requeueLease(deps, job)))
}

/** Tokens of a batch that is not whole yet wait for the rest of it. */
function withoutStaged(deps: Deps, deliveries: Delivery[]): Delivery[] {
  if (deps.tokens.staging.size === 0) return deliveries
  return deliveries.filter((delivery) => {
    const isStaged = deps.tokens.staging.has(delivery.id)
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
  const terms = termsOf(deps, request)
  const tokens = deliveries.map((delivery) => ({
    id: delivery.id,
    queue: delivery.queue,
    generation: delivery.generation,
    attempt: delivery.attempt,
    isHeldDelivery: deps.tokens.held.get(delivery.id) === delivery,
    reportedError: () => reportedError(delivery.message.headers),
    adopt: () => adoptedJob(deps, delivery),
  }))
  let results: ClaimResult[]
  try {
    results = await deps.ledger.claim(tokens, terms)
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

function termsOf(deps: Deps, request: FetchRequest): ClaimTerms {
  return {
    now: deps.clock.now(),
    wall: deps.clock.wall(),
    workerId: request.worker_id ?? null,
    leaseMs: request.visibility_timeout_ms ?? null,
    defaultLeaseMs: deps.settings.visibilityTimeoutMs,
  }
}

/** What the arrival table decided, done to the delivery; the ledger's part is committed. */
function settle(
  deps: Deps,
  delivery: Delivery,
  result: ClaimResult,
  context: RequestContext,
): void {
  switch (result.verdict) {
    case 'claimed':
      deps.tokens.unsure.forget(delivery.id)
      delivery.forgetContent()
      deps.tokens.held.set(result.job.id, delivery)
      if (result.promoted) emitPromoted(deps, result.job)
      deps.events.emit({ type: 'job.started', job: result.job, requestId: context.requestId })
      return
    case 'drop':
    case 'tombstoned':
      drop(deps, delivery)
      return
    case 'expired':
      drop(deps, delivery)
      deps.events.emit({ type: 'job.expired', job: result.job })
      return
    case 'exhausted':
      deps.events.emit({ type: 'job.discarded', job: result.job })
      deadLetterDelivery(deps, delivery, result.job)
      return
    case 'dead-letter':
      deadLetterDelivery(deps, delivery, result.job)
      return
    case 'hand-over':
      // What was held for the lease came over a channel that is gone.
      if (!deps.tokens.held.get(result.job.id)?.isLive()) deps.tokens.held.delete(result.job.id)
      // RabbitMQ gives it out again: that time it is handed over.
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
    case 'malformed': {
      const { queue, id } = delivery
      deps.events.emit({ type: 'token.malformed', queue, id, error: result.error })
      toDeadLetters(deps, delivery)
      return
    }
  }
}

function drop(deps: Deps, delivery: Delivery): void {
  if (delivery.ack() !== 'settled') return
  deps.tokens.unsure.forget(delivery.id)
  deps.ledger.tokenReturned(delivery.id, delivery.generation, delivery.attempt)
}

function clamp(value: number, low: number, high: number): number {
  return Math.min(Math.max(value, low), high)
}
