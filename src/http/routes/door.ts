import type { Deps } from '../../operations/deps.ts'
import type { Exposition } from '../../telemetry/exposition.ts'
import type { Polls } from '../polls.ts'

/** What the routes are given. */
export interface Door {
  deps: Deps
  /** FETCHes that wait for work; ended when the server stops. */
  polls: Polls
  maxBodyBytes: number
  health(): { healthy: boolean; body: object }
  manifest(): object
  metrics: Exposition
}
