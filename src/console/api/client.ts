/** One request to the gateway, typed by its endpoint; an answer, or an error with its request id. */
import type { Operations } from './openapi.ts'
import { parametersOf } from './parameters.ts'

export type Endpoint = keyof Operations
export type Answer<E extends Endpoint> = Operations[E]['answer']

export interface Given<E extends Endpoint> {
  /** The parameters in braces. */
  path?: Readonly<Record<string, string>>
  query?: Operations[E]['query']
  /** Query parameters without a fixed name, such as `meta.tenant`. */
  filters?: Readonly<Record<string, string | readonly string[]>>
  body?: Operations[E]['body']
  signal?: AbortSignal
}

/** What went wrong, in the gateway's words. */
export class ApiError extends Error {
  override readonly name = 'ApiError'
  /** 0: there was no answer. */
  readonly status: number
  readonly code: string
  readonly requestId: string | undefined
  readonly details: Readonly<Record<string, unknown>>

  constructor(status: number, error: Partial<Told>) {
    super(error.message ?? '')
    this.status = status
    this.code = error.code ?? ''
    this.requestId = error.request_id
    this.details = error.details ?? {}
  }
}

interface Told {
  code: string
  message: string
  request_id: string
  details: Record<string, unknown>
}

/** The page is at `…/console/`, wherever that is. */
const ROOT = new URL('../', document.baseURI)

/** Calls an endpoint such as `GET /ojs/v1/admin/jobs`. Throws `ApiError`. */
export async function call<E extends Endpoint>(
  endpoint: E,
  given: Given<E> = {},
): Promise<Answer<E>> {
  const [method = 'GET', template = ''] = endpoint.split(' ')
  const url = urlOf(template, given)
  const { response, text } = await answered(url, {
    method,
    ...(given.signal !== undefined && { signal: given.signal }),
    ...(given.body !== undefined && {
      body: JSON.stringify(given.body),
      headers: { 'Content-Type': 'application/json' },
    }),
  })
  const body = jsonIn(response, text)
  // Health answers 503 with its whole report.
  if (response.ok || (response.status === 503 && body?.['error'] === undefined)) {
    return body as Answer<E>
  }
  throw new ApiError(response.status, (body?.['error'] ?? {}) as Partial<Told>)
}

/** The address of an endpoint, for links and streams. */
export function urlOf<E extends Endpoint>(template: string, given: Given<E> = {}): URL {
  const path = template.replace(/\{(\w+)\}/g, (_all, name: string) =>
    encodeURIComponent(given.path?.[name] ?? ''),
  )
  const url = new URL(`.${path}`, ROOT)
  for (const [name, value] of parametersOf({ ...given.query, ...given.filters })) {
    url.searchParams.append(name, value)
  }
  return url
}

/** A gateway may hang without closing its connections. */
const PATIENCE_MS = 15_000

/**
 * A reading request without an answer in time is as lost as one without a connection. Whether an action happens can
 * nobody know but the gateway: its answer is waited for.
 */
async function answered(
  url: URL,
  init: RequestInit,
): Promise<{ response: Response; text: string }> {
  const late = new AbortController()
  const timer = init.method === 'GET' ? setTimeout(() => late.abort(), PATIENCE_MS) : undefined
  const signal = AbortSignal.any(init.signal ? [init.signal, late.signal] : [late.signal])
  try {
    const response = await fetch(url, { ...init, signal, credentials: 'same-origin' })
    return { response, text: await response.text() }
  } catch (error) {
    if (init.signal?.aborted) throw error
    throw new ApiError(0, { message: '' })
  } finally {
    clearTimeout(timer)
  }
}

function jsonIn(response: Response, text: string): Record<string, unknown> | null {
  try {
    return text === '' ? null : JSON.parse(text)
  } catch {
    // A proxy's page, for one.
    throw new ApiError(response.status, { message: response.statusText })
  }
}
