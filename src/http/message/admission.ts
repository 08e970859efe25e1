/** What the gate found out about a request: its key, its rate headers, and a 429 that must be the answer. */
import type { OjsError } from '../../errors.ts'
import type { QueueScope } from '../../job/queue-scope.ts'
import type { Toll } from '../../operations/deps.ts'

/** Whose API key a request has. `role`: one of `ROLES` (`access/api-keys.ts`). */
export interface Caller {
  readonly name: string
  readonly role: string
  /** Absent: all. */
  readonly queues?: QueueScope
}

/** What is known about a request from its headers alone. */
export interface Admission {
  /** Absent when the request has no key, or an unknown one. */
  readonly key?: Caller
  /** The request has a token that matches no key. */
  readonly isUnknownKey?: boolean
  /** Headers for every answer to the request: name, value, name, value. */
  readonly headers: readonly string[]
  /** A 429 that must be the answer, whatever the request asks for. */
  readonly refusal?: OjsError
  /** Present for requests that may be about a running lease: only their operation can tell (`lease/toll.ts`). */
  readonly toll?: Toll
}

/** The admission of every request when neither keys nor a rate limit are configured. */
export const ADMITTED: Admission = Object.freeze({ headers: Object.freeze([]) })
