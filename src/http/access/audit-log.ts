/** Who did what: a log line for each request that may have changed something, and for refusals. */
import type { Request } from 'express'
import type { Logger } from '../../logger.ts'
import { LineBudget } from '../../telemetry/line-budget.ts'
import { READING, type Step } from '../message/middleware.ts'
import { templateOf } from '../message/observe.ts'

const REFUSED: ReadonlySet<number> = new Set([401, 403, 429])

/** The status of a request whose client left before the answer. Other log lines tell the job's fate. */
const UNANSWERED = 0

/**
 * When keys are configured, logs who did what: one line per request that may have changed something, with the
 * name of the key and the request id, which the log lines of its jobs carry too. Reads and the requests of
 * workers, which are many per job, are logged at `debug`. Refusals are warnings, at most ten in ten seconds,
 * so that neither strangers nor a runaway program can fill the disk.
 */
export function auditRequests(logger: Logger, now: () => number): Step {
  const write = lineWriter(logger, now)
  return (request, response, next) => {
    const { socket } = request
    // Read it now: a closed socket has no address, unless it was read before.
    const address = socket.remoteAddress
    const line = () => {
      response.off('finish', line)
      socket.off('close', line)
      write(request, address, response.headersSent ? response.statusCode : UNANSWERED)
    }
    response.once('finish', line)
    // When a client hangs up, its request may have been carried out all the same. A response that waits
    // behind another on the same connection emits no event if it is never written, so the socket is watched
    // too.
    socket.once('close', line)
    next()
  }
}

function lineWriter(logger: Logger, now: () => number) {
  const refusals = new LineBudget((suppressed) =>
    logger.warn({ suppressed }, 'more requests refused'),
  )
  return (request: Request, address: string | undefined, status: number) => {
    const { requestId, method, admission } = request
    const { key } = admission
    const fields = {
      key: key?.name,
      role: key?.role,
      address,
      requestId,
      method,
      route: templateOf(request),
      status,
    }
    // Without a key nothing can have been changed, so this is logged as a refusal whatever its status.
    const isStranger = key === undefined && !READING.has(method)
    if (isStranger || REFUSED.has(status)) {
      const suppressed = refusals.take(now())
      if (suppressed !== undefined) logger.warn({ ...fields, ...suppressed }, 'request refused')
    } else if (READING.has(method) || key?.role === 'worker') {
      logger.debug(fields, 'request')
    } else {
      logger.info(fields, 'request')
    }
  }
}
