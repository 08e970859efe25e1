import { type ErrorCode, echoed, invalidField } from './errors.ts'

/**
 * Four answers in which OJS's public test suite contradicts the seeds, so that no single one can
 * satisfy both (`OJS_DIALECT`; T1–T4 of conformance.md §3.1). All of the difference is here: who
 * needs an answer asks, and nobody else compares dialects.
 */
export const DIALECTS = ['seed', 'conformance'] as const
export type Dialect = (typeof DIALECTS)[number]

/** T1: the code of the 409 for an ACK, NACK or BEAT of a job that is not active (seed 001 §10.2). */
export function notActiveCode(dialect: Dialect): ErrorCode {
  return dialect === 'seed' ? 'invalid_request' : 'conflict'
}

/**
 * T2: the member `queue` of the answers about one queue, which is its name (seed 001 §11.2–11.4), or
 * an object with `facts` in it. The members beside it are the seed's in both dialects.
 */
export function queueMember(
  dialect: Dialect,
  name: string,
  facts: Readonly<Record<string, number | boolean>>,
): string | object {
  return dialect === 'seed' ? name : { name, ...facts }
}

/** T3: whether a paused queue takes new jobs; else PUSH is 422 `queue_paused` (seed 001 §11.3). */
export function takesJobsWhilePaused(dialect: Dialect): boolean {
  return dialect === 'conformance'
}

/**
 * T4: seed 003's pattern of job types allows upper case, the suite does not. The rest of the pattern
 * has been checked before. Throws `OjsError` 400.
 */
export function requireTypeCase(dialect: Dialect, type: string): void {
  if (dialect === 'seed' || type === type.toLowerCase()) return
  throw invalidField('type', "The 'type' field must be in lower case.", {
    validation: 'pattern',
    received: echoed(type),
  })
}
