import fc from 'fast-check'
import { expect, it } from 'vitest'
import { isErased, JOB_STATES, type NewJob } from '../../src/job/job.ts'
import { FAILED, failAttempt, fenceOf, jobMessage, NOW, revive, TERMS } from '../ledger/harness.ts'
import { type SqliteHarness, sqliteHarnesses } from '../ledger/sqlite/harness.ts'
import { newJob } from '../support/gateway/jobs.ts'

/** Two of them begin alike, as far as the index of unique keys can tell. */
const KEYS = ['0123456789-one', '0123456789-two', 'abcdefghij-one', '012fffffff-one']
const IDS = Array.from({ length: 12 }, (_, i) => `job-${i}`)
const ENDED = NOW + 10_000

type Act = (harness: SqliteHarness, id: string) => unknown

const ACTIONS: Readonly<Record<string, Act>> = {
  claim: ({ ledger }, id) => ledger.claim([jobMessage(id)], TERMS),
  complete: ({ ledger }, id) => ledger.complete(id, {}, { now: NOW, result: null }),
  die: async ({ ledger }, id) => {
    const row = await ledger.read.find(id)
    const change = { ...FAILED, to: 'discarded', isDeadLetter: true, copy: 'nack' } as const
    return row && (await failAttempt(ledger, id, fenceOf(row), change))
  },
  cancel: ({ ledger }, id) => ledger.cancel(id, NOW),
  returned: async ({ ledger }, id) => {
    const row = await ledger.read.find(id)
    if (row) ledger.messageReturned(id, row.generation)
  },
  withdraw: async ({ ledger }, id) => {
    const row = await ledger.read.find(id)
    return row?.outbox != null && (await ledger.withdraw(id, row.outbox))
  },
  revive: async ({ ledger }, id) => {
    const row = await ledger.read.find(id)
    return row && (await revive(ledger, id, NOW))
  },
  prune: async ({ ledger }) => {
    const all = { completed: ENDED, cancelled: ENDED, discarded: ENDED, withdrawn: ENDED }
    await ledger.prune({ ...all, deadLetters: ENDED }, ENDED, 3)
  },
  plain: ({ ledger }) => ledger.insert(newJob(), NOW),
  reopen: (harness) => harness.reopen(),
}

/** Pushes are half of all steps. */
const step = fc.oneof(
  fc.record({
    key: fc.constantFrom(...KEYS),
    states: fc.subarray([...JOB_STATES], { minLength: 1 }),
    id: fc.constantFrom(...IDS),
  }),
  fc.record({ what: fc.constantFrom(...Object.keys(ACTIONS)), id: fc.constantFrom(...IDS) }),
)

/** What a look at all rows says. */
function hasRival({ db }: SqliteHarness, key: string, states: readonly string[]): boolean {
  const rows = db.prepare('SELECT state FROM jobs WHERE unique_key = ?').all(key)
  return (rows as { state: string }[]).some(({ state }) => states.includes(state))
}

async function push(harness: SqliteHarness, job: NewJob): Promise<void> {
  const { id, unique } = job
  const row = await harness.ledger.read.find(id)
  if (unique === null || (row && !isErased(row.state))) return
  const expected = hasRival(harness, unique.key, unique.states) ? 'conflict' : 'inserted'
  const { outcome } = await harness.ledger.insert(job, NOW)
  expect(outcome).toBe(expected)
}

const harnesses = [1, 3, 7].map((jobsPerMove) => sqliteHarnesses(jobsPerMove))
const history = fc.array(step, { minLength: 40, maxLength: 120 })

it('a unique job conflicts with exactly the rows that a look at all rows finds, wherever their keys are', async () => {
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...harnesses), history, async (open, steps) => {
      const harness = await open()
      for (const one of steps) {
        if ('what' in one) await ACTIONS[one.what]?.(harness, one.id)
        else {
          const { id, key, states } = one
          const unique = { key, states, periodMs: null, onConflict: 'reject' } as const
          await push(harness, newJob({ id, createdAt: NOW, unique }))
        }
      }
      expect(await harness.inspect()).toEqual([])
      await harness.destroy()
    }),
    { numRuns: 60 },
  )
})
