/** The few answers in which OJS's public test suite differs from the seeds. */
import { type ErrorCode, echoed, invalidField } from './errors.ts'
import { jsonOrNull, membersOf } from './job/values/json-value.ts'

/**
 * The five answers in which OJS's public test suite contradicts the seeds, so that no single answer satisfies
 * both (`OJS_DIALECT`; ojs-choices T1–T5), and the hook that its cases for workers need. It is for
 * that suite only: no client needs it. All differences are in this file: other code calls its functions and
 * never compares dialects.
 */
export const DIALECTS = ['seed', 'conformance'] as const
export type Dialect = (typeof DIALECTS)[number]

/** T1: the code of the 409 for a job or workflow whose state forbids the request (seed 001 §9.4, §10.2). */
export function stateConflictCode(dialect: Dialect): ErrorCode {
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

/**
 * T5: whether a job that waits takes a checkpoint. OJS's document on durable execution refuses it (DUR-007); most
 * cases of its suite save one without a FETCH before.
 */
export function savesWhileWaiting(dialect: Dialect): boolean {
  return dialect === 'conformance'
}

/**
 * The suite's hook: a heartbeat about a job whose `meta` has a `test_directive` is answered with it. `documents`
 * returns the texts of the jobs that the worker named. Null: none has one, or the dialect has no such hook.
 */
export async function testDirective(
  dialect: Dialect,
  documents: () => Promise<Iterable<string>>,
): Promise<'quiet' | 'terminate' | null> {
  if (dialect === 'seed') return null
  for (const text of await documents()) {
    const { test_directive: directive } = membersOf(membersOf(jsonOrNull(text))['meta'])
    if (directive === 'quiet' || directive === 'terminate') return directive
  }
  return null
}
