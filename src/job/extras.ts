import { isJsonObject } from './json-value.ts'

/** What stands beside a policy because seed 003's closed form of it has no room (ojs-digest C-49). */
const EXTRAS = {
  retry: {
    beside: 'retry_extra',
    names: ['backoff_strategy'],
    // Its other names: what the policy says itself wins.
    unless: ['backoff_type', 'strategy'],
  },
  unique: {
    beside: 'unique_extra',
    names: ['keys', 'args_keys', 'meta_keys', 'on_conflict', 'states'],
    unless: [],
  },
} as const

/**
 * A job as somebody has read it, or as its token carries it, with its policies whole again: what is
 * beside one belongs to it. Anything else is returned as it is.
 */
export function withExtras(body: unknown): unknown {
  if (!isJsonObject(body)) return body
  const whole = body['retry_extra'] === undefined ? body : restored(body, 'retry')
  return whole['unique_extra'] === undefined ? whole : restored(whole, 'unique')
}

function restored(body: Record<string, unknown>, member: keyof typeof EXTRAS) {
  const { beside, names, unless } = EXTRAS[member]
  const policy = body[member]
  const extra = body[beside]
  if (!isJsonObject(policy) || !isJsonObject(extra)) return body
  if (unless.some((name) => policy[name] != null)) return body
  const known = names.filter((name) => Object.hasOwn(extra, name) && policy[name] == null)
  const picked = Object.fromEntries(known.map((name) => [name, extra[name]]))
  return { ...body, [member]: { ...policy, ...picked } }
}
