import type { JobRow } from '../job/job.ts'
import { traceIdOf } from '../job/traceparent.ts'
import type { Logger } from '../logger.ts'
import type { JobEvent } from './events.ts'

/** One line per thing that happened to a job: ids, never args, results or credentials. */
export function jobLog(logger: Logger): (event: JobEvent) => void {
  return (event) => {
    if (event.type === 'token.malformed') {
      logger.warn({ queue: event.queue, reason: event.error.message }, 'malformed message')
      return
    }
    logger.info(fieldsOf(event.job, 'requestId' in event ? event.requestId : undefined), event.type)
  }
}

function fieldsOf(job: JobRow, requestId: string | undefined): object {
  return {
    jobId: job.id,
    type: job.type,
    queue: job.queue,
    attempt: job.attempt,
    requestId,
    traceId: job.carry?.traceparent && traceIdOf(job.carry.traceparent),
  }
}
