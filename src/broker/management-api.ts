/** One request to RabbitMQ's management API at `OJS_MANAGEMENT_URL`. */
import { virtualHostOf } from './connection/urls.ts'
import type { BrokerOptions } from './options.ts'

const TIMEOUT_MS = 10_000
/** Longest text of an answer that is quoted. */
export const MAX_QUOTED = 200

export type Body = Readonly<Record<string, unknown>>

export interface Answer {
  status: number
  /** Empty if the answer is no object. */
  body: Body
  /** Empty if the answer is no list of objects. */
  list: readonly Body[]
}

type Method = 'GET' | 'PUT' | 'DELETE'

export type ManagementOptions = Pick<BrokerOptions, 'managementUrl' | 'amqpUrls'>

/** Without a user in its URL, that of the first AMQP URL asks. Neither ever reaches a log or an error. */
export class ManagementApi {
  /** Percent-encoded. */
  readonly virtualHost: string
  readonly #base: URL | null
  readonly #authorization: string

  constructor({ managementUrl, amqpUrls }: ManagementOptions) {
    const [amqp = 'amqp://localhost'] = amqpUrls
    const broker = new URL(amqp)
    this.virtualHost = encodeURIComponent(virtualHostOf(broker))
    this.#base = managementUrl == null ? null : new URL(managementUrl)
    const own = this.#base?.username ? this.#base : broker
    const user = decodeURIComponent(own.username || 'guest')
    const password = decodeURIComponent(own.username ? own.password : 'guest')
    this.#authorization = `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`
  }

  get isConfigured(): boolean {
    return this.#base !== null
  }

  /** `path`: below `/api/`, encoded. Rejects when there is no answer, or no configured address. */
  async ask(method: Method, path: string, body?: object): Promise<Answer> {
    const base = this.#base
    if (base === null) throw new Error('OJS_MANAGEMENT_URL is not set')
    const url = new URL(`api/${path}`, base.href.endsWith('/') ? base : `${base.href}/`)
    // `fetch` refuses a URL with credentials.
    url.username = ''
    url.password = ''
    const response = await fetch(url, {
      method,
      headers: { authorization: this.#authorization, 'content-type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(TIMEOUT_MS),
    })
    const text = await response.text()
    return { status: response.status, ...jsonIn(text) }
  }
}

/** Only the management API itself answers with JSON; a proxy before it may answer with anything. */
function jsonIn(text: string): Pick<Answer, 'body' | 'list'> {
  try {
    const value: unknown = JSON.parse(text)
    if (Array.isArray(value)) return { body: {}, list: value.filter(isObject) }
    return { body: isObject(value) ? value : {}, list: [] }
  } catch {
    return { body: {}, list: [] }
  }
}

export function isObject(value: unknown): value is Body {
  return typeof value === 'object' && value !== null
}
