import type { Request } from 'express'
import type { Logger } from '../logger.ts'
import { LineBudget } from '../telemetry/line-budget.ts'
import { templateOf } from './observe.ts'
import { READING, type Step } from './pipeline.ts'

const REFUSED: ReadonlySet<number> = new Set([401, 403, 429])

/** Its client was gone before there was an answer; what became of it, other lines tell. */
const UNANSWERED = 0

/**
 * Who did what, where keys are configured: a line for each request that may have changed something
 * (a worker's own, of which there are many for each job, and reads at `debug`), with the key's name
 * and the request id that the lines of its jobs carry. Refusals are warnings, ten in ten seconds:
 * neither strangers nor a program that runs wild may fill the disk.
 */
export function auditRequests(logger: Logger, now: () => number): Step {
  const write = lineWriter(logger, now)
  return (request, response, next) => {
    const { socket } = request
    // A socket that is closed has none, unless it was asked before.
    const address = socket.remoteAddress
    const line = () => {
      response.off('finish', line)
      socket.off('close', line)
      write(request, address, response.headersSent ? response.statusCode : UNANSWERED)
    }
    response.once('finish', line)
    // Who hangs up has had it done all the same. Behind another request a response that was never
    // written has no event of its own.
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
    // Without a key nothing may be changed, whatever it was answered.
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
