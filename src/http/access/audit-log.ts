/** Who did what: a log line and an audit record for each request that steers something, and for refusals. */
import type { Request } from 'express'
import type { Logger } from '../../logger.ts'
import type { AuditRecord } from '../../operations/audit.ts'
import { LineBudget } from '../../telemetry/line-budget.ts'
import { READING, type Step } from '../message/middleware.ts'
import { templateOf } from '../message/observe.ts'
import { isDryRun } from '../message/respond.ts'
import type { Access } from './roles.ts'

const FORBIDDEN = 403
const REFUSED: ReadonlySet<number> = new Set([401, FORBIDDEN, 429])

/** The status of a request whose client left before the answer. Other log lines tell the job's fate. */
const UNANSWERED = 0

const MAX_PATH = 512
const MAX_REQUEST_ID = 255

/** What of a route tells whether its requests are kept as audit records. */
interface Steering {
  method: string
  path: string
  access?: Access
  onlyReads?: boolean
}

/**
 * Whether requests of a route steer something, for people to read later: what operators may do. PUSH and what
 * workers report are the work itself, which the jobs' histories tell.
 */
export function isAudited(route: Steering): boolean {
  if (isRead(route)) return false
  const { path, access = [] } = route
  if (access === 'anybody') return path.endsWith('/session')
  return access.length === 0 || access.includes('operator')
}

function isRead({ method, onlyReads = false }: Steering): boolean {
  return onlyReads || READING.has(method)
}

interface AuditOptions {
  logger: Logger
  now(): number
  routes: readonly Steering[]
  keep(record: AuditRecord): void
}

/** What is known of a request when it has been answered. */
interface Answered {
  request: Request
  /** The request was only to show what another one would do. */
  isDryRun: boolean
  address: string | undefined
  status: number
}

/**
 * When keys are configured, logs who did what: one line per request that may have changed something, with the
 * name of the key and the request id, which the log lines of its jobs carry too. Reads and the requests of
 * workers, which are many per job, are logged at `debug`. Refusals are warnings, at most ten in ten seconds,
 * so that neither strangers nor a runaway program can fill the disk. What operators do is kept as records, and so
 * are refusals to known keys that are logged: strangers must not push the others out.
 */
export function auditRequests({ logger, now, routes, keep }: AuditOptions): Step {
  const named = (is: (route: Steering) => boolean) =>
    new Set(routes.filter(is).map(({ method, path }) => `${method} ${path}`))
  const audited = named(isAudited)
  const reads = named(({ onlyReads = false }) => onlyReads)
  const refusals = new LineBudget((suppressed) =>
    logger.warn({ suppressed }, 'more requests refused'),
  )
  return whenAnswered((answered) => {
    const { request, status } = answered
    const { key } = request.admission
    const route = `${request.method} ${templateOf(request)}`
    const isReading = READING.has(request.method) || reads.has(route)
    // Without a key nothing can have been changed, so this is logged as a refusal whatever its status.
    const isStranger = key === undefined && !isReading
    if (isStranger || REFUSED.has(status)) {
      const suppressed = refusals.take(now())
      if (suppressed === undefined) return
      logger.warn({ ...fieldsOf(answered), ...suppressed }, 'request refused')
      if (key !== undefined && status === FORBIDDEN) keep(recordOf(answered, now()))
    } else if (isReading || key?.role === 'worker') {
      logger.debug(fieldsOf(answered), 'request')
    } else {
      logger.info(fieldsOf(answered), 'request')
      if (audited.has(route) && !answered.isDryRun) keep(recordOf(answered, now()))
    }
  })
}

/** Without keys: for the routes that steer something. Everybody may do everything, so nothing is logged. */
export function keepRecords({ now, keep }: Pick<AuditOptions, 'now' | 'keep'>): Step {
  return whenAnswered((answered) => {
    if (!answered.isDryRun) keep(recordOf(answered, now()))
  })
}

function whenAnswered(tell: (answered: Answered) => void): Step {
  return (request, response, next) => {
    const { socket } = request
    // Read it now: a closed socket has no address, unless it was read before.
    const address = socket.remoteAddress
    const over = () => {
      response.off('finish', over)
      socket.off('close', over)
      const status = response.headersSent ? response.statusCode : UNANSWERED
      tell({ request, address, status, isDryRun: isDryRun(response) })
    }
    response.once('finish', over)
    // When a client hangs up, its request may have been carried out all the same. A response that waits
    // behind another on the same connection emits no event if it is never written, so the socket is watched
    // too.
    socket.once('close', over)
    next()
  }
}

function fieldsOf({ request, address, status }: Answered) {
  const { requestId, method, admission } = request
  const { key } = admission
  const route = templateOf(request)
  return { key: key?.name, role: key?.role, address, requestId, method, route, status }
}

function recordOf(answered: Answered, at: number): AuditRecord {
  const { key, role, address, requestId, method, route, status } = fieldsOf(answered)
  return {
    at,
    requestId: requestId.slice(0, MAX_REQUEST_ID),
    key: key ?? null,
    role: role ?? null,
    address: address ?? null,
    method,
    route,
    path: answered.request.originalUrl.slice(0, MAX_PATH),
    status,
  }
}
