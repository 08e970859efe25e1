/** One log line per event: ids, never args or results. */
import type { JobRow } from '../job/job.ts'
import { traceIdIn } from '../job/trace/carry.ts'
import type { Logger } from '../logger.ts'
import {
  type BulkEvent,
  type CronEvent,
  isOnlyCounted,
  type JobEvent,
  type LeaseFacts,
  type OnlyCounted,
} from './events.ts'
import { LineBudget } from './line-budget.ts'
import type { WorkflowEvent } from './workflow-events.ts'

/** The longest AMQP `message_id`; an id in a body may be of any length. */
const MAX_ID = 255

/**
 * Logs one line per job event: ids, never args, results, messages or credentials. `isDebug`: whether debug
 * lines are logged. Any client can cause lines about malformed messages: at most ten of those in ten seconds,
 * measured with `now` (ms).
 */
export function jobLog(
  logger: Logger,
  { isDebug, now }: { isDebug: boolean; now: () => number },
): (event: JobEvent) => void {
  const malformed = new LineBudget((suppressed) =>
    logger.warn({ suppressed }, 'more malformed messages'),
  )
  return (event) => {
    if (isSilent(event)) return
    if ('bulk' in event) return logger.info(bulkFields(event), event.type)
    switch (event.type) {
      case 'workflow.started':
      case 'workflow.step_completed':
      case 'workflow.completed':
      case 'workflow.failed':
      case 'workflow.cancelled':
        logger.info(workflowFields(event), event.type)
        return
      case 'message.malformed': {
        const { queue, id, error } = event
        const suppressed = malformed.take(now())
        const facts = { jobId: id.slice(0, MAX_ID) || undefined, queue, reason: error.message }
        if (suppressed) logger.warn({ ...facts, ...suppressed }, 'malformed message')
        return
      }
      case 'queue.paused':
      case 'queue.resumed':
        logger.info({ queue: event.queue, requestId: event.requestId }, event.type)
        return
      case 'system.maintenance.started':
      case 'system.maintenance.ended':
        logger.warn({ reason: event.reason, requestId: event.requestId }, event.type)
        return
      case 'worker.stopped': {
        const { workerId, reason, requestId } = event
        logger.info({ workerId, reason, requestId }, event.type)
        return
      }
      case 'job.heartbeat':
        // Every few seconds for every running job: without debug lines not even the fields are built.
        if (isDebug)
          logger.debug({ ...leaseFields(event.job), workerId: event.workerId }, event.type)
        return
      case 'job.progress':
      case 'job.checkpointed':
        if (isDebug) logger.debug(leaseFields(event.job), event.type)
        return
      case 'job.failed':
        logger.info({ ...fieldsOf(event), ...failureFields(event) }, event.type)
        return
      case 'job.retrying':
        logger.info({ ...fieldsOf(event), delayMs: event.job.retryDelayMs }, event.type)
        return
      case 'job.enqueued':
      case 'job.scheduled':
      case 'job.staged':
        // A batch of a thousand jobs is logged as one line (`operations/enqueue/push-batch.ts`).
        if (event.inBatch) return
        logger.info(fieldsOf(event), event.type)
        return
      case 'cron.triggered':
      case 'cron.skipped':
        logger.info(cronFields(event), event.type)
        return
      default:
        logger.info(fieldsOf(event), event.type)
    }
  }
}

function isSilent(event: JobEvent): event is OnlyCounted {
  return isOnlyCounted(event) || ('inBulk' in event && event.inBulk === true)
}

function bulkFields({ bulk, requestId }: BulkEvent): object {
  return { operation: bulk.id ?? undefined, requestId, ...bulk.data }
}

function leaseFields({ id, queue, type, attempt }: Omit<LeaseFacts, 'leaseExpiresAt'>): object {
  return { jobId: id, type, queue, attempt }
}

function fieldsOf({ job, requestId }: { job: JobRow; requestId?: string | undefined }): object {
  const { id, type, queue, attempt, carry } = job
  return { jobId: id, type, queue, attempt, requestId, traceId: traceIdIn(carry ?? {}) }
}

function cronFields(event: CronEvent): object {
  const { name, jobType, queue } = event.cron
  return { cron: name, tick: event.scheduledAt, type: jobType, queue, ...tickFields(event) }
}

function tickFields(event: CronEvent): object {
  if (event.type === 'cron.triggered') return { jobId: event.job.id }
  const { reason } = event
  if ('count' in event) return { reason, count: event.count, hasMore: event.hasMore }
  return { reason, jobId: event.existingJobId ?? undefined }
}

/** The attempt is the event's: the row may already be in its next life. */
function failureFields({ attempt, failure }: Extract<JobEvent, { type: 'job.failed' }>): object {
  return { attempt, errorCode: failure.code, retryable: failure.retryable }
}

/** Names and ids that a client chose are not logged: the workflow's own id leads to them. */
function workflowFields({ workflow, ...event }: WorkflowEvent): object {
  return {
    workflowId: workflow.id,
    open: workflow.open,
    ...('requestId' in event && { requestId: event.requestId }),
  }
}
