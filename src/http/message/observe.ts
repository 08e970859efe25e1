/** Reports each request to the metrics when its exchange is over: route template, status, time. */
import type { Request } from 'express'
import type { HttpObserver } from '../../telemetry/exposition.ts'
import type { Step } from './middleware.ts'

/**
 * Reports a request at `close`, which follows `finish` or comes without it. After a reset Node emits `finish`
 * all the same, hence the look at `errored`. Status 0: the answer was not written.
 */
export function observeRequest(observer: HttpObserver): Step {
  return (request, response, next) => {
    const startedAt = performance.now()
    response.once('close', () => {
      const isWritten = response.writableFinished && request.socket.errored === null
      const status = isWritten ? response.statusCode : 0
      const seconds = (performance.now() - startedAt) / 1000
      observer.requestDone(templateOf(request), request.method, status, seconds)
    })
    next()
  }
}

/** The route's path template, not the path: the number of metric labels must not grow with job ids. */
export function templateOf(request: Request): string {
  const route: { path: string } | undefined = request.route
  return route?.path ?? 'unmatched'
}
