/** The ledger in one SQLite file: forwards each method of the contract to its write. */
import type { Cause } from '../../job/history/changes.ts'
import type { JobRow, NewJob } from '../../job/job.ts'
import type { ReportedEvent } from '../../job/native/report.ts'
import { retryQueueKey } from '../../job/retry/backoff.ts'
import type { Stale } from '../../job/stale.ts'
import type { Logger } from '../../logger.ts'
import type { CronLedger } from '../cron.ts'
import type { Cancelled, CompletedJob, Expired } from '../ended.ts'
import type { EnqueueTerms, Inserted, InsertedAll } from '../enqueued.ts'
import type { HistoryLedger } from '../history.ts'
import type { IdempotencyMemory } from '../idempotency.ts'
import type { Known, RetryQueue } from '../known.ts'
import type {
  Beat,
  BeatFate,
  ClaimedMessage,
  ClaimResult,
  ClaimTerms,
  Completion,
  EndedLease,
  LeaseFence,
  ReleaseFence,
  SettleFence,
} from '../leases.ts'
import type {
  DueTerms,
  Ledger,
  LedgerEpochs,
  PruneCutoffs,
  Purged,
  PurgeTerms,
  WithdrawFence,
} from '../ledger.ts'
import type {
  BeatResult,
  DeadMessage,
  DeadOutcome,
  NativeBeat,
  ReportResult,
  ReportTerms,
} from '../native.ts'
import type {
  IdleQueues,
  LostMessages,
  LostQueues,
  QueuePauses,
  UnwrittenQueues,
} from '../queues.ts'
import type { Reads } from '../reads.ts'
import type { SchemaLedger } from '../schemas.ts'
import type { WorkflowLedger } from '../workflows.ts'
import { SqliteBulk } from './bulk/bulk.ts'
import { prioritizeJob } from './bulk/priority.ts'
import { Access } from './commit/access.ts'
import type { FileWatch } from './file-watch.ts'
import { SqliteConcurrency } from './keyed/concurrency.ts'
import { claimNative } from './keyed/native-claims.ts'
import { SqliteSearch } from './search/search.ts'
import type { Database } from './sql/driver.ts'
import { prepareSchemas } from './sql/schemas.ts'
import { prepareStatements } from './sql/statements.ts'
import { prepareWorkflows } from './sql/workflow.ts'
import { SqliteAudit } from './state/audit.ts'
import { SqliteEpochs } from './state/epochs.ts'
import { SqliteHistory } from './state/history.ts'
import { SqliteLostQueues } from './state/lost-queues.ts'
import { SqliteMaintenance } from './state/maintenance.ts'
import { SqliteCheckpoints, SqliteProgress } from './state/progress.ts'
import { SqliteQueueSettings } from './state/queue-settings.ts'
import { SchemaRegistrations } from './state/schemas.ts'
import type { Recount } from './state/state-counter.ts'
import { openStore, type Store } from './state/store.ts'
import { SqliteUnwrittenQueues } from './state/unwritten-queues.ts'
import { WorkflowCounts } from './state/workflow-counts.ts'
import { knownOf, type Parts, readsOf } from './views.ts'
import { cancelAny, cancelJob, purgeJobs } from './writes/cancel.ts'
import { claimedMessage } from './writes/claim.ts'
import { Confirms } from './writes/confirms.ts'
import { SqliteCron } from './writes/cron.ts'
import { discardDead } from './writes/dead-letters.ts'
import { endOverdue, expireDue, promoteDue, sendAhead } from './writes/due.ts'
import { SqliteIdempotency } from './writes/idempotency.ts'
import { activate, enqueueNative, withdraw, withdrawAll } from './writes/insert.ts'
import {
  beatLeases,
  boundWaits,
  completeLease,
  failLease,
  handBackLeases,
  handOverLeases,
  releaseLease,
} from './writes/leases.ts'
import { beatJob } from './writes/native-heartbeats.ts'
import { applyReports } from './writes/native-reports.ts'
import { insertMany, insertOne } from './writes/push.ts'
import { SqliteIdleQueues, SqlitePauses } from './writes/queues.ts'
import { rearmQueue, rearmRetryQueue, SqliteLostMessages } from './writes/republish.ts'
import { boundEnds, pruneBatch, pruneDeadLetters, pruneResults } from './writes/retention.ts'
import { SqliteSchemas } from './writes/schemas.ts'
import { endStep } from './writes/workflow-run.ts'
import { SqliteWorkflows } from './writes/workflows.ts'

/** The ledger in one SQLite file that this process alone has open. See `openSqliteLedger`. */
export class SqliteLedger implements Ledger {
  readonly known: Known
  readonly read: Reads
  readonly #parts: Parts
  readonly #db: Database
  readonly #store: Store
  readonly #access: Access
  readonly #watch: FileWatch | undefined
  #later: NodeJS.Timeout | undefined

  /** `jobsPerMove`: see `RecentUniqueKeys`. */
  constructor(
    db: Database,
    logger: Logger,
    wall = Date.now,
    watch?: FileWatch,
    jobsPerMove?: number,
  ) {
    const statements = prepareStatements(db)
    this.#db = db
    const workflows = new WorkflowCounts(prepareWorkflows(db), endStep)
    const { store, committedStates } = openStore(
      statements,
      workflows,
      wall,
      (delayMs) => this.#writeLater(delayMs),
      jobsPerMove,
    )
    this.#store = store
    const registrations = new SchemaRegistrations(prepareSchemas(db))
    this.#access = new Access({
      db,
      committedStates: [...committedStates, registrations],
      probe: () => void statements.probe.run(),
      logger,
    })
    const access = this.#access
    const lost = new SqliteLostQueues(statements, access)
    const parts: Parts = {
      schemas: new SqliteSchemas(access, statements, registrations),
      cron: new SqliteCron(store, access),
      pauses: new SqlitePauses(store, access),
      maintenance: new SqliteMaintenance(statements, store.maintenance, access),
      queueSettings: new SqliteQueueSettings(store, access),
      lost,
      unwritten: new SqliteUnwrittenQueues(statements, access),
      idle: new SqliteIdleQueues(store, access, lost),
      lostMessages: new SqliteLostMessages(store, access),
      history: new SqliteHistory(store, access),
      epochs: new SqliteEpochs(access, statements),
      workflows: new SqliteWorkflows(store, access),
      idempotency: new SqliteIdempotency(access, statements),
      progress: new SqliteProgress(store, access),
      checkpoints: new SqliteCheckpoints(store, access),
      search: new SqliteSearch(store, access),
      bulk: new SqliteBulk(store, access),
      concurrency: new SqliteConcurrency(store, access),
      audit: new SqliteAudit(statements, access),
      confirms: new Confirms(store, access),
    }
    this.#parts = parts
    this.known = knownOf(parts, store, access, () => watch?.warnings() ?? [])
    this.read = readsOf(parts, store, access)
    this.#watch = watch
    watch?.start((fault) => this.#access.obstruct(fault))
  }

  get schemas(): SchemaLedger {
    return this.#parts.schemas
  }

  get cron(): CronLedger {
    return this.#parts.cron
  }

  get pauses(): QueuePauses {
    return this.#parts.pauses
  }

  get lost(): LostQueues {
    return this.#parts.lost
  }

  get unwritten(): UnwrittenQueues {
    return this.#parts.unwritten
  }

  get idle(): IdleQueues {
    return this.#parts.idle
  }

  get lostMessages(): LostMessages {
    return this.#parts.lostMessages
  }

  get progress(): Ledger['progress'] {
    return this.#parts.progress
  }

  get checkpoints(): Ledger['checkpoints'] {
    return this.#parts.checkpoints
  }

  get bulk(): Ledger['bulk'] {
    return this.#parts.bulk
  }

  get concurrency(): Ledger['concurrency'] {
    return this.#parts.concurrency
  }

  get audit(): Ledger['audit'] {
    return this.#parts.audit
  }

  get maintenance(): Ledger['maintenance'] {
    return this.#parts.maintenance
  }

  get queueSettings(): Ledger['queueSettings'] {
    return this.#parts.queueSettings
  }

  get history(): HistoryLedger {
    return this.#parts.history
  }

  get epochs(): LedgerEpochs {
    return this.#parts.epochs
  }

  get workflows(): WorkflowLedger {
    return this.#parts.workflows
  }

  get idempotency(): IdempotencyMemory {
    return this.#parts.idempotency
  }

  insert(job: NewJob, now: number, terms: EnqueueTerms = {}): Promise<Inserted> {
    return insertOne(this.#access, this.#store, job, now, terms)
  }

  insertAll(jobs: readonly NewJob[], now: number, terms: EnqueueTerms = {}): Promise<InsertedAll> {
    return insertMany(this.#access, this.#store, jobs, now, terms)
  }

  confirmed(outbox: number): void {
    this.#parts.confirms.add(outbox)
  }

  copyConfirmed(id: string, outbox: number): void {
    this.#parts.confirms.addCopy(id, outbox)
  }

  adoptSchedule(job: NewJob, now: number): ReturnType<Ledger['adoptSchedule']> {
    return this.#access.writeMany(1, () => enqueueNative(this.#store, job, now))
  }

  withdraw(id: string, outbox: number, key?: string): Promise<boolean> {
    return this.#access.write((protect) => {
      if (key !== undefined || this.#store.keyed.mayExist) protect()
      return withdraw(this.#store, id, outbox, key)
    })
  }

  withdrawAll(rows: readonly WithdrawFence[], key?: string): Promise<string[]> {
    return this.#access.writeMany(rows.length, () => withdrawAll(this.#store, rows, key))
  }

  activate(id: string, now: number, wall: number, cause: Cause = {}): Promise<JobRow | Stale> {
    return this.#access.write((protect) => {
      if (this.#store.keyed.mayExist) protect()
      return activate(this.#store, id, { now, wall, cause })
    })
  }

  promote(now: number, wall: number, limit: number): Promise<JobRow[]> {
    return promoteDue(this.#access, this.#store, { now, wall, limit })
  }

  sendAhead(until: number, limit: number): Promise<number> {
    return sendAhead(this.#access, this.#store, until, limit)
  }

  claim(jobMessages: readonly ClaimedMessage[], terms: ClaimTerms): Promise<ClaimResult[]> {
    return this.#access.write((protect) => {
      if (jobMessages.length > 1) protect()
      return jobMessages.map((jobMessage) =>
        claimedMessage(this.#store, jobMessage, terms, protect),
      )
    }, jobMessages.length)
  }

  release(id: string, fence: ReleaseFence): Promise<EndedLease | Stale> {
    return this.#access.write((protect) => {
      if (this.#store.keyed.mayExist) protect()
      return releaseLease(this.#store, id, fence)
    })
  }

  complete(id: string, fence: SettleFence, change: Completion): Promise<CompletedJob | Stale> {
    return this.#access.write((protect) => {
      if (this.#touchesOthers(id)) protect()
      return completeLease(this.#store, id, fence, change)
    })
  }

  fail(...[id, fence, decide]: Parameters<Ledger['fail']>): ReturnType<Ledger['fail']> {
    return this.#access.write((protect) => {
      if (this.#touchesOthers(id)) protect()
      return failLease(this.#store, id, fence, decide)
    })
  }

  endOverdue(
    ...[terms, decide]: Parameters<Ledger['endOverdue']>
  ): ReturnType<Ledger['endOverdue']> {
    return endOverdue(this.#access, this.#store, terms, decide)
  }

  extend(ids: readonly string[], beat: Beat): Promise<BeatFate[]> {
    return this.#access.writeMany(ids.length, () => beatLeases(this.#store, ids, beat))
  }

  expire(terms: DueTerms): Promise<Expired[]> {
    return expireDue(this.#access, this.#store, terms)
  }

  discardDead(jobMessage: DeadMessage, terms: { now: number; wall: number }): Promise<DeadOutcome> {
    return this.#access.writeMany(1, () => discardDead(this.#store, jobMessage, terms))
  }

  async pruneResults(now: number, limit: number): Promise<number> {
    // Look first: this runs every few seconds, and mostly there are none.
    if (this.#access.read(() => this.#store.statements.resultsEnding.all(now, 1)).length === 0)
      return 0
    return await this.#access.writeMany(limit, () => pruneResults(this.#store, now, limit))
  }

  prioritize(...[id, priority, terms]: Parameters<Ledger['prioritize']>) {
    return this.#access.writeMany(1, () => prioritizeJob(this.#store, id, priority, terms))
  }

  purge(ids: readonly string[], terms: PurgeTerms): Promise<Purged[]> {
    return this.#access.writeMany(2 * ids.length, () => purgeJobs(this.#store, ids, terms))
  }

  prune(cutoffs: PruneCutoffs, now: number, limit: number): Promise<number> {
    return this.#access.writeMany(limit, () => pruneBatch(this.#store, cutoffs, now, limit))
  }

  pruneDeadLetters(queue: string, max: number, now: number, limit: number): Promise<number> {
    return this.#access.writeMany(limit, () =>
      pruneDeadLetters(this.#store, { queue, max }, now, limit),
    )
  }

  boundEnds(now: number, limit: number): Promise<number> {
    return this.#access.writeMany(limit, () => boundEnds(this.#store, now, limit))
  }

  swept(queue: string, mark: number): Promise<void> {
    return this.#access.write(() => this.#store.stale.clear(queue, mark))
  }

  async recordRetryQueue(retryQueue: RetryQueue): Promise<void> {
    if (this.#store.retryQueues.has(retryQueueKey(retryQueue.queue, retryQueue.delayMs))) return
    await this.#access.write(() => this.#store.retryQueues.record(retryQueue))
  }

  rearmRetryQueue(retryQueue: RetryQueue, now: number): Promise<number> {
    return rearmRetryQueue(this.#access, this.#store, retryQueue, now)
  }

  cancel(id: string, now: number, cause?: Cause): Promise<Cancelled | Stale> {
    return this.#access.write((protect) => {
      if (this.#touchesOthers(id)) protect()
      return cancelJob(this.#store, id, now, cause)
    })
  }

  handOver(leases: readonly LeaseFence[]): Promise<number> {
    return this.#access.writeMany(leases.length, () => handOverLeases(this.#store, leases))
  }

  handBack(leases: readonly LeaseFence[]): Promise<number> {
    return this.#access.writeMany(leases.length, () => handBackLeases(this.#store, leases))
  }

  applyReports(events: readonly ReportedEvent[], terms: ReportTerms): Promise<ReportResult[]> {
    return this.#access.writeMany(events.length, () => applyReports(this.#store, events, terms))
  }

  beatNative(ids: readonly string[], beat: NativeBeat): Promise<BeatResult[]> {
    return this.#access.writeMany(ids.length, () => ids.map((id) => beatJob(this.#store, id, beat)))
  }

  claimNative(...[question, terms]: Parameters<Ledger['claimNative']>) {
    return this.#access.writeMany(1, () => claimNative(this.#store, question, terms))
  }

  cancelAny(...[id, queue, now, isScoped = false, cause]: Parameters<Ledger['cancelAny']>) {
    return this.#access.writeMany(1, () => cancelAny(this.#store, id, queue, now, isScoped, cause))
  }

  async rearm(queue: string, now: number): Promise<number> {
    const rearmed = await rearmQueue(this.#access, this.#store, queue, now)
    this.#parts.lost.forget(queue)
    return rearmed
  }

  messageReturned(id: string, generation: number, attempt: number | null = null): void {
    const { messageReturned } = this.#store.statements
    this.#access.writeLazily(() => messageReturned.run(id, generation, attempt))
  }

  extendLeases(now: number): Promise<number> {
    return this.#access.write(() => this.#store.statements.extendLeases.run(now).changes)
  }

  boundWaits(now: number): Promise<number> {
    return this.#access.writeMany(1, () => boundWaits(this.#store, now))
  }

  /** Counts every row; the kept counts must say the same. For tests and repairs only. */
  recount(): Recount {
    return this.#access.read(() => this.#store.counter.recount())
  }

  async recordQueue(name: string, now: number): Promise<void> {
    if (this.#store.queues.has(name)) return
    await this.#access.write(() => this.#store.queues.record({ name, createdAt: now }))
  }

  async recordIdentity(name: string, identity: string): Promise<void> {
    await this.#access.write(() => this.#store.statements.recordIdentity.run(name, identity))
  }

  written(): Promise<void> {
    return this.#access.written()
  }

  close(): Promise<void> {
    this.#watch?.stop()
    // Closing deletes the -wal at our path. Where that is another file by now, process exit closes ours.
    const isFirst = this.#access.close()
    if (isFirst) this.#storeTraffic()
    if (isFirst && this.#watch?.mayDeleteLog !== false) this.#db.close()
    return Promise.resolve()
  }

  /** May the end of this job change other rows? */
  #touchesOthers(id: string): boolean {
    const { keyed, workflows } = this.#store
    return keyed.mayExist || workflows.owns(id)
  }

  /** Asks for a group in which traffic is written, if none comes by itself. */
  #writeLater(delayMs: number): void {
    this.#later ??= setTimeout(() => {
      this.#later = undefined
      this.#access.writeLazily(() => {})
    }, delayMs).unref()
  }

  /** What was committed last. It is only statistics: a disk that is full takes it along. */
  #storeTraffic(): void {
    clearTimeout(this.#later)
    try {
      this.#db.exec('BEGIN IMMEDIATE')
      this.#store.traffic.storeAll()
      this.#db.exec('COMMIT')
    } catch {
      if (this.#db.isTransaction() !== false) this.#db.exec('ROLLBACK')
    }
  }
}
