/** Random histories of calls of the whole contract. */
import fc from 'fast-check'
import { type Call, JOBS, type Verb } from './call.ts'
import { JOB_VERBS } from './jobs.ts'
import { QUEUE_VERBS } from './queues.ts'
import { CRON_VERBS } from './recurring.ts'
import { WORKFLOW_VERBS } from './workflows.ts'

export const VERBS: Readonly<Record<string, Verb>> = {
  ...JOB_VERBS,
  ...QUEUE_VERBS,
  ...CRON_VERBS,
  ...WORKFLOW_VERBS,
  reopen: { isAlone: true, atStart: true, run: () => 'reopened' },
}

const DRAWN = Object.entries(VERBS).flatMap(([verb, { weight = 1 }]) =>
  Array<string>(weight).fill(verb),
)
const someJob = fc.constantFrom(...[0, 0, 1, 1, 2, 2, 3, 3], JOBS, JOBS + 1)

const call: fc.Arbitrary<Call> = fc.record({
  verb: fc.constantFrom(...DRAWN),
  job: someJob,
  other: someJob,
  attemptOff: fc.constantFrom(0, 0, 0, 0, 0, -1, 1, 2),
  generationOff: fc.constantFrom(0, 0, 0, 0, 0, 1, -1),
  nonceOff: fc.constantFrom(0, 0, 0, 1),
  n: fc.nat(999),
  joins: fc.boolean(),
  later: fc.constantFrom(0, 0, 1, 30, 250, 1_000, 40_000),
})

/** Histories of so many calls at least. */
export function histories(calls: number): fc.Arbitrary<Call[]> {
  return fc.array(call, { minLength: calls, maxLength: calls + 20, size: 'max' })
}
