import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { CronEntry } from '../../../src/job/cron/entry.ts'
import { toNewJob } from '../../../src/job/envelope.ts'
import { isTerminal, type JobRow, type NewJob } from '../../../src/job/job.ts'
import type { PushRequest } from '../../../src/job/request.ts'
import { WORKFLOW_STATES } from '../../../src/job/workflow/workflow.ts'
import type { Fired } from '../../../src/ledger/cron.ts'
import type { NewWorkflow } from '../../../src/ledger/workflows.ts'
import { newJob } from '../../support/gateway/jobs.ts'
import { newWorkflow } from '../../support/gateway/workflows.ts'
import {
  expectCounts,
  FAILED,
  failAttempt,
  fenceOf,
  jobMessage,
  type LedgerHarness,
  NOW,
  TERMS,
  type UnderTest,
} from '../harness.ts'
import { hearing } from '../news.ts'

const MINUTE_MS = 60_000
/** `k0` and `k1` are unique, so there may be one live job of each; there may be any number of `free`. */
const TYPES = ['k0', 'k1', 'free']
const CONFLICTS = ['replace', 'replace', 'reject', 'ignore']
const OVERLAPS = ['skip', 'enqueue', 'cancel_previous'] as const

const VERBS = [
  ...['push', 'push', 'batch', 'workflow', 'workflow', 'tick', 'tick', 'release', 'cancel'],
  ...['cancelWorkflow', 'claim', 'claim', 'claim', 'ack', 'ack', 'fail', 'retry', 'promote'],
] as const

interface Action {
  verb: string
  n: number
}

const turns = fc.array(
  fc.array(fc.record({ verb: fc.constantFrom(...VERBS), n: fc.nat(999) }), {
    minLength: 1,
    maxLength: 4,
  }),
  { minLength: 5, maxLength: 40 },
)

/** Workflows, unique keys and cron entries together: the end of one job begins, replaces or ends another. */
export function togetherContract({ harness, runs }: UnderTest): void {
  describe('workflows, unique keys and cron entries under any sequence of operations', () => {
    it('leave at most one live job for each key and each entry, and correct counts', async () => {
      await fc.assert(
        fc.asyncProperty(turns, async (all) => {
          const world = await World.begin(harness)
          for (const turn of all) await world.play(turn)
          await world.end()
        }),
        { numRuns: runs(60) },
      )
    })
  })
}

/** Each run has its own types and entries, because all runs share one ledger. */
class World {
  readonly #harness: LedgerHarness
  readonly #own = newJob().id
  readonly #ids = new Set<string>()
  readonly #workflows = new Set<string>()
  /** The jobs that the ticks of each entry have stored. */
  readonly #ticked = new Map<string, string[]>()

  static async begin(harness: LedgerHarness): Promise<World> {
    const world = new World(harness)
    for (const overlap of OVERLAPS) await world.#register(overlap)
    return world
  }

  constructor(harness: LedgerHarness) {
    this.#harness = harness
  }

  /** The jobs of steps are known from the outcomes of what began them only. */
  get #ledger() {
    return hearing(this.#harness.ledger, (one) => {
      if (one.what === 'born') this.#ids.add(one.job.id)
    })
  }

  async #rows(): Promise<JobRow[]> {
    const rows = await Promise.all([...this.#ids].map((id) => this.#ledger.read.find(id)))
    return rows.filter((row) => row !== null)
  }

  async play(turn: readonly Action[]): Promise<void> {
    await Promise.all(turn.map((action) => this.#do(action)))
    await this.#check()
  }

  /** Cancels all live jobs, which must end all workflows. */
  async end(): Promise<void> {
    for (let live = await this.#in(); live.length > 0; live = await this.#in()) {
      for (const { id } of live) await this.#ledger.cancel(id, NOW)
      await this.#check()
    }
    await expectCounts(this.#harness)
    expect(await this.#harness.inspect()).toEqual([])
    const states = await Promise.all(
      [...this.#workflows].map(async (id) => (await this.#ledger.read.workflows.find(id))?.state),
    )
    expect(states).not.toContain('running')
  }

  /** The jobs in the given state, or all that have not ended. */
  async #in(state?: JobRow['state']): Promise<JobRow[]> {
    return (await this.#rows()).filter((row) =>
      state ? row.state === state : !isTerminal(row.state),
    )
  }

  async #do({ verb, n }: Action): Promise<unknown> {
    const ledger = this.#ledger
    const one = async (state?: JobRow['state']) => {
      const rows = await this.#in(state)
      return rows[n % (rows.length || 1)]
    }
    switch (verb) {
      case 'push':
        return await ledger.insert(this.#job(n), NOW)
      case 'batch':
        return await ledger.insertAll([this.#job(n), this.#job(n + 1), this.#job(n)], NOW)
      case 'workflow':
        return await ledger.workflows.create(this.#workflow(n), NOW)
      case 'tick':
        return await this.#tick(n)
      case 'release':
        return await this.#release(n)
      case 'promote':
        return await ledger.promote(NOW, NOW, 100)
      case 'cancelWorkflow': {
        const id = [...this.#workflows][n % (this.#workflows.size || 1)] ?? 'nobody'
        return await ledger.workflows.cancel(id, NOW)
      }
      case 'claim': {
        const row = await one('available')
        return (
          row && (await ledger.claim([jobMessage(row.id, { attempt: row.attempt + 1 })], TERMS))
        )
      }
      default: {
        const row = await one(verb === 'cancel' ? undefined : 'active')
        return row && (await this.#end(verb, row))
      }
    }
  }

  async #end(verb: string, row: JobRow): Promise<unknown> {
    const ledger = this.#ledger
    if (verb === 'cancel') return await ledger.cancel(row.id, NOW)
    if (verb === 'ack') return await ledger.complete(row.id, {}, { now: NOW, result: '1' })
    const retry = { to: 'retryable', dueAt: NOW, delayMs: 1, retryQueueMs: null } as const
    const discard = { to: 'discarded', isDeadLetter: true, copy: 'nack' } as const
    return verb === 'retry'
      ? await failAttempt(ledger, row.id, fenceOf(row), {
          ...FAILED,
          ...retry,
          isMessageBack: true,
        })
      : await failAttempt(ledger, row.id, fenceOf(row), { ...FAILED, ...discard })
  }

  #request(n: number): PushRequest & { type: string } {
    const kind = TYPES[n % TYPES.length] ?? ''
    const unique = { keys: ['type'], on_conflict: CONFLICTS[n % CONFLICTS.length] ?? null }
    const options = { queue: 'q', ...(kind !== 'free' && { unique }) }
    return { type: `${kind}.x${this.#own}`, args: [], options }
  }

  #job(n: number): NewJob {
    const { id } = newJob()
    this.#ids.add(id)
    const context = { newId: () => id, now: NOW, wall: NOW, timeoutMs: 30_000, prefix: '' }
    return toNewJob(this.#request(n), context)
  }

  #workflow(n: number): NewWorkflow {
    const step = (i: number) => this.#request(n + i)
    const batch = {
      jobs: [step(0), step(1)],
      callbacks: { on_failure: step(0), on_complete: step(2) },
    }
    const forms = [
      { type: 'chain', steps: [step(0), step(1), step(0)] },
      { type: 'group', jobs: [step(0), step(1), step(2), step(0)] },
      { type: 'batch', ...batch },
      { type: 'chain', steps: [{ type: 'batch', ...batch }, step(1)] },
    ]
    const workflow = newWorkflow(forms[n % forms.length] ?? {})
    this.#workflows.add(workflow.id)
    return workflow
  }

  #nameOf(n: number): string {
    return `${OVERLAPS[n % OVERLAPS.length]}-${this.#own}`
  }

  async #entry(n: number): Promise<CronEntry> {
    const found = await this.#ledger.read.cron.find(this.#nameOf(n))
    if (!found) throw new Error(`no entry ${n}`)
    return found
  }

  async #register(overlap: (typeof OVERLAPS)[number]): Promise<void> {
    const name = this.#nameOf(OVERLAPS.indexOf(overlap))
    const when = { expression: '* * * * *', timezone: 'UTC', isEnabled: true, description: null }
    const definition = { name, overlap, ...when, template: this.#request(0) }
    const first = { nextRunAt: NOW, createdAt: NOW, limit: 10_000 }
    await this.#ledger.cron.register(definition, first)
  }

  async #tick(n: number): Promise<void> {
    const { name, seq, nextRunAt } = await this.#entry(n)
    const tick = { name, seq, at: nextRunAt ?? 0 }
    const making = { job: this.#job(n), now: NOW, isUnsettled: () => false }
    const change = { ...making, nextRunAt: tick.at + MINUTE_MS, maxQueued: 2 }
    const fired = await this.#ledger.cron.fire(tick, change)
    this.#note(name, fired)
    if (fired.outcome !== 'blocked') return
    for (const id of fired.runningIds) await this.#ledger.cancel(id, NOW)
    this.#note(name, await this.#ledger.cron.fire(tick, change))
  }

  async #release(n: number): Promise<void> {
    const { name, seq, queued } = await this.#entry(n)
    const [at] = queued
    if (at === undefined) return
    const making = { job: this.#job(n), now: NOW, isUnsettled: () => false }
    this.#note(name, await this.#ledger.cron.release({ name, seq, at }, making))
  }

  #note(name: string, fired: Fired): void {
    if (fired.outcome !== 'fired') return
    this.#ticked.set(name, [...(this.#ticked.get(name) ?? []), fired.job.id])
  }

  async #check(): Promise<void> {
    const rows = await this.#in()
    const unique = rows.filter(({ type }) => !type.startsWith('free'))
    expect(new Set(unique.map(({ type }) => type)).size).toBe(unique.length)
    const live = new Set(rows.map(({ id }) => id))
    for (const [name, ids] of this.#ticked) {
      expect(ids.filter((id) => live.has(id)).length, name).toBeLessThan(2)
    }
    const list = async (state: (typeof WORKFLOW_STATES)[number] | null) =>
      (await this.#ledger.read.workflows.list({ state, limit: 0, offset: 0 })).total
    const totals = await Promise.all(WORKFLOW_STATES.map((state) => list(state)))
    expect(totals.reduce((sum, total) => sum + total)).toBe(await list(null))
  }
}
