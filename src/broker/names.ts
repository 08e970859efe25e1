/** The names of all broker entities (seed 002 §4.1), with or without a prefix. */

/**
 * The name of every broker entity (seed 002 §4.1). A prefix goes in front of exchange and queue names, and of
 * routing keys that are a queue's name; keys that are an OJS queue name stay as they are.
 */
export interface Names {
  readonly exchange: {
    readonly direct: string
    readonly dlx: string
    readonly retry: string
    readonly delayed: string
    readonly events: string
  }
  readonly due: string
  /** Messages of `due` that are no jobs. */
  readonly dueDeadLetters: string
  readonly deadLetters: string
  readonly owner: string
  /** See `ledger-members.ts`. */
  readonly members: string
  /** Exchanges of ours that route nowhere: see `queue-identity.ts`. */
  readonly origin: string
  identity(id: string): string
  /** Of an epoch, in milliseconds: see `ledger-epoch.ts`. */
  ledger(epoch: number): string
  jobQueue(queue: string): string
  dlxQueue(queue: string): string
  controlQueue(queue: string): string
  retryQueue(queue: string, delayMs: number | '{ms}'): string
}

/** The allowed prefixes, as a pattern and in words. */
export const PREFIX = /^[a-z0-9][a-z0-9-]{0,31}$/
export const PREFIX_RULE =
  'must be 1 to 32 characters of a-z, 0-9 and -, and start with a letter or digit'

/** `ojs.…` → `tenant1.ojs.…`; the dot is added here. Any other text is no entity name and stays. */
export function withPrefix(prefix: string, name: string): string {
  return prefix !== '' && name.startsWith('ojs.') ? `${prefix}.${name}` : name
}

/** `prefix`: `OJS_PREFIX`, without its dot; empty for none. */
export function createNames(prefix: string): Names {
  const named = (name: string) => withPrefix(prefix, name)
  // Precomputed, because every lookup asks for it.
  const jobQueueStart = named('ojs.queue.')
  return {
    exchange: {
      direct: named('ojs.exchange.direct'),
      dlx: named('ojs.exchange.dlx'),
      retry: named('ojs.exchange.retry'),
      delayed: named('ojs.exchange.delayed'),
      events: named('ojs.exchange.events'),
    },
    due: named('ojs.system.due'),
    dueDeadLetters: named('ojs.system.due.dlx'),
    deadLetters: named('ojs.system.dead-letters'),
    owner: named('ojs.system.owner'),
    members: named('ojs.system.gateways'),
    origin: named('ojs.system.origin'),
    ledger: (epoch) => named(`ojs.system.ledger.${new Date(epoch).toISOString()}`),
    identity: (id) => named(`ojs.system.marker.${id}`),
    jobQueue: (queue) => jobQueueStart + queue,
    dlxQueue: (queue) => named(`ojs.queue.dlx.${queue}`),
    controlQueue: (queue) => named(`ojs.queue.control.${queue}`),
    retryQueue: (queue, delayMs) => named(`ojs.queue.retry.${queue}.${delayMs}`),
  }
}
