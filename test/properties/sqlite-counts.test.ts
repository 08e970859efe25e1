import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { JobRow, NewJob } from '../../src/job/job.ts'
import type { Said } from '../../src/job/native/report.ts'
import { WORKFLOW_STATES } from '../../src/job/workflow/workflow.ts'
import type { SqliteLedger } from '../../src/ledger/sqlite/ledger.ts'
import { eventOf, REPORT } from '../ledger/contract/reports.ts'
import {
  expectCounts,
  FAILED,
  failAttempt,
  fenceOf,
  jobMessage,
  NOW,
  overdueRows,
  revive,
  settleLazily,
  TERMS,
} from '../ledger/harness.ts'
import { sqliteHarnesses } from '../ledger/sqlite/harness.ts'
import { newJob } from '../support/gateway/jobs.ts'
import { newGraph } from '../support/gateway/workflows.ts'

const FAILURE = { code: 'e', type: 'e', message: 'm', retryable: true }
const GRAPH = { a: [], b: [], c: ['a'], d: ['a', 'b'], e: ['c', 'd'] }
const BEAT = { now: NOW, wall: NOW, workerId: 'w', leaseMs: null, defaultLeaseMs: 500 }

/** What an action works with: an id, which may be that of a step's job, and its present row. */
interface At {
  ledger: SqliteLedger
  id: string
  row: JobRow | null
  /** Of the running attempt or the next one, or sometimes one beside it. */
  attempt: number
  draw: number
}

const reported =
  (said: Said) =>
  ({ ledger, id, attempt, row }: At) =>
    ledger.applyReports([eventOf(id, said, { attempt, generation: row?.generation ?? 0 })], REPORT)

const pushed =
  (given: Partial<NewJob> = {}) =>
  ({ ledger, id, draw }: At) =>
    ledger.insert(newJob({ id, queue: queueOf(draw), maxAttempts: 3, ...given }), NOW)

const unique = (onConflict: 'replace' | 'reject'): Partial<NewJob> => {
  const states = ['available', 'scheduled', 'active', 'retryable'] as const
  return { unique: { key: 'k', onConflict, states: [...states], periodMs: null } }
}

const queueOf = (draw: number) => (draw % 2 === 0 ? 'alpha' : 'beta')
const lease = ({ id, row, attempt }: At) => ({ id, generation: row?.generation ?? 0, attempt })

/** All operations that move rows between states, more than those of `test/ledger/properties`. */
const ACTIONS: Record<string, (at: At) => unknown> = {
  push: pushed(),
  pushReplacing: pushed(unique('replace')),
  pushUnique: pushed(unique('reject')),
  pushExpiring: pushed({ expiresAt: NOW + 1 }),
  pushScheduled: pushed({ start: { state: 'scheduled', dueAt: NOW }, expiresAt: NOW + 1 }),
  adoptSchedule: ({ ledger, id }) =>
    ledger.adoptSchedule(newJob({ id, start: { state: 'scheduled', dueAt: NOW } }), NOW),
  workflow: ({ ledger, draw }) =>
    ledger.workflows.create(newGraph(GRAPH, { queue: queueOf(draw) }), NOW),
  cancelWorkflow: async ({ ledger, draw }) =>
    ledger.workflows.cancel((await workflowsOf(ledger))[draw]?.id ?? '', NOW),
  claim: (at) =>
    at.ledger.claim([jobMessage(at.id, { ...lease(at), adopt: () => adopted(at) })], TERMS),
  complete: ({ ledger, id }) => ledger.complete(id, {}, { now: NOW, result: null }),
  reap: async ({ ledger }) => {
    const [row] = await overdueRows(ledger, NOW + 1e9, 1)
    return row && (await failAttempt(ledger, row.id, fenceOf(row), { ...FAILED, to: 'available' }))
  },
  cancel: ({ ledger, id }) => ledger.cancel(id, NOW),
  started: reported({ event: 'started' }),
  completed: reported({ event: 'completed', result: null }),
  released: reported({ event: 'released', messageAttempt: 1 }),
  expired: reported({ event: 'expired' }),
  dropped: reported({ event: 'dropped' }),
  failed: reported({ event: 'failed', failure: FAILURE, outcome: null }),
  discarded: reported({ event: 'failed', failure: FAILURE, outcome: { decision: 'discard' } }),
  beat: ({ ledger, id }) => ledger.beatNative([id], BEAT),
  rearm: ({ ledger, draw }) => ledger.rearm(queueOf(draw), NOW),
  promote: ({ ledger }) => ledger.promote(NOW + 1e6, NOW + 1e6, 3),
  sendAhead: ({ ledger }) => ledger.sendAhead(NOW + 1e6, 2),
  expire: ({ ledger }) => ledger.expire({ now: NOW, wall: NOW + 2, limit: 9 }),
  revive: ({ ledger, id }) => revive(ledger, id, NOW),
  boundWaits: ({ ledger, draw }) => ledger.boundWaits(NOW - draw),
}

/** Chosen more often, because few jobs would get beyond the first states without them. */
const OFTEN = ['push', 'claim', 'started', 'started', 'promote', 'released']

const adopted = ({ id, draw }: At) => newJob({ id, queue: queueOf(draw), maxAttempts: 3 })

async function workflowsOf(ledger: SqliteLedger) {
  return (await ledger.read.workflows.list({ state: null, limit: 100, offset: 0 })).workflows
}

interface Action {
  what: string
  job: number
  isStep: boolean
  attemptOff: number
  draw: number
}

/** The jobs of all steps that have begun. */
async function stepJobs(ledger: SqliteLedger): Promise<string[]> {
  const found = await Promise.all(
    (await workflowsOf(ledger)).map(({ id }) => ledger.read.workflows.find(id)),
  )
  return found.flatMap((workflow) => workflow?.steps ?? []).flatMap(({ jobId }) => jobId ?? [])
}

const action: fc.Arbitrary<Action> = fc.record({
  what: fc.constantFrom(...Object.keys(ACTIONS), ...OFTEN),
  job: fc.nat(1),
  isStep: fc.constantFrom(false, false, true),
  attemptOff: fc.constantFrom(0, 0, 0, 0, 1, -1),
  draw: fc.nat(9),
})

async function act(ledger: SqliteLedger, one: Action): Promise<unknown> {
  const steps = one.isStep ? await stepJobs(ledger) : []
  const id = steps[one.draw % Math.max(1, steps.length)] ?? `job-${one.job}`
  const row = await ledger.read.find(id)
  const next = (row?.attempt ?? 0) + (row?.state === 'active' ? 0 : 1)
  const attempt = Math.max(1, next + one.attemptOff)
  return ACTIONS[one.what]?.({ ledger, id, row, attempt, draw: one.draw })
}

/** Actions of one inner list are called in the same turn of the event loop. */
const history = fc.array(fc.array(action, { minLength: 2, maxLength: 6 }), {
  minLength: 20,
  maxLength: 60,
})

const open = sqliteHarnesses()

it('the kept totals equal the counted rows after any sequence of operations on jobs, steps and workflows', async () => {
  await fc.assert(
    fc.asyncProperty(history, async (turns) => {
      const harness = await open()
      for (const turn of turns) {
        const { ledger } = harness
        await Promise.all(turn.map((one) => act(ledger, one)))
        await settleLazily(ledger)
        await expectCounts(harness)
        for (const state of WORKFLOW_STATES) {
          const { workflows, total } = await ledger.read.workflows.list({
            ...{ state, limit: 100, offset: 0 },
          })
          expect(total).toBe(workflows.length)
        }
      }
      await harness.reopen()
      await expectCounts(harness)
      expect(await harness.inspect()).toEqual([])
      await harness.destroy()
    }),
    { numRuns: 15 },
  )
})
