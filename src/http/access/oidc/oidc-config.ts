/** `OJS_OIDC_*`: the provider, what the gateway is to it, and which of its people may do what. */
import type { QueueScope } from '../../../job/queue-scope.ts'
import { isQueuePattern } from '../../../job/queue-scope.ts'
import { entriesIn, isRole, QUEUES, ROLES, type Role } from '../api-keys.ts'

/** People with this value in their claim have this role. */
interface RoleRule {
  /** `*`: everybody whom the provider lets in. */
  readonly value: string
  readonly role: Role
  /** Absent: all queues. */
  readonly queues?: QueueScope
}

export interface OidcConfig {
  readonly issuer: string
  readonly clientId: string
  /** Null: a public client. */
  readonly clientSecret: string | null
  /** Where the provider leads back to; null: the console's address as the browser knows it. */
  readonly redirectUrl: string | null
  readonly scope: string
  /** The claim that `rules` are about: its name, or a path with dots. */
  readonly claim: string
  /** The claim that people are called by. */
  readonly nameClaim: string
  /** The first that fits counts. */
  readonly rules: readonly RoleRule[]
}

export type OidcName =
  | 'OJS_OIDC_ISSUER'
  | 'OJS_OIDC_CLIENT_ID'
  | 'OJS_OIDC_CLIENT_SECRET'
  | 'OJS_OIDC_REDIRECT_URL'
  | 'OJS_OIDC_SCOPE'
  | 'OJS_OIDC_CLAIM'
  | 'OJS_OIDC_NAME_CLAIM'
  | 'OJS_OIDC_ROLES'

const LOOPBACK = /^(localhost|127(\.\d+){3}|\[::1\])$/

/** Undefined without an issuer. Adds a line per mistake; none contains the secret. */
export function parseOidc(
  read: (name: OidcName) => string,
  hasKeys: boolean,
  mistakes: string[],
): OidcConfig | undefined {
  const issuer = read('OJS_OIDC_ISSUER')
  if (issuer === '') {
    refuseWithoutIssuer(read, mistakes)
    return undefined
  }
  if (!isSafe(issuer)) {
    mistakes.push('OJS_OIDC_ISSUER must be an https:// URL (http:// for loopback only)')
  }
  if (!hasKeys) {
    mistakes.push('OJS_OIDC_ISSUER needs OJS_API_KEYS: without keys everybody may do everything')
  }
  if (read('OJS_OIDC_CLIENT_ID') === '') mistakes.push('OJS_OIDC_ISSUER needs OJS_OIDC_CLIENT_ID')
  return Object.freeze({
    issuer,
    clientId: read('OJS_OIDC_CLIENT_ID'),
    clientSecret: read('OJS_OIDC_CLIENT_SECRET') || null,
    redirectUrl: redirectUrl(read('OJS_OIDC_REDIRECT_URL'), mistakes),
    scope: scope(read('OJS_OIDC_SCOPE'), mistakes),
    claim: read('OJS_OIDC_CLAIM'),
    nameClaim: read('OJS_OIDC_NAME_CLAIM'),
    rules: rules(read('OJS_OIDC_ROLES'), mistakes),
  })
}

function refuseWithoutIssuer(read: (name: OidcName) => string, mistakes: string[]): void {
  for (const name of ['OJS_OIDC_CLIENT_ID', 'OJS_OIDC_CLIENT_SECRET', 'OJS_OIDC_ROLES'] as const) {
    if (read(name) !== '') mistakes.push(`${name} needs OJS_OIDC_ISSUER`)
  }
}

/** Codes and secrets pass to and from there. */
function isSafe(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, hostname, username, password } = new URL(text)
  if (username !== '' || password !== '') return false
  return protocol === 'https:' || (protocol === 'http:' && LOOPBACK.test(hostname))
}

function redirectUrl(text: string, mistakes: string[]): string | null {
  if (text === '') return null
  if (URL.canParse(text) && /^https?:\/\/[^@?#]+\/console\/$/.test(text)) return text
  mistakes.push(
    'OJS_OIDC_REDIRECT_URL must be the address of the console: https://jobs.example.com/console/',
  )
  return null
}

function scope(text: string, mistakes: string[]): string {
  if (!text.split(' ').includes('openid')) {
    mistakes.push("OJS_OIDC_SCOPE must contain 'openid', and have spaces between scopes")
  }
  return text
}

/** From the end, since the value may contain colons. */
const ENTRY = new RegExp(`^(.+):(${ROLES.join('|')})(?::${QUEUES}(.+))?$`)

function rules(text: string, mistakes: string[]): RoleRule[] {
  if (text === '') {
    mistakes.push('OJS_OIDC_ISSUER needs OJS_OIDC_ROLES, such as job-admins:admin,support:reader')
    return []
  }
  return entriesIn(text).flatMap((entry, i) => {
    const rule = ruleIn(entry)
    if (typeof rule !== 'string') return [rule]
    mistakes.push(`OJS_OIDC_ROLES, entry ${i + 1}: ${rule}`)
    return []
  })
}

function ruleIn(entry: string): RoleRule | string {
  const [, value = '', role = '', scoped] = ENTRY.exec(entry) ?? []
  if (!isRole(role)) {
    return `must be value:role or value:role:queues=a,b.*, with one of the roles ${ROLES.join(', ')}`
  }
  if (scoped === undefined) return { value, role }
  const queues = scoped.split(',')
  return queues.every(isQueuePattern)
    ? { value, role, queues }
    : 'after queues= must come names of queues, or their beginnings with * at the end'
}
