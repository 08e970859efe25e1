import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isTerminal, type JobRow } from '../../../src/job/job.ts'
import type { ReportedEvent, Said } from '../../../src/job/native/report.ts'
import type { Ledger } from '../../../src/ledger/ledger.ts'
import { newJob } from '../../support/gateway/jobs.ts'
import { NOW, rowOf, type UnderTest } from '../harness.ts'
import { REPORT } from './reports.ts'

const JOBS = 500

/** How an attempt that another one follows fails: who decides, and where the job message is. */
const RETRIES = ['inRetryQueue', 'held', 'undecided'] as const
/** How the last attempt ends; also without a report of its end. */
const LAST = [
  'completed',
  'discard',
  'exhausted',
  'started',
  'inRetryQueue',
  'held',
  'nothing',
] as const

interface Script {
  retries: readonly (typeof RETRIES)[number][]
  last: (typeof LAST)[number]
  /** Whether the workers report `started` as well. */
  tellsStarts: boolean
  /** Which attempts another worker began before and gave back; only attempts with a reported end. */
  releases: readonly boolean[]
}

const script: fc.Arbitrary<Script> = fc.record({
  retries: fc.array(fc.constantFrom(...RETRIES), { maxLength: 3 }),
  last: fc.constantFrom(...LAST),
  tellsStarts: fc.boolean(),
  releases: fc.array(fc.boolean(), { maxLength: 4 }),
})

const stream = fc.record({
  scripts: fc.array(script, { minLength: JOBS, maxLength: JOBS, size: 'max' }),
  seed: fc.integer({ min: 1, max: 2 ** 31 - 1 }),
})

/** Reports of native workers that arrive shuffled, duplicated or in part. */
export function reportStreamContract({ ledger, runs }: UnderTest): void {
  let round = 0

  describe(`the report stream of ${JOBS} jobs`, () => {
    it('ends in the same states when it is shuffled and duplicated', async () => {
      await fc.assert(
        fc.asyncProperty(stream, async ({ scripts, seed }) => {
          const random = randomOf(seed)
          const [clean, other] = [
            await World.begin(ledger, ++round),
            await World.begin(ledger, ++round),
          ]
          const events = scripts.flatMap((each, job) => clean.eventsOf(job, each))
          await clean.play(events, random)
          const copies = scripts
            .flatMap((each, job) => other.eventsOf(job, each))
            .flatMap((event) => Array<ReportedEvent>(1 + Math.floor(random() * 3)).fill(event))
          await other.play(shuffled(copies, random), random)
          expect(other.outcome()).toEqual(clean.outcome())
        }),
        { numRuns: runs(6) },
      )
    })

    it('never takes a job back, nor further than its reports say, when a part of it is lost', async () => {
      await fc.assert(
        fc.asyncProperty(stream, async ({ scripts, seed }) => {
          const random = randomOf(seed)
          const world = await World.begin(ledger, ++round)
          const sent = scripts.flatMap((each, job) => world.eventsOf(job, each))
          const arrived = shuffled(sent, random).filter(() => random() < 0.6)
          await world.play(arrived, random)
          await world.expectNoMoreThan(arrived)
        }),
        { numRuns: runs(6) },
      )
    })
  })
}

class World {
  readonly #ledger: Ledger
  readonly #ids: readonly string[]
  readonly #seen = new Map<string, JobRow>()

  static async begin(ledger: Ledger, round: number): Promise<World> {
    const ids = Array.from({ length: JOBS }, (_, job) => `stream-${round}-${job}`)
    const jobs = ids.map((id) => newJob({ id, queue: `stream-${round}`, maxAttempts: 5 }))
    await ledger.insertAll(jobs, NOW)
    return new World(ledger, ids)
  }

  constructor(ledger: Ledger, ids: readonly string[]) {
    this.#ledger = ledger
    this.#ids = ids
  }

  eventsOf(job: number, { retries, last, tellsStarts, releases }: Script): ReportedEvent[] {
    const ends = [...retries, last]
    return ends.flatMap((end, index) => {
      const event = { id: this.#ids[job] ?? '', generation: 0, workerId: `w${job % 7}` }
      // An exhausted job has used up all of its attempts.
      const attempt = end === 'exhausted' ? 5 : index + 1
      const said = saidOf(end, attempt)
      const isTold = tellsStarts || end === 'started'
      const other = { ...event, attempt, workerId: 'gone' }
      const given: ReportedEvent[] = [
        { ...other, said: STARTED },
        { ...other, said: { event: 'released', messageAttempt: attempt } },
      ]
      return [
        ...(releases[index] === true && said ? given : []),
        ...(isTold && end !== 'nothing' ? [{ ...event, attempt, said: STARTED }] : []),
        ...(said ? [{ ...event, attempt, said }] : []),
      ]
    })
  }

  /** Applies the events in messages of up to a hundred. */
  async play(events: readonly ReportedEvent[], random: () => number): Promise<void> {
    for (let from = 0; from < events.length; ) {
      const next = from + 1 + Math.floor(random() * 100)
      const message = events.slice(from, next)
      await this.#ledger.applyReports(message, REPORT)
      for (const { id } of message) await this.#lookAt(id)
      from = next
    }
  }

  /** Checks that no state goes backwards. */
  async #lookAt(id: string): Promise<void> {
    const row = await rowOf(this.#ledger, id)
    const was = this.#seen.get(id)
    this.#seen.set(id, row)
    // An `expect` for each of these looks would take half of the time.
    if (was !== undefined && !mayFollow(was, row)) expect(row, 'goes back').toEqual(was)
  }

  /** The state of every job, without what depends on the time of the reports. */
  async outcome(): Promise<unknown[]> {
    return await Promise.all(
      this.#ids.map(async (id) => {
        const row = await rowOf(this.#ledger, id)
        const {
          state,
          attempt,
          result,
          error,
          isDeadLetter,
          messageOut,
          holder,
          retryQueueMs,
          dueAt,
        } = row
        const errors: { attempt: number; code: string }[] = JSON.parse(row.errors ?? '[]')
        const told = errors.map((entry) => [entry.attempt, entry.code])
        const owesCopy = row.outbox !== null && state === 'discarded'
        return {
          state,
          attempt,
          result,
          error,
          isDeadLetter,
          messageOut,
          holder,
          retryQueueMs,
          dueAt,
          told,
          owesCopy,
        }
      }),
    )
  }

  async expectNoMoreThan(arrived: readonly ReportedEvent[]): Promise<void> {
    const byId = new Map<string, ReportedEvent[]>()
    for (const event of arrived) byId.set(event.id, [...(byId.get(event.id) ?? []), event])
    for (const id of this.#ids) {
      const events = byId.get(id) ?? []
      const row = await rowOf(this.#ledger, id)
      // A `released` report of an attempt whose start has not arrived changes nothing.
      const told = events.filter(({ said }) => said.event !== 'released')
      const last = Math.max(0, ...told.map(({ attempt }) => attempt))
      const ofLast = events.filter(({ attempt }) => attempt === last)
      const said = new Set(ofLast.map((event) => event.said.event))
      const isGivenBack = row.state === 'available' && said.delete('released')
      expect(row.attempt).toBe(isGivenBack ? last - 1 : last)
      expect(row.state === 'completed').toBe(said.has('completed'))
      if (row.state === 'active') {
        // `released` arrived before the start by the same worker, or is from another worker.
        said.delete('released')
        expect([...said]).toEqual(['started'])
      }
      if (row.state === 'available' && !isGivenBack) expect(last).toBe(0)
      if (row.state === 'retryable' || row.state === 'discarded') expect(said).toContain('failed')
    }
  }
}

function mayFollow(was: JobRow, row: JobRow): boolean {
  const isGivenBack = was.state === 'active' && was.workerId === 'gone'
  if (isGivenBack && row.state === 'available') return row.attempt >= was.attempt - 1
  if (row.attempt < was.attempt) return false
  if (isTerminal(was.state) && row.state !== was.state) return false
  return row.attempt > was.attempt || stageOf(row) >= stageOf(was)
}

const STARTED: Said = { event: 'started' }

function saidOf(end: Script['last'] | Script['retries'][number], attempt: number): Said | null {
  const failure = { code: `e${attempt}`, type: 'e', message: 'it broke', retryable: true }
  const failed = { event: 'failed', failure } as const
  const retry = { decision: 'retry', delay_ms: 700 } as const
  switch (end) {
    case 'completed':
      return { event: 'completed', result: `${attempt}` }
    case 'discard':
      return { ...failed, outcome: { decision: 'discard' } }
    case 'inRetryQueue':
      return { ...failed, outcome: { ...retry, rung_ms: 700 } }
    case 'held':
      return { ...failed, outcome: retry }
    case 'undecided':
    case 'exhausted':
      return { ...failed, outcome: null }
    case 'started':
    case 'nothing':
      return null
  }
}

/** The stage within one attempt: started, waiting for the next one, ended. */
function stageOf({ state }: JobRow): number {
  if (isTerminal(state)) return 3
  return state === 'active' ? 1 : 2
}

function shuffled<T>(list: readonly T[], random: () => number): T[] {
  const copy = [...list]
  for (let i = copy.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1))
    const [a, b] = [copy[i] as T, copy[j] as T]
    copy[i] = b
    copy[j] = a
  }
  return copy
}

/** The LCG of Numerical Recipes, so that a run can be repeated with its seed. */
function randomOf(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}
