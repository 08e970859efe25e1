/** Jobs from the delayed exchange: the ledger holds them, and foreign retries, until they are due. */
import type { ControlVerdict, ScheduledMessage } from '../../broker/broker.ts'
import { queueRefusal } from '../../broker/broker-errors.ts'
import { OjsError } from '../../errors.ts'
import { freshRow, type NewJob } from '../../job/job.ts'
import { nativeDueAt } from '../../job/native/schedule.ts'
import { UNREPORTED } from '../../job/retry/error-history.ts'
import { failureOf } from '../../job/retry/failure.ts'
import { storedEvent } from '../../telemetry/events.ts'
import { adoptedJob, reportedError } from '../adopt/adopt.ts'
import type { Deps } from '../deps.ts'
import { recordReports } from './report.ts'

/** The queue that these messages come from; also the `queue` of `message.malformed` events about them. */
const SOURCE = 'ojs.system.due'
/** Stands for the worker whose attempt failed before a delayed retry: the message does not name it. */
const SOMEBODY = 'native'

/**
 * Adopts a scheduled job that a native client published to `ojs.exchange.delayed` (seed 002 §9.1.2): the
 * ledger holds it until it is due, like one that came over HTTP. Returns `handled` after the commit, or when
 * there is nothing to do because the id is known (a redelivery) or was cancelled before. Rejects when the
 * message should be delivered again: the ledger or RabbitMQ cannot be asked now.
 */
export async function adoptSchedule(
  deps: Deps,
  message: ScheduledMessage,
): Promise<ControlVerdict> {
  const schedule = readSchedule(deps, message)
  if (schedule instanceof OjsError) return refuse(deps, message, schedule)
  const refusal = await queueRefused(deps, schedule.job.queue)
  if (refusal !== null) return refuse(deps, message, refusal)
  if (message.attempt > 1) await storeRetry(deps, message, schedule)
  else await store(deps, schedule.job)
  return 'handled'
}

interface Schedule {
  job: NewJob
  /** Milliseconds from now; 0: at once. */
  delayMs: number
}

/** Validates as strictly as for any foreign job message; the queue is the message's routing key. */
function readSchedule(deps: Deps, message: ScheduledMessage): Schedule | OjsError {
  try {
    const wall = deps.clock.wall()
    const dueAt = nativeDueAt(message.message.headers, wall)
    const job = adoptedJob(deps, message, { dueAt })
    const { start } = job
    return { job, delayMs: start.state === 'scheduled' ? start.dueAt - wall : 0 }
  } catch (error) {
    if (error instanceof OjsError) return error
    // Any other error is caused by this message too, and a redelivery would fail in the same way.
    return new OjsError('invalid_request', 'The message cannot be read.', { cause: error })
  }
}

function refuse(deps: Deps, { id }: ScheduledMessage, error: OjsError): ControlVerdict {
  deps.events.emit({ type: 'message.malformed', queue: SOURCE, id, error })
  return 'malformed'
}

/**
 * Returns why a schedule's queue is refused, by the same bounds that limit which queues HTTP clients can make
 * the gateway declare; null: the job may be stored. Does not wait for a known queue that is not available
 * now: the relay publishes the job message later, and waiting here would hold up the schedules of other
 * queues.
 */
async function queueRefused(deps: Deps, queue: string): Promise<OjsError | null> {
  if (deps.broker.isDeclared(queue) || deps.ledger.known.hasQueue(queue)) return null
  const outcome = await deps.broker.ensureQueue(queue)
  switch (outcome) {
    case 'ready':
    case 'lossy':
    case 'access-refused':
    case 'lost':
      return null
    case 'missing':
    case 'too-many-queues':
      return queueRefusal(queue, outcome)
    case 'unavailable':
      throw queueRefusal(queue, outcome)
  }
}

async function store(deps: Deps, job: NewJob): Promise<void> {
  const inserted = await deps.ledger.adoptSchedule(job, deps.clock.now())
  if (inserted.outcome !== 'inserted') return
  const row = freshRow(job, inserted)
  deps.events.emit({ type: storedEvent(row), job: row })
  if (row.outbox !== null) deps.wakeRelay()
}

/**
 * Records a foreign worker's retry by way of the delayed exchange (seed 002 §8.4): the message means that the
 * attempt before has failed and that the next one is due after `delayMs`. The worker has acknowledged the
 * job message of the failed attempt itself.
 */
async function storeRetry(
  deps: Deps,
  message: ScheduledMessage,
  { delayMs }: Schedule,
): Promise<void> {
  const { id, generation, attempt } = message
  const { code, message: text } = reportedError(message.message.headers) ?? {
    code: UNREPORTED,
    message: 'A native worker retried the job without giving a reason.',
  }
  const event = {
    id,
    generation,
    attempt: attempt - 1,
    workerId: SOMEBODY,
    said: {
      event: 'failed',
      failure: failureOf({ code, message: text }),
      outcome: { decision: 'retry', delay_ms: delayMs },
    },
    adopt: () => adoptedJob(deps, message),
  } as const
  await recordReports(deps, [event], { requestId: `req_${deps.newId()}` })
}
