/** The declare arguments of each kind of queue, by profile and version. */

export type QueueProfile = 'classic' | 'quorum'

/**
 * - `job`: what workers consume.
 * - `dlx`: dead jobs of one queue.
 * - `control`: control messages.
 * - `rung`: retry delay of one queue.
 * - `due`, `dead-letters`: system queues.
 * - `owner`: the exclusive lock.
 */
export type QueueKind = 'job' | 'dlx' | 'control' | 'rung' | 'due' | 'dead-letters' | 'owner'

/** Optional limits of a job queue (seed 002 §7.2). */
export interface QueueLimits {
  maxLength?: number
  maxLengthBytes?: number
  overflow?: 'reject-publish' | 'drop-head'
  messageTtlMs?: number
}

export interface QueueArgumentOptions {
  deadLetter?: { exchange: string; key: string }
  /** Retry queues only: how long a message stays. */
  ttlMs?: number
  limits?: QueueLimits
}

export type QueueArguments = Record<string, string | number>

/**
 * Means "no limit" on every version: without a limit, 3.10–3.13 put a returned message at the back of a
 * quorum queue (order lost), and 4.x stops at 20; −1 means "dead-letter at the first return" on 3.10.
 */
const DELIVERY_LIMIT = 1_000_000
const MAX_PRIORITY = 10

/**
 * The arguments of a queue, for every kind, profile and broker version (docs/architecture.md §3).
 *
 * `x-queue-type` is always sent: 3.11+ fills a missing type in from the vhost's default, so that the declare
 * would not be equivalent in a vhost with another default.
 */
export function queueArguments(
  kind: QueueKind,
  profile: QueueProfile,
  serverVersion: string,
  options: QueueArgumentOptions = {},
): QueueArguments {
  const type = queueType(kind, profile)
  const { deadLetter } = options
  return {
    'x-queue-type': type,
    ...(deadLetter !== undefined && {
      'x-dead-letter-exchange': deadLetter.exchange,
      'x-dead-letter-routing-key': deadLetter.key,
    }),
    ...(options.ttlMs !== undefined && { 'x-message-ttl': options.ttlMs }),
    // Quorum queues refuse this argument with 406 in every version.
    ...(kind === 'job' && type === 'classic' && { 'x-max-priority': MAX_PRIORITY }),
    ...limitArguments(options.limits),
    ...(type === 'quorum' && quorumArguments(kind, serverVersion, options)),
  }
}

/**
 * Dead letters, delays and system queues are quorum whatever the profile, because classic queues were
 * measured to lose messages at a broker crash.
 */
function queueType(kind: QueueKind, profile: QueueProfile): QueueProfile {
  switch (kind) {
    case 'job':
    case 'control':
      return profile
    case 'owner':
      // Quorum queues cannot be exclusive.
      return 'classic'
    case 'dlx':
    case 'rung':
    case 'due':
    case 'dead-letters':
      return 'quorum'
  }
}

function limitArguments(limits: QueueLimits = {}): QueueArguments {
  const bounded = limits.maxLength !== undefined || limits.maxLengthBytes !== undefined
  // A full queue refuses the new job (429) instead of dropping the oldest one (seed 002 §7.2).
  const overflow = limits.overflow ?? (bounded ? 'reject-publish' : undefined)
  return {
    ...(limits.maxLength !== undefined && { 'x-max-length': limits.maxLength }),
    ...(limits.maxLengthBytes !== undefined && { 'x-max-length-bytes': limits.maxLengthBytes }),
    ...(overflow !== undefined && { 'x-overflow': overflow }),
    ...(limits.messageTtlMs !== undefined && { 'x-message-ttl': limits.messageTtlMs }),
  }
}

function quorumArguments(
  kind: QueueKind,
  serverVersion: string,
  options: QueueArgumentOptions,
): QueueArguments {
  const isConsumed = kind !== 'rung'
  const isSafe =
    options.deadLetter !== undefined &&
    options.limits?.overflow !== 'drop-head' &&
    isAtLeast(serverVersion, 3, 10)
  return {
    // The two need each other: without reject-publish the broker falls back to at-most-once with only a log
    // line. Before 3.10 the first is unknown; an unknown argument is stored, and makes the
    // queue differ after the upgrade.
    ...(isSafe && { 'x-dead-letter-strategy': 'at-least-once', 'x-overflow': 'reject-publish' }),
    ...(isConsumed && { 'x-delivery-limit': DELIVERY_LIMIT }),
  }
}

/** Reads `3.13.7`, `4.0.0-rc.1`, `3.10.8+debian`. Unreadable versions count as new. */
export function isAtLeast(version: string, major: number, minor: number): boolean {
  const match = /^(\d+)\.(\d+)/.exec(version)
  if (!match) return true
  const [, hasMajor, hasMinor] = match.map(Number)
  return (hasMajor ?? 0) > major || (hasMajor === major && (hasMinor ?? 0) >= minor)
}
