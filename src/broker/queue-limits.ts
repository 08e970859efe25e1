/** Limits of queues as RabbitMQ policies, which only the management API can set. */
import { messageOf } from '../errors.ts'
import { type Answer, type Body, MAX_QUOTED, type ManagementApi } from './management-api.ts'
import type { Names } from './names.ts'
import type { Limits, LimitsOutcome, Policy, QueueLimits } from './topology/limits.ts'

/**
 * Instead of no limit: RabbitMQ (3.10.8) would go on to refuse messages of a full queue whose limit is removed
 * (topology/README.md).
 */
const NO_LIMIT = { size: 2 ** 31 - 1, bytes: 2 ** 50 }

/** Sets limits through the management API at `OJS_MANAGEMENT_URL`. */
export class PolicyLimits implements Limits {
  readonly #names: Names
  readonly #api: ManagementApi

  constructor(api: ManagementApi, names: Names) {
    this.#api = api
    this.#names = names
  }

  async set(queue: string, limits: QueueLimits): Promise<LimitsOutcome> {
    if (!this.#api.isConfigured) return { outcome: 'not-configured' }
    try {
      return await this.#set(queue, limits)
    } catch (error) {
      return { outcome: 'unavailable', message: messageOf(error).slice(0, MAX_QUOTED) }
    }
  }

  async forget(queue: string): Promise<void> {
    if (!this.#api.isConfigured) return
    const policy = this.policyOf(queue, { maxSize: null, maxSizeBytes: null })
    await this.#api.ask('DELETE', this.#pathOf(policy)).catch(() => {})
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

  async #set(queue: string, limits: QueueLimits): Promise<LimitsOutcome> {
    const policy = this.policyOf(queue, limits)
    const name = encodeURIComponent(this.#names.jobQueue(queue))
    const found = await this.#api.ask('GET', `queues/${this.#api.virtualHost}/${name}`)
    if (found.status !== 200 && found.status !== 404) return outcomeOf(found)
    const listed = await this.#api.ask('GET', `policies/${this.#api.virtualHost}`)
    if (listed.status !== 200) return outcomeOf(listed)
    const others = listed.list.filter((one) => one['name'] !== policy.name)
    const isLimited = limits.maxSize !== null || limits.maxSizeBytes !== null
    if (!isLimited && others.length === listed.list.length) return { outcome: 'set' }
    const other = others.find((one) => appliesTo(one, this.#names.jobQueue(queue)))
    if (other !== undefined) return { outcome: 'other-policy', policy: String(other['name']) }
    // Refuses no limit that is lifted, so that one set before, by other means, can be undone.
    if (isLimited && found.body['type'] === 'classic') return { outcome: 'classic-queue' }
    return outcomeOf(await this.#api.ask('PUT', this.#pathOf(policy), policy))
  }

  #pathOf({ name }: Policy): string {
    return `policies/${this.#api.virtualHost}/${encodeURIComponent(name)}`
  }
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
