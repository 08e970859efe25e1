/** Requests of the client: options of a call, checked answers, paths and queries. */
import { requireSignal } from '../async/on-abort.ts'
import { isRecord, requireKnown, requireObject } from '../async/options.ts'
import { timeLimit } from '../async/sleep.ts'
import { errorOfAnswer, OJSTransportError, type OJSTransportErrorInit } from './errors.ts'
import type { Transport, TransportRequest } from './transport.ts'

/** Options of a single call. */
export interface CallOptions {
  /** Ends the wait for the answer; a request that was already sent may still take effect. */
  signal?: AbortSignal | undefined
  /** Milliseconds for one try, used instead of the client's limit; 0 or `Infinity`: no limit. */
  timeout?: number | undefined
  headers?: Readonly<Record<string, string>> | undefined
}

/** A JSON object that the server answered, and the request that it answers. */
export interface Answer {
  readonly body: Record<string, unknown>
  readonly status: number
  readonly request: TransportRequest
}

/** Sends a request. Rejects with `OJSError` or `OJSTransportError`. */
export type SendRequest = (request: TransportRequest) => Promise<Answer>

const CALL_OPTIONS: Readonly<Record<keyof CallOptions, true>> = {
  ...{ signal: true, timeout: true, headers: true },
}

/** Throws `TypeError` for options of a call that are misspelt or have no meaning. `own`: what it has beside them. */
export function requireCall(call: object, own: object = {}): void {
  requireObject(call, 'The options of a call must be an object.')
  requireKnown(call, { ...CALL_OPTIONS, ...own }, 'a call')
  const { signal, timeout } = call as CallOptions
  requireSignal(signal)
  timeLimit(timeout, 0)
}

export function sendRequestOver(transport: Transport): SendRequest {
  return async (request) => {
    // What a call says is beside what its method says.
    const { method, path, body: sent, accept, idempotent, isUrgent, ...call } = request
    requireCall(call)
    const { status, body, headers } = await transport.request(request)
    // Some transports return error answers instead of rejecting.
    if (status >= 400 && !request.accept?.includes(status)) {
      throw errorOfAnswer({ status, body, headers }) ?? notOjs(request, { status })
    }
    if (!isRecord(body)) throw notOjs(request, { status })
    return { body, status, request }
  }
}

/** The error for an answer that is not OJS, e.g. from a proxy. */
export function notOjs(
  { method, path }: TransportRequest,
  init: Omit<OJSTransportErrorInit, 'kind'> & { status: number },
): OJSTransportError {
  const message = `${method} ${path}: the answer with status ${init.status} is not in OJS format.`
  return new OJSTransportError(message, { kind: 'protocol', ...init })
}

/** The object in an answer, e.g. its `job`. Its members are not checked. */
export function objectIn<T extends object>(answer: Answer, member: string): T {
  const value = answer.body[member]
  if (!isRecord(value)) throw missing(answer, member)
  return value as T
}

export function listIn<T extends object>(answer: Answer, member: string): T[] {
  const value = answer.body[member]
  if (!Array.isArray(value)) throw missing(answer, member)
  return value as T[]
}

function missing({ request, status }: Answer, member: string): OJSTransportError {
  const { method, path } = request
  const message = `${method} ${path}: the answer with status ${status} lacks "${member}".`
  return new OJSTransportError(message, { kind: 'protocol', status })
}

/**
 * Encodes a name or id as one segment of a path. Throws `TypeError` for an empty one, which would address the
 * collection, and for `.` and `..`, which cannot be escaped and would address a path above.
 */
export function segment(value: string, what: string): string {
  if (typeof value !== 'string' || value === '') {
    throw new TypeError(`${what} must be a non-empty string.`)
  }
  if (value === '.' || value === '..') throw new TypeError(`${what} cannot be '${value}'.`)
  return encodeURIComponent(value)
}

/** A list is a parameter for each of its values. Throws `TypeError` for a number that is none. */
export function query(parameters: object): string {
  const given = Object.entries(parameters).flatMap(([name, value]): [string, string][] => {
    requireNumber(name, value)
    if (Array.isArray(value)) return value.map((each) => [name, String(each)])
    return value === undefined ? [] : [[name, String(value)]]
  })
  return given.length === 0 ? '' : `?${new URLSearchParams(given)}`
}

function requireNumber(name: string, value: unknown): void {
  if (typeof value !== 'number' || Number.isFinite(value)) return
  throw new TypeError(`'${name}' is ${value}, and must be a finite number.`)
}

/** Whether the call names its own request, so that the server recognises a repetition. */
export function hasIdempotencyKey({ headers = {} }: CallOptions): boolean {
  return Object.entries(headers).some(
    ([name, value]) => name.toLowerCase() === 'idempotency-key' && value !== undefined,
  )
}
