/** Authorization of a route: 401 without a known key, 403 for a key whose role it does not serve. */
import { OjsError } from '../../errors.ts'
import type { Admission, Caller } from '../message/admission.ts'
import type { Step } from '../message/middleware.ts'
import type { Role } from './api-keys.ts'

/** Who may call a route when API keys are configured: anybody, or keys of these roles and of `admin`. */
export type Access = 'anybody' | readonly Role[]

/** Runs before a route: 401 without a known key, 403 for a key of another role (seed 001 §5.2). */
export function requireRole(roles: readonly Role[]): Step {
  return ({ admission }, _response, next) => {
    const { key } = admission
    if (key === undefined) throw unauthenticated(admission.isUnknownKey === true)
    if (!isServed(key, roles)) throw forbidden(key.role, roles)
    next()
  }
}

/** The roles that a route serves; it says nothing: `admin` only. */
export function rolesOf(access: readonly Role[] = []): Role[] {
  return [...access, 'admin']
}

export function isServed({ role }: Caller, roles: readonly string[]): boolean {
  return role === 'admin' || roles.includes(role)
}

function unauthenticated(isUnknownKey: boolean): OjsError {
  return new OjsError(
    'x_unauthenticated',
    isUnknownKey
      ? 'The API key is not known to this gateway.'
      : 'An API key is needed: Authorization: Bearer <key>.',
    { details: { reason: isUnknownKey ? 'invalid_token' : 'missing_token' } },
  )
}

function forbidden(role: string, roles: readonly Role[]): OjsError {
  return new OjsError('x_forbidden', `An API key of the role ${role} may not use this endpoint.`, {
    details: { reason: 'role', role, allowed_roles: rolesOf(roles) },
  })
}

/** Whether the caller may see what jobs carry: args, results, the texts of errors. All but `reader` may. */
export function mayReadPayloads({ key }: Admission): boolean {
  return key?.role !== 'reader'
}
