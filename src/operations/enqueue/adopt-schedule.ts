import type { ControlVerdict, ScheduledMessage } from '../../broker/broker.ts'
import { queueRefusal } from '../../broker/refusals.ts'
import { OjsError } from '../../errors.ts'
import { UNREPORTED } from '../../job/error-history.ts'
import { failureOf } from '../../job/failure.ts'
import { freshRow, type NewJob } from '../../job/job.ts'
import { nativeDueAt } from '../../job/native-schedule.ts'
import type { Deps } from '../deps.ts'
import { recordReports } from '../native/report.ts'
import { reportedError } from '../native/reported-error.ts'
import { storedEvent } from '../push.ts'
import { adoptedJob } from './adopt.ts'

/** Where they come from; also the label of what is malformed there. */
const SOURCE = 'ojs.system.due'
/** Who failed the attempt before a delayed retry: the message does not say. */
const SOMEBODY = 'native'

/**
 * A native client's schedule (seed 002 §9.1.2), from `ojs.exchange.delayed`: a job of ours from now
 * on, held by the ledger until it is due like one that came over HTTP. `handled` after its commit,
 * or where nothing is to do: the id is known (a redelivery), or was cancelled before it came.
 * Rejects where the message should come again: the ledger or the broker cannot be asked now.
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
  /** From now; 0: at once. */
  delayMs: number
}

/** As strictly as any foreign token: the routing key is its queue. */
function readSchedule(deps: Deps, message: ScheduledMessage): Schedule | OjsError {
  try {
    const wall = deps.clock.wall()
    const dueAt = nativeDueAt(message.message.headers, wall)
    const job = adoptedJob(deps, message, { dueAt })
    const { start } = job
    return { job, delayMs: start.state === 'scheduled' ? start.dueAt - wall : 0 }
  } catch (error) {
    if (error instanceof OjsError) return error
    // Whatever it is, it is about this message, and would be so the next time.
    return new OjsError('invalid_request', 'The message cannot be read.', { cause: error })
  }
}

function refuse(deps: Deps, { id }: ScheduledMessage, error: OjsError): ControlVerdict {
  deps.events.emit({ type: 'token.malformed', queue: SOURCE, id, error })
  return 'malformed'
}

/**
 * The bounds on what clients can make us declare hold here too. Null: it may be stored. A queue that
 * we know and that is not to be had now is no reason to wait: the relay publishes when it is, and
 * whoever waited here would keep the schedules of other queues waiting.
 */
async function queueRefused(deps: Deps, queue: string): Promise<OjsError | null> {
  if (deps.broker.isDeclared(queue) || deps.ledger.hasQueue(queue)) return null
  const outcome = await deps.broker.ensureQueue(queue)
  switch (outcome) {
    case 'ready':
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
 * A foreign worker's retry by way of the delayed exchange (seed 002 §8.4): what it says is that the
 * attempt before has failed, and that the next one is due then. It has acknowledged that token.
 */
async function storeRetry(
  deps: Deps,
  message: ScheduledMessage,
  { delayMs }: Schedule,
): Promise<void> {
  const { id, generation, attempt } = message
  const { code, message: text } = reportedError(message.message.headers) ?? {
    code: UNREPORTED,
    message: 'A native worker retried the job and did not say why.',
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
