/** What every route file is given. */
import type { Deps } from '../../operations/deps.ts'
import type { Health } from '../../operations/health.ts'
import type { LedgerAtStart } from '../../operations/ledger-report.ts'
import type { EventRing } from '../../telemetry/event-ring.ts'
import type { Exposition } from '../../telemetry/exposition.ts'
import type { ApiKey } from '../access/api-keys.ts'
import type { OidcSignIn } from '../access/oidc/sign-in.ts'
import type { Sessions } from '../access/sessions.ts'
import type { EventStreams, FollowedRing } from '../connection/event-streams.ts'
import type { LongPolls } from '../connection/long-polls.ts'
import type { Endpoint } from '../route.ts'

/** What the routes need of the door to tell and change who somebody is. */
export interface SignIn {
  /** Empty: everybody may do everything. */
  keys: readonly ApiKey[]
  sessions: Sessions
  /** Absent: with a key only. */
  oidc?: OidcSignIn | undefined
  isTls: boolean
  /** What its console leads to. */
  links: { traceUrl: string | null; codecUrl: string | null }
  version: string
  /** All endpoints of the API. */
  endpoints(): readonly Endpoint[]
}

/** What the routes are given. */
export interface Door {
  deps: Deps
  /** FETCHes that wait for jobs; they are ended when the server stops. */
  polls: LongPolls
  /** Whether API keys are configured. */
  needsKeys: boolean
  health(): Promise<Health>
  /** The server stops: it takes no new connections, and answers what has arrived. */
  isDraining(): boolean
  /** `reachedAs`: the `Host` header of the request. */
  manifest(reachedAs: string | undefined): object
  ledgerAtStart: LedgerAtStart
  /** The answer of `GET /admin/system/config`. */
  shownConfig: object
  /** The OpenAPI document of all routes: JSON text, and its ETag. */
  openApi(): { text: string; tag: string }
  metrics: Exposition
  events: Pick<EventRing, 'list'> & FollowedRing
  streams: EventStreams
  signIn: SignIn
}
