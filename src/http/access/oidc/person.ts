/** From what the provider says of somebody to a caller of ours: a name, a role, perhaps queues. */
import type { Caller } from '../../message/admission.ts'
import type { OidcConfig } from './oidc-config.ts'

export type Claims = Readonly<Record<string, unknown>>

/** No name of a key has a colon, so nobody can be taken for a key. */
const PREFIX = 'oidc:'
const MAX_NAME = 100
const NOT_SHOWN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu

/** The first rule that fits. Undefined: this person has no role here. */
export function callerOf(
  claims: Claims,
  { rules, claim, nameClaim }: Pick<OidcConfig, 'rules' | 'claim' | 'nameClaim'>,
): Caller | undefined {
  const values = valuesOf(claimIn(claims, claim))
  const rule = rules.find(({ value }) => value === '*' || values.includes(value))
  if (rule === undefined) return undefined
  const { role, queues } = rule
  return { name: nameOf(claims, nameClaim), role, ...(queues !== undefined && { queues }) }
}

/** `groups`; `https://example.com/roles`, a name with dots; `realm_access.roles`, a path. */
export function claimIn(claims: Claims, name: string): unknown {
  if (Object.hasOwn(claims, name)) return claims[name]
  let found: unknown = claims
  for (const part of name.split('.')) {
    if (typeof found !== 'object' || found === null || !Object.hasOwn(found, part)) return undefined
    found = (found as Claims)[part]
  }
  return found
}

function valuesOf(claim: unknown): readonly unknown[] {
  return Array.isArray(claim) ? claim : [claim]
}

/** For people and log lines: bounded, in one line. */
function nameOf(claims: Claims, nameClaim: string): string {
  const named = claimIn(claims, nameClaim)
  const name = typeof named === 'string' && named.trim() !== '' ? named : String(claims['sub'])
  return PREFIX + name.replace(NOT_SHOWN, '\ufffd').slice(0, MAX_NAME)
}
