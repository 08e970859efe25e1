import type { Deps } from '../../operations/deps.ts'
import type { Health } from '../../operations/health.ts'
import type { EventPage, EventQuery } from '../../telemetry/event-ring.ts'
import type { Exposition } from '../../telemetry/exposition.ts'
import type { Polls } from '../polls.ts'

/** Events that may be listed. */
interface EventSource {
  list(query: EventQuery): EventPage
}

/** What the routes are given. */
export interface Door {
  deps: Deps
  /** FETCHes that wait for work; ended when the server stops. */
  polls: Polls
  maxBodyBytes: number
  /** Of `POST /jobs/batch`. */
  maxBatchBytes: number
  /** Keys are configured. */
  needsKeys: boolean
  health(): Health
  /** `reachedAs`: the `Host` of who asks. */
  manifest(reachedAs: string | undefined): object
  metrics: Exposition
  events: EventSource
}
