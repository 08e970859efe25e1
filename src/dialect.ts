import { type ErrorCode, echoed, invalidField } from './errors.ts'

/**
 * The four answers in which OJS's public test suite contradicts the seeds, so that no single answer satisfies
 * both (`OJS_DIALECT`; T1–T4 of conformance.md §3.1). All differences are in this file: other code calls its
 * functions and never compares dialects.
 */
export const DIALECTS = ['seed', 'conformance'] as const
export type Dialect = (typeof DIALECTS)[number]

/** T1: the code of the 409 for an ACK, NACK or BEAT of a job that is not active (seed 001 §10.2). */
export function notActiveCode(dialect: Dialect): ErrorCode {
  return dialect === 'seed' ? 'invalid_request' : 'conflict'
}

/**
 * T2: the member `queue` of answers about one queue: its name (seed 001 §11.2–11.4), or an object of name and
 * `facts`. The other members are the seed's in both dialects.
 */
export function queueMember(
  dialect: Dialect,
  name: string,
  facts: Readonly<Record<string, number | boolean>>,
): string | object {
  return dialect === 'seed' ? name : { name, ...facts }
}

/** T3: whether a paused queue takes new jobs. If not, PUSH answers 422 `queue_paused` (seed 001 §11.3). */
export function takesJobsWhilePaused(dialect: Dialect): boolean {
  return dialect === 'conformance'
}

/**
 * T4: seed 003's pattern of job types allows upper case, the suite does not. Throws `OjsError` 400. The
 * caller has already checked the rest of the pattern.
 */
export function requireTypeCase(dialect: Dialect, type: string): void {
  if (dialect === 'seed' || type === type.toLowerCase()) return
  throw invalidField('type', "The 'type' field must be in lower case.", {
    validation: 'pattern',
    received: echoed(type),
  })
}
