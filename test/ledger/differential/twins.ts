/** Plays one history on two ledgers, and compares what they answer and what they keep. */
import { expect, vi } from 'vitest'
import type { KeyNews } from '../../../src/ledger/concurrency.ts'
import type { Ledger } from '../../../src/ledger/ledger.ts'
import { inOrder } from '../../support/broker/order.ts'
import { expectCounts, type LedgerHarness, NOW } from '../harness.ts'
import { newsIn } from '../news.ts'
import { Aliases } from './aliases.ts'
import { type Call, ENTRY, type Given, JOBS, NO_WORKFLOW, WORKERS } from './call.ts'
import { VERBS } from './histories.ts'
import { CRON_VERBS } from './recurring.ts'
import { allOf, knownOf, seenOf } from './shown.ts'

/** How often more is looked at than the rows of a turn. */
const TURNS_PER_LOOK = 10

/** The machine's clock is the histories' (`vi.setSystemTime`). */
export class Twins {
  readonly #twins: readonly [Twin, Twin]
  #now = NOW

  constructor(first: LedgerHarness, second: LedgerHarness) {
    this.#twins = [new Twin(first), new Twin(second)]
  }

  async play(calls: readonly Call[]): Promise<void> {
    // Else SQLite tells it by the rows, for files of earlier builds.
    await this.#compare('the beginning', (twin) => twin.noteSeen(this.#now))
    let turns = 0
    for (const turn of turnsOf(calls)) {
      this.#now += turn[0]?.later ?? 0
      vi.setSystemTime(this.#now)
      await this.#compare(turn, (twin) => twin.answers(turn, this.#now))
      const isNth = ++turns % TURNS_PER_LOOK === 0
      await this.#compare(turn, (twin) => twin.seen(turn, this.#now, isNth))
    }
    await this.#compare('the end', (twin) => twin.all(this.#now))
  }

  async #compare(what: unknown, ask: (twin: Twin) => Promise<unknown>): Promise<void> {
    const [first, second] = this.#twins
    const [one, other] = [await ask(first), await ask(second)]
    expect(second.named(other), JSON.stringify(what)).toEqual(first.named(one))
  }
}

/** One of the two ledgers. */
class Twin {
  readonly #harness: LedgerHarness
  readonly #aliases = new Aliases()
  readonly #ids = Array.from({ length: JOBS }, (_, n) => `job-${n}`)
  /** Jobs that steps and ticks have made, oldest first. */
  readonly #made: string[] = []
  readonly #workflows: string[] = []
  #keyNews: KeyNews[] = []
  #calls = 0

  constructor(harness: LedgerHarness) {
    this.#harness = harness
    this.#listen()
  }

  named(value: unknown): unknown {
    return this.#aliases.replace(value)
  }

  noteSeen(now: number): Promise<void> {
    return this.#harness.ledger.epochs.noteSeen(now)
  }

  /** What each call of the turn said, or how it failed. */
  async answers(turn: readonly Call[], now: number): Promise<unknown> {
    if (turn.some(({ verb }) => VERBS[verb]?.atStart)) await this.#reopen()
    const { ledger } = this.#harness
    // All that the calls are given is read before the first of them, so that they are of one turn.
    const given = await Promise.all(turn.map((call) => this.#given(ledger, call, now)))
    const said = given.map(async (one) => await VERBS[one.call.verb]?.run(one))
    const settled = await Promise.allSettled(said)
    const answers = settled.map((one) => (one.status === 'fulfilled' ? one.value : one.reason))
    for (const answer of answers) this.#learn(answer)
    const news = this.#keyNews.splice(0)
    const held = inOrder(news.flatMap((one) => one.held))
    return {
      answers,
      held,
      released: inOrder(news.flatMap((one) => one.released.map(({ id }) => id))),
    }
  }

  /** The rows that the turn is about, and what costs no read; `isAll`: more. */
  async seen(turn: readonly Call[], now: number, isAll: boolean): Promise<unknown> {
    const { ledger } = this.#harness
    const numbers = new Set(turn.flatMap(({ job, other }) => [job, other]))
    const ids = [...new Set([...numbers].map((n) => this.#idOf(n)))]
    const about = { ids, workflows: this.#workflows.slice(-2) }
    const rows = await Promise.all(ids.map((id) => ledger.read.find(id)))
    return { rows, known: knownOf(ledger, now), more: isAll ? await seenOf(ledger, about) : null }
  }

  async all(now: number): Promise<unknown> {
    // A count that was forgotten is found wrong in both.
    await expectCounts(this.#harness)
    const about = { ids: [...this.#ids, ...this.#made], workflows: this.#workflows }
    const wrong = inOrder(await this.#harness.inspect())
    return { all: await allOf(this.#harness.ledger, about, now), wrong }
  }

  async #given(ledger: Ledger, call: Call, now: number): Promise<Given> {
    const id = this.#idOf(call.job)
    const row = await ledger.read.find(id)
    const generation = Math.max(0, (row?.generation ?? 0) - call.generationOff)
    const attempt = Math.max(1, (row?.attempt ?? 0) + call.attemptOff)
    this.#calls += 1
    return {
      ...{ ledger, call, id, row, now, other: this.#idOf(call.other), fresh: this.#calls },
      entry: call.verb in CRON_VERBS ? await ledger.read.cron.find(ENTRY(call.n)) : null,
      workflow: this.#workflows.at(-1 - (call.n % 2)) ?? this.#workflows[0] ?? NO_WORKFLOW,
      lease: { id, generation, attempt },
      next: { generation, attempt: row?.state === 'active' ? attempt : attempt + 1 },
      nonce: call.nonceOff === 0 ? (row?.outbox ?? 0) : 0,
      worker: WORKERS[call.n % WORKERS.length] ?? null,
      cause: { requestId: `req-${call.n}`, principal: 'ops' },
    }
  }

  #idOf(job: number): string {
    return this.#ids[job] ?? this.#made.at(JOBS - 1 - job) ?? this.#ids[job - JOBS] ?? ''
  }

  #learn(answer: unknown): void {
    for (const one of newsIn(answer)) if (one.what === 'born') this.#made.push(one.job.id)
    const { outcome, job, workflow }: Answer = Object(answer)
    if (outcome === 'fired' && job) this.#made.push(job.id)
    if (outcome === 'created' && workflow) this.#workflows.push(workflow.id)
  }

  async #reopen(): Promise<void> {
    await this.#harness.reopen()
    this.#listen()
  }

  #listen(): void {
    this.#harness.ledger.concurrency.onNews((news) => void this.#keyNews.push(news))
  }
}

interface Answer {
  outcome?: unknown
  job?: { id: string }
  workflow?: { id: string }
}

function turnsOf(calls: readonly Call[]): Call[][] {
  const turns: Call[][] = []
  let isOpen = false
  for (const call of calls) {
    const isAlone = VERBS[call.verb]?.isAlone ?? false
    const last = turns.at(-1)
    if (last && isOpen && call.joins && !isAlone && last.length < 4) last.push(call)
    else turns.push([call])
    isOpen = !isAlone
  }
  return turns
}
