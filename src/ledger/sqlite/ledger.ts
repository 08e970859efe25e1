import { OjsError, unavailable } from '../../errors.ts'
import { isTerminal, type JobRow, type NewJob } from '../../job/job.ts'
import type { Logger } from '../../logger.ts'
import type {
  Cancelled,
  ClaimResult,
  ClaimTerms,
  ClaimToken,
  Completion,
  Inserted,
  LeaseFence,
  Ledger,
  QueueRecord,
  SettleFence,
  StateCounts,
} from '../ledger.ts'
import { claimToken } from './claim.ts'
import type { Database } from './driver.ts'
import { GroupCommit } from './group-commit.ts'
import { OutboxNonces } from './outbox-nonces.ts'
import { QueueRegister } from './queue-register.ts'
import { REARM_PAGE, type RearmCursor, type RearmedPage, rearmPage } from './rearm.ts'
import { toJobRow } from './rows.ts'
import { StateCounter } from './state-counter.ts'
import { prepareStatements } from './statements.ts'
import { insertJob, type Store } from './store.ts'

/** The ledger in one SQLite file that this process alone has open. See `openSqliteLedger`. */
export class SqliteLedger implements Ledger {
  readonly #db: Database
  readonly #store: Store
  readonly #commits: GroupCommit
  /** Nonces whose confirm waits for its group: nobody owes those tokens any more. */
  readonly #confirming = new Set<number>()
  #isOpen = true

  constructor(db: Database, logger: Logger) {
    const statements = prepareStatements(db)
    this.#db = db
    this.#store = {
      statements,
      counter: new StateCounter(statements),
      queues: new QueueRegister(statements),
      nonces: new OutboxNonces(statements),
    }
    const { counter, queues, nonces } = this.#store
    const probe = () => void statements.probe.run()
    this.#commits = new GroupCommit(db, [counter, queues, nonces], probe, logger)
  }

  insert(job: NewJob, now: number): Promise<Inserted> {
    return this.#commits.write((protect): Inserted => {
      if (!this.#store.queues.has(job.queue)) protect()
      const outbox = this.#store.nonces.next()
      const generation = insertJob(this.#store, job, { now, generation: 0, attempt: 0, outbox })
      if (generation === null) return { outcome: 'duplicate' }
      return { outcome: 'inserted', generation, outbox, enqueuedAt: now }
    })
  }

  confirmed(id: string, outbox: number): void {
    this.#confirming.add(outbox)
    this.#commits.writeLazily(() => {
      this.#store.statements.confirmed.run(id, outbox)
      this.#confirming.delete(outbox)
    })
  }

  withdraw(id: string, outbox: number): Promise<boolean> {
    const { statements, counter } = this.#store
    return this.#commits.write(() => {
      const row = statements.withdraw.get(id, outbox) as { queue: string } | undefined
      if (row) counter.moved(row.queue, 'available', null)
      return row !== undefined
    })
  }

  claim(tokens: readonly ClaimToken[], terms: ClaimTerms): Promise<ClaimResult[]> {
    return this.#commits.write((protect) => {
      if (tokens.length > 1) protect()
      return tokens.map((token) => claimToken(this.#store, token, terms, protect))
    }, tokens.length)
  }

  release(id: string, fence: LeaseFence): Promise<JobRow | 'stale'> {
    const { statements, counter, nonces } = this.#store
    return this.#commits.write(() => {
      const { generation, attempt } = fence
      const job = toJobRow(statements.release.get(id, generation, attempt, nonces.next()))
      if (job) counter.moved(job.queue, 'active', 'available')
      return job ?? 'stale'
    })
  }

  complete(id: string, fence: SettleFence, change: Completion): Promise<JobRow | 'stale'> {
    const { statements, counter } = this.#store
    const { attempt = null, workerId = null } = fence
    return this.#commits.write(() => {
      const { now, result } = change
      const job = toJobRow(statements.complete.get(id, attempt, workerId, now, result))
      if (job) counter.moved(job.queue, 'active', 'completed')
      return job ?? 'stale'
    })
  }

  cancel(id: string, now: number): Promise<Cancelled | 'stale'> {
    const { statements, counter } = this.#store
    return this.#commits.write(() => {
      const row = toJobRow(statements.find.get(id))
      if (!row || row.state === 'withdrawn' || isTerminal(row.state)) return 'stale'
      const job = toJobRow(statements.cancel.get(id, row.state, now))
      if (!job) return 'stale'
      counter.moved(job.queue, row.state, 'cancelled')
      return { job, previousState: row.state }
    })
  }

  handOver(leases?: readonly LeaseFence[]): Promise<number> {
    const { handOver, handOverAll } = this.#store.statements
    if (!leases) return this.#commits.write(() => Number(handOverAll.run().changes))
    return this.#commits.write((protect) => {
      protect()
      let changed = 0
      for (const { id, generation, attempt } of leases) {
        changed += Number(handOver.run(id, generation, attempt).changes)
      }
      return changed
    }, leases.length)
  }

  /** In pages of one group each, so that a long queue does not stop everything else. */
  async rearm(queue: string): Promise<number> {
    let rearmed = 0
    let cursor: RearmCursor | null = null
    do {
      const page: RearmedPage = await this.#commits.write((protect) => {
        protect()
        return rearmPage(this.#store, queue, cursor)
      }, REARM_PAGE)
      rearmed += page.rearmed
      cursor = page.next
    } while (cursor !== null)
    return rearmed
  }

  tokenReturned(id: string, generation: number): void {
    this.#commits.writeLazily(() => this.#store.statements.tokenReturned.run(id, generation))
  }

  deadLetterCopied(id: string, generation: number): void {
    this.#commits.writeLazily(() => this.#store.statements.deadLetterCopied.run(id, generation))
  }

  extendLeases(now: number): Promise<number> {
    const { extendLeases } = this.#store.statements
    return this.#commits.write(() => Number(extendLeases.run(now).changes))
  }

  outboxPage(after: number, limit: number): JobRow[] {
    return this.#read(() => {
      const rows = this.#store.statements.outboxPage.all(after, limit)
      const owed = rows.map(toJobRow).filter((row) => row !== null)
      return owed.filter((row) => !this.#isConfirming(row))
    })
  }

  owedTokens(atMost: number): number {
    return this.#read(() => {
      const row = this.#store.statements.owedTokens.get(atMost) as { count: number }
      return row.count
    })
  }

  find(id: string): JobRow | null {
    return this.#read(() => toJobRow(this.#store.statements.find.get(id)))
  }

  counts(queue: string): StateCounts {
    return this.#store.counter.of(queue)
  }

  /** Every row counted: what `counts` must say of each queue. For tests and repairs only. */
  recount(): Map<string, StateCounts> {
    return this.#read(() => this.#store.counter.recount())
  }

  queues(): readonly QueueRecord[] {
    return this.#store.queues.all()
  }

  async recordQueue(name: string, now: number): Promise<void> {
    if (this.#store.queues.has(name)) return
    await this.#commits.write(() => this.#store.queues.record(name, now))
  }

  fault(): string | null {
    return this.#commits.fault()
  }

  close(): Promise<void> {
    if (this.#isOpen) {
      this.#isOpen = false
      this.#commits.close()
      this.#db.close()
    }
    return Promise.resolve()
  }

  #isConfirming({ outbox }: JobRow): boolean {
    return outbox !== null && this.#confirming.has(outbox)
  }

  #read<T>(read: () => T): T {
    if (!this.#isOpen) throw unavailable('The ledger is closed.', 'ledger')
    try {
      return read()
    } catch (error) {
      if (error instanceof OjsError) throw error
      throw unavailable('The ledger cannot be read.', 'ledger', error)
    }
  }
}
