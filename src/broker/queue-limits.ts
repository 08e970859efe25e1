/** Limits of queues as RabbitMQ policies, which only the management API can set. */
import { messageOf } from '../errors.ts'
import { virtualHostOf } from './connection/urls.ts'
import type { Names } from './names.ts'
import type { BrokerOptions } from './options.ts'
import type { Limits, LimitsOutcome, Policy, QueueLimits } from './topology/limits.ts'

/**
 * Instead of no limit: RabbitMQ (3.10.8) would go on to refuse messages of a full queue whose limit is removed
 * (topology/README.md).
 */
const NO_LIMIT = { size: 2 ** 31 - 1, bytes: 2 ** 50 }
const TIMEOUT_MS = 10_000
/** Longest text of an answer that is quoted. */
const MAX_QUOTED = 200

type Body = Readonly<Record<string, unknown>>

interface Answer {
  status: number
  /** Empty if the answer is no object. */
  body: Body
  /** Empty if the answer is no list of objects. */
  list: readonly Body[]
}

type Method = 'GET' | 'PUT' | 'DELETE'

/** Sets limits through the management API at `OJS_MANAGEMENT_URL`. */
export class PolicyLimits implements Limits {
  readonly #names: Names
  readonly #base: URL | null
  readonly #authorization: string
  readonly #virtualHost: string

  constructor({ managementUrl, amqpUrls }: ManagementOptions, names: Names) {
    this.#names = names
    const [amqp = 'amqp://localhost'] = amqpUrls
    const broker = new URL(amqp)
    this.#virtualHost = encodeURIComponent(virtualHostOf(broker))
    this.#base = managementUrl == null ? null : new URL(managementUrl)
    const own = this.#base?.username ? this.#base : broker
    const user = decodeURIComponent(own.username || 'guest')
    const password = decodeURIComponent(own.username ? own.password : 'guest')
    this.#authorization = `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`
  }

  async set(queue: string, limits: QueueLimits): Promise<LimitsOutcome> {
    if (this.#base === null) return { outcome: 'not-configured' }
    try {
      return await this.#set(this.#base, queue, limits)
    } catch (error) {
      return { outcome: 'unavailable', message: messageOf(error).slice(0, MAX_QUOTED) }
    }
  }

  async forget(queue: string): Promise<void> {
    if (this.#base === null) return
    const policy = this.policyOf(queue, { maxSize: null, maxSizeBytes: null })
    await this.#ask(this.#base, 'DELETE', this.#pathOf(policy)).catch(() => {})
  }

  policyOf(queue: string, { maxSize, maxSizeBytes }: QueueLimits): Policy {
    const name = this.#names.jobQueue(queue)
    return {
      name: `ojs-limits ${name}`,
      pattern: `^${name.replaceAll('.', '\\.')}$`,
      definition: {
        'max-length': maxSize ?? NO_LIMIT.size,
        'max-length-bytes': maxSizeBytes ?? NO_LIMIT.bytes,
        overflow: 'reject-publish',
      },
      priority: 1,
      'apply-to': 'queues',
    }
  }

  async #set(base: URL, queue: string, limits: QueueLimits): Promise<LimitsOutcome> {
    const policy = this.policyOf(queue, limits)
    const name = encodeURIComponent(this.#names.jobQueue(queue))
    const found = await this.#ask(base, 'GET', `queues/${this.#virtualHost}/${name}`)
    if (found.status !== 200 && found.status !== 404) return outcomeOf(found)
    const listed = await this.#ask(base, 'GET', `policies/${this.#virtualHost}`)
    if (listed.status !== 200) return outcomeOf(listed)
    const others = listed.list.filter((one) => one['name'] !== policy.name)
    const isLimited = limits.maxSize !== null || limits.maxSizeBytes !== null
    if (!isLimited && others.length === listed.list.length) return { outcome: 'set' }
    const other = others.find((one) => appliesTo(one, this.#names.jobQueue(queue)))
    if (other !== undefined) return { outcome: 'other-policy', policy: String(other['name']) }
    // Refuses no limit that is lifted, so that one set before, by other means, can be undone.
    if (isLimited && found.body['type'] === 'classic') return { outcome: 'classic-queue' }
    return outcomeOf(await this.#ask(base, 'PUT', this.#pathOf(policy), policy))
  }

  #pathOf({ name }: Policy): string {
    return `policies/${this.#virtualHost}/${encodeURIComponent(name)}`
  }

  async #ask(base: URL, method: Method, path: string, body?: object): Promise<Answer> {
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

type ManagementOptions = Pick<BrokerOptions, 'managementUrl' | 'amqpUrls'>

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

function isObject(value: unknown): value is Body {
  return typeof value === 'object' && value !== null
}

/**
 * Not the `policy` that the API shows with the queue, which is some seconds old. A pattern that JavaScript cannot
 * read counts as one that applies.
 */
function appliesTo({ pattern, 'apply-to': to }: Body, name: string): boolean {
  if (to === 'exchanges' || to === 'streams' || to === 'classic_queues') return false
  try {
    return new RegExp(String(pattern)).test(name)
  } catch {
    return true
  }
}

function outcomeOf({ status, body }: Answer): LimitsOutcome {
  if (status >= 200 && status < 300) return { outcome: 'set' }
  if (status === 401 || status === 403) return { outcome: 'denied' }
  const message = `${status} ${String(body['reason'] ?? '')}`.trim().slice(0, MAX_QUOTED)
  return { outcome: status === 400 ? 'invalid' : 'unavailable', message }
}
