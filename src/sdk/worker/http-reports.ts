/** ACKs and NACKs over HTTP: one request for those of the same moment, where the server takes them so. */
import { isRecord } from '../async/options.ts'
import { errorOfAnswer, OJSError, OJSTransportError } from '../transport/errors.ts'
import type { AbortableRequests } from './abortable-requests.ts'

export const REPORT_TIMEOUT_MS = 10_000
/** How long a report waits for others while an earlier request is under way. */
const GATHER_MS = 5
const MAX_REPORTS = 100
/** In characters. A larger one goes by itself: a hundred of them could be more than a server takes at once. */
const MAX_TEXT = 16_384

/** An ACK or NACK. */
export interface Report {
  readonly action: 'ack' | 'nack'
  readonly body: Readonly<Record<string, unknown>>
  /** Trace context, as headers. */
  readonly headers?: Readonly<Record<string, string>> | undefined
}

interface Waiting {
  readonly report: Report
  resolve(): void
  reject(error: unknown): void
}

/**
 * Sends the reports of one worker. As soon as the server is known to take many at once (`gather`), those that
 * come while a request is under way share the next one, which is sent when that is answered, after 5 ms, or
 * with 100 reports. A report that finds no request under way is sent in the same turn.
 */
export class HttpReports {
  readonly #courier: AbortableRequests
  #isGathering = false
  #waiting: Waiting[] = []
  #underWay = 0
  #isDue = false
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor(courier: AbortableRequests) {
    this.#courier = courier
  }

  /** Called when the server says that it takes many reports in one request. */
  gather(): void {
    this.#isGathering = true
  }

  /** Resolves when the server has the report; rejects as the request of a single one does. */
  send(report: Report): Promise<void> {
    if (!this.#isGathering || !isSmall(report)) return this.#sendOne(report)
    return new Promise((resolve, reject) => {
      this.#waiting.push({ report, resolve, reject })
      this.#schedule()
    })
  }

  #schedule(): void {
    if (this.#waiting.length >= MAX_REPORTS) this.#flush()
    else if (this.#underWay > 0) this.#timer ??= setTimeout(() => this.#flush(), GATHER_MS)
    else if (!this.#isDue) {
      this.#isDue = true
      // Handlers that end in the same turn share the request.
      queueMicrotask(() => {
        this.#isDue = false
        this.#flush()
      })
    }
  }

  #flush(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const reports = this.#waiting.splice(0, MAX_REPORTS)
    const [only] = reports
    if (only === undefined) return
    this.#underWay += 1
    const sent = reports.length === 1 ? this.#settle(only) : this.#sendMany(reports)
    void sent.finally(() => {
      this.#underWay -= 1
      this.#flush()
    })
  }

  async #settle(waiting: Waiting): Promise<void> {
    try {
      await this.#sendOne(waiting.report)
      waiting.resolve()
    } catch (error) {
      waiting.reject(error)
    }
  }

  // Urgent, because the lease runs and a stopping worker waits for the report: it must not queue behind
  // requests of a client.
  async #sendOne({ action, body, headers }: Report): Promise<void> {
    const path = `/workers/${action}`
    const sent = { method: 'POST', path, body, timeout: REPORT_TIMEOUT_MS, isUrgent: true }
    await this.#courier.send({ ...sent, headers })
  }

  async #sendMany(reports: readonly Waiting[]): Promise<void> {
    try {
      const { body } = await this.#courier.send({
        method: 'POST',
        path: '/workers/settle',
        body: { items: reports.map(({ report }) => itemOf(report)) },
        timeout: REPORT_TIMEOUT_MS,
        isUrgent: true,
      })
      const items: unknown = body['items']
      if (!Array.isArray(items) || items.length !== reports.length) throw notAnswered()
      for (const [i, { resolve, reject }] of reports.entries()) {
        const error = errorIn(items[i])
        if (error === undefined) resolve()
        else reject(error)
      }
    } catch (error) {
      await this.#failed(reports, error)
    }
  }

  /**
   * The whole request has failed. If the server does not take such a request, or not this one, it has settled
   * nothing, and each report is sent by itself. Otherwise each is repeated by its lease, as a single one is.
   */
  async #failed(reports: readonly Waiting[], error: unknown): Promise<void> {
    const status =
      error instanceof OJSError || error instanceof OJSTransportError ? error.status : undefined
    const isUnknown = [404, 405, 501].includes(status ?? 0)
    if (isUnknown || error instanceof NotAnswered) this.#isGathering = false
    if (isUnknown || [400, 413, 422].includes(status ?? 0)) {
      await Promise.all(reports.map((waiting) => this.#settle(waiting)))
    } else for (const { reject } of reports) reject(error)
  }
}

class NotAnswered extends OJSTransportError {}

function notAnswered(): NotAnswered {
  const message = 'POST /workers/settle: the answer does not have an item for each report.'
  return new NotAnswered(message, { kind: 'protocol', status: 200 })
}

function itemOf({ action, body, headers }: Report): object {
  const { traceparent, tracestate } = headers ?? {}
  return {
    action,
    ...body,
    ...(traceparent !== undefined && { traceparent }),
    ...(tracestate !== undefined && { tracestate }),
  }
}

/** What the server answered to one report, if it is an error. */
function errorIn(item: unknown): OJSError | OJSTransportError | undefined {
  if (!isRecord(item) || typeof item['status'] !== 'number') return notAnswered()
  const { status, error, retry_after_seconds: after } = item
  if (status < 300) return undefined
  const headers = typeof after === 'number' ? { 'retry-after': String(after) } : {}
  return errorOfAnswer({ status, body: { error }, headers }) ?? notAnswered()
}

function isSmall({ body: { result, error } }: Report): boolean {
  return isShort(result) && isShort(error)
}

function isShort(value: unknown): boolean {
  if (typeof value === 'string') return value.length <= MAX_TEXT
  return typeof value !== 'object' || value === null || JSON.stringify(value).length <= MAX_TEXT
}
