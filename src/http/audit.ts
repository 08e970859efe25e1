import type { Logger } from '../logger.ts'
import { LineBudget } from '../telemetry/line-budget.ts'
import { templateOf } from './observe.ts'
import { READING, type Step } from './pipeline.ts'

const REFUSED: ReadonlySet<number> = new Set([401, 403, 429])

/**
 * Who did what, where keys are configured: a line for each request that may have changed something
 * (a worker's own, of which there are many for each job, and reads at `debug`), with the key's name
 * and the request id that the lines of its jobs carry. Refusals are warnings, ten in ten seconds:
 * neither strangers nor a program that runs wild may fill the disk.
 */
export function auditRequests(logger: Logger, now: () => number): Step {
  const refusals = new LineBudget()
  return (request, response, next) => {
    response.once('finish', () => {
      const { requestId, method, admission, socket } = request
      const { key } = admission
      const status = response.statusCode
      const fields = {
        key: key?.name,
        role: key?.role,
        address: socket.remoteAddress,
        requestId,
        method,
        route: templateOf(request),
        status,
      }
      if (REFUSED.has(status)) {
        const suppressed = refusals.take(now())
        if (suppressed !== undefined) logger.warn({ ...fields, ...suppressed }, 'request refused')
      } else if (READING.has(method) || key?.role === 'worker') {
        logger.debug(fields, 'request')
      } else {
        logger.info(fields, 'request')
      }
    })
    next()
  }
}
