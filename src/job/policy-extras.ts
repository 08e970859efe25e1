/** Members beside a policy that seed 003's closed form does not allow: moved out and back. */
import { isJsonObject } from './values/json-value.ts'

/** Members that stand beside a policy, as seed 003's closed form does not allow them (ojs-choices C-49). */
const EXTRAS = {
  retry: {
    beside: 'retry_extra',
    names: ['backoff_strategy'],
    // Other names of the strategy: if the policy itself has one, it wins.
    unless: ['backoff_type', 'strategy'],
  },
  unique: {
    beside: 'unique_extra',
    names: ['keys', 'args_keys', 'meta_keys', 'on_conflict', 'states'],
    unless: [],
  },
} as const

/**
 * Moves the members of `retry_extra` and `unique_extra` back into the policies of a job that a client has
 * read or that a job message carries. Returns anything else as it is.
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
