/** The ledger in one SQLite file: forwards each method of the contract to its write. */
import type { Cause } from '../../job/history.ts'
import type { JobRow, JobStanding, NewJob, OwedMessage } from '../../job/job.ts'
import type { ReportedEvent } from '../../job/native/report.ts'
import { retryQueueKey } from '../../job/retry/backoff.ts'
import type { Logger } from '../../logger.ts'
import type { DeadLetterQuery, Revived } from '../dead-letters.ts'
import type { EnqueueTerms, Inserted, InsertedAll } from '../enqueued.ts'
import type {
  Beat,
  Cancelled,
  ClaimedMessage,
  ClaimResult,
  ClaimTerms,
  Completion,
  Expired,
  ExtendedLease,
  FailFence,
  FailureChange,
  LeaseFence,
  ReleaseFence,
  SettleFence,
} from '../leases.ts'
import type {
  ExpireTerms,
  Ledger,
  LedgerWarning,
  PruneCutoffs,
  QueueRecord,
  RetryQueue,
  StateCounts,
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
import { Access } from './commit/access.ts'
import type { FileWatch } from './file-watch.ts'
import { SqliteSearch } from './search/search.ts'
import { type Database, onlyRow } from './sql/driver.ts'
import { toJobRow, toStanding } from './sql/rows.ts'
import { prepareStatements } from './sql/statements.ts'
import { prepareWorkflows } from './sql/workflow.ts'
import { SqliteEpochs } from './state/epochs.ts'
import { SqliteLostQueues } from './state/lost-queues.ts'
import { SqliteMaintenance } from './state/maintenance.ts'
import { SqliteCheckpoints, SqliteProgress } from './state/progress.ts'
import type { TrafficMinutes } from './state/queue-traffic.ts'
import type { Recount } from './state/state-counter.ts'
import { openStore, type Store } from './state/store.ts'
import { SqliteUnwrittenQueues } from './state/unwritten-queues.ts'
import { WorkflowCounts } from './state/workflow-counts.ts'
import { cancelAny, cancelJob } from './writes/cancel.ts'
import { claimedMessage } from './writes/claim.ts'
import { Confirms } from './writes/confirms.ts'
import { SqliteCron } from './writes/cron.ts'
import { deadLetters, deleteDeadLetter, discardDead, revive } from './writes/dead-letters.ts'
import { expireDue, nextDue, promoteDue, sendAhead } from './writes/due.ts'
import { SqliteHistory } from './writes/history.ts'
import { SqliteIdempotency } from './writes/idempotency.ts'
import { activate, enqueueNative, withdraw, withdrawAll } from './writes/insert.ts'
import {
  activeByWorker,
  beatLeases,
  boundWaits,
  completeLease,
  failLease,
  handBackLeases,
  handOverLeases,
  leasedTo,
  overdue,
  releaseLease,
} from './writes/leases.ts'
import { beatJob } from './writes/native-heartbeats.ts'
import { applyReports } from './writes/native-reports.ts'
import { insertMany, insertOne } from './writes/push.ts'
import { SqliteIdleQueues, SqlitePauses } from './writes/queues.ts'
import { rearmQueue, rearmRetryQueue, SqliteLostMessages } from './writes/republish.ts'
import { boundEnds, pruneBatch } from './writes/retention.ts'
import { SqliteSchemas } from './writes/schemas.ts'
import { cancelledMessages } from './writes/tombstones.ts'
import { endStep } from './writes/workflow-run.ts'
import { SqliteWorkflows } from './writes/workflows.ts'

/** The ledger in one SQLite file that this process alone has open. See `openSqliteLedger`. */
export class SqliteLedger implements Ledger {
  readonly schemas: SqliteSchemas
  readonly cron: SqliteCron
  readonly pauses: SqlitePauses
  readonly maintenance: SqliteMaintenance
  readonly lost: SqliteLostQueues
  readonly unwritten: SqliteUnwrittenQueues
  readonly idle: SqliteIdleQueues
  readonly lostMessages: SqliteLostMessages
  readonly epochs: SqliteEpochs
  readonly warnings: () => LedgerWarning[]
  readonly traffic: TrafficMinutes
  readonly workflows: SqliteWorkflows
  readonly idempotency: SqliteIdempotency
  readonly history: SqliteHistory
  readonly progress: SqliteProgress
  readonly checkpoints: SqliteCheckpoints
  readonly search: SqliteSearch
  readonly #db: Database
  readonly #store: Store
  readonly #access: Access
  readonly #confirms: Confirms
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
    this.#access = new Access({
      db,
      committedStates,
      probe: () => void statements.probe.run(),
      logger,
    })
    this.#confirms = new Confirms(store, this.#access)
    this.schemas = new SqliteSchemas(this.#access, db, statements)
    this.cron = new SqliteCron(this.#store, this.#access)
    this.pauses = new SqlitePauses(this.#store, this.#access)
    this.maintenance = new SqliteMaintenance(statements, store.maintenance, this.#access)
    this.lost = new SqliteLostQueues(statements, this.#access)
    this.unwritten = new SqliteUnwrittenQueues(statements, this.#access)
    this.idle = new SqliteIdleQueues(store, this.#access, this.lost)
    this.lostMessages = new SqliteLostMessages(store, this.#access)
    this.epochs = new SqliteEpochs(this.#access, statements)
    this.traffic = store.traffic
    this.workflows = new SqliteWorkflows(store, this.#access)
    this.idempotency = new SqliteIdempotency(this.#access, statements)
    this.history = new SqliteHistory(store, this.#access)
    this.progress = new SqliteProgress(store, this.#access)
    this.checkpoints = new SqliteCheckpoints(store, this.#access)
    this.search = new SqliteSearch(store, this.#access)
    this.#watch = watch
    this.warnings = () => watch?.warnings() ?? []
    watch?.start((fault) => this.#access.obstruct(fault))
  }

  insert(job: NewJob, now: number, terms: EnqueueTerms = {}): Promise<Inserted> {
    return insertOne(this.#access, this.#store, job, now, terms)
  }

  insertAll(jobs: readonly NewJob[], now: number, terms: EnqueueTerms = {}): Promise<InsertedAll> {
    return insertMany(this.#access, this.#store, jobs, now, terms)
  }

  confirmed(outbox: number): void {
    this.#confirms.add(outbox)
  }

  copyConfirmed(id: string, outbox: number): void {
    this.#confirms.addCopy(id, outbox)
  }

  adoptSchedule(job: NewJob, now: number): ReturnType<Ledger['adoptSchedule']> {
    return this.#access.writeMany(1, () => enqueueNative(this.#store, job, now))
  }

  withdraw(id: string, outbox: number, key?: string): Promise<boolean> {
    return this.#access.write((protect) => {
      if (key !== undefined) protect()
      return withdraw(this.#store, id, outbox, key)
    })
  }

  withdrawAll(rows: readonly WithdrawFence[], key?: string): Promise<string[]> {
    return this.#access.writeMany(rows.length, () => withdrawAll(this.#store, rows, key))
  }

  activate(id: string, now: number, wall: number, cause: Cause = {}): Promise<JobRow | 'stale'> {
    return this.#access.write(() => activate(this.#store, id, { now, wall, cause }))
  }

  promote(now: number, wall: number, limit: number): Promise<JobRow[]> {
    return this.#access.writeMany(limit, () => promoteDue(this.#store, now, wall, limit))
  }

  sendAhead(until: number, limit: number): Promise<number> {
    return sendAhead(this.#access, this.#store, until, limit)
  }

  nextDue(): { retryable: number | null; scheduled: number | null } {
    return this.#access.read(() => nextDue(this.#store))
  }

  claim(jobMessages: readonly ClaimedMessage[], terms: ClaimTerms): Promise<ClaimResult[]> {
    return this.#access.write((protect) => {
      if (jobMessages.length > 1) protect()
      return jobMessages.map((jobMessage) =>
        claimedMessage(this.#store, jobMessage, terms, protect),
      )
    }, jobMessages.length)
  }

  release(id: string, fence: ReleaseFence): Promise<JobRow | 'stale'> {
    return this.#access.write(() => releaseLease(this.#store, id, fence))
  }

  complete(id: string, fence: SettleFence, change: Completion): Promise<JobRow | 'stale'> {
    return this.#access.write((protect) => {
      if (this.#store.workflows.owns(id)) protect()
      return completeLease(this.#store, id, fence, change)
    })
  }

  fail(id: string, fence: FailFence, change: FailureChange): Promise<JobRow | 'stale'> {
    return this.#access.write((protect) => {
      if (change.to === 'discarded' && this.#store.workflows.owns(id)) protect()
      return failLease(this.#store, id, fence, change)
    })
  }

  extend(ids: readonly string[], beat: Beat): Promise<ExtendedLease[]> {
    return this.#access.writeMany(ids.length, () => beatLeases(this.#store, ids, beat))
  }

  activeByWorker(limit: number): ReadonlyMap<string, number> {
    return this.#access.read(() => activeByWorker(this.#store, limit))
  }

  async leasedTo(...of: Parameters<Ledger['leasedTo']>): ReturnType<Ledger['leasedTo']> {
    return this.#access.read(() => leasedTo(this.#store, ...of))
  }

  overdue(now: number, limit: number, which: 'all' | 'not native' = 'all'): JobRow[] {
    return this.#access.read(() => overdue(this.#store, now, limit, which))
  }

  expire(terms: ExpireTerms): Promise<Expired[]> {
    return expireDue(this.#access, this.#store, terms)
  }

  discardDead(jobMessage: DeadMessage, terms: { now: number; wall: number }): Promise<DeadOutcome> {
    return this.#access.writeMany(1, () => discardDead(this.#store, jobMessage, terms))
  }

  deadLetters(query: DeadLetterQuery): { jobs: JobRow[]; total: number } {
    return this.#access.read(() => deadLetters(this.#store, query))
  }

  revive(id: string, generation: number, now: number, cause?: Cause): Promise<Revived> {
    return this.#access.write(() => revive(this.#store, id, generation, now, cause))
  }

  deleteDeadLetter(id: string, now: number): Promise<boolean> {
    return this.#access.write(() => deleteDeadLetter(this.#store, id, now))
  }

  prune(cutoffs: PruneCutoffs, now: number, limit: number): Promise<number> {
    return this.#access.writeMany(limit, () => pruneBatch(this.#store, cutoffs, now, limit))
  }

  boundEnds(now: number, limit: number): Promise<number> {
    return this.#access.writeMany(limit, () => boundEnds(this.#store, now, limit))
  }

  staleCopies(): ReadonlyMap<string, number> {
    return this.#store.stale.all()
  }

  swept(queue: string, mark: number): Promise<void> {
    return this.#access.write(() => this.#store.stale.clear(queue, mark))
  }

  retryQueues(): readonly RetryQueue[] {
    return this.#store.retryQueues.all()
  }

  async recordRetryQueue(retryQueue: RetryQueue): Promise<void> {
    if (this.#store.retryQueues.has(retryQueueKey(retryQueue.queue, retryQueue.delayMs))) return
    await this.#access.write(() => this.#store.retryQueues.record(retryQueue))
  }

  rearmRetryQueue(retryQueue: RetryQueue, now: number): Promise<number> {
    return rearmRetryQueue(this.#access, this.#store, retryQueue, now)
  }

  cancel(id: string, now: number, cause?: Cause): Promise<Cancelled | 'stale'> {
    return this.#access.write((protect) => {
      if (this.#store.workflows.owns(id)) protect()
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

  handOverAny({ id, generation, attempt }: LeaseFence): Promise<boolean> {
    const { handOverAny } = this.#store.statements
    return this.#access.write(() => handOverAny.run(id, generation, attempt).changes === 1)
  }

  cancelAny(...[id, queue, now, isScoped = false, cause]: Parameters<Ledger['cancelAny']>) {
    return this.#access.writeMany(1, () => cancelAny(this.#store, id, queue, now, isScoped, cause))
  }

  isTombstoned(id: string, queue: string | null = null): boolean {
    return this.#access.read(() => this.#store.tombstones.has(id, queue))
  }

  tombstones(queues: readonly string[], limit: number): ReturnType<Ledger['tombstones']> {
    return this.#access.read(() => cancelledMessages(this.#store, queues, limit))
  }

  async rearm(queue: string, now: number): Promise<number> {
    const rearmed = await rearmQueue(this.#access, this.#store, queue, now)
    this.lost.forget(queue)
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

  outboxPage(after: number, limit: number): OwedMessage[] {
    return this.#confirms.owedPage(after, limit)
  }

  isConfirming(outbox: number): boolean {
    return this.#confirms.has(outbox)
  }

  owedMessages(atMost: number): number {
    return this.#access.read(() => onlyRow(this.#store.statements.owedMessages.get(atMost)).count)
  }

  find(id: string): JobRow | null {
    return this.#access.read(() => toJobRow(this.#store.statements.find.get(id)))
  }

  standing(id: string): JobStanding | null {
    return this.#access.read(() => toStanding(this.#store.statements.standing.get(id)))
  }

  counts(queue: string): StateCounts {
    return this.#store.counter.of(queue)
  }

  claimable(queue: string): number {
    return this.#store.counter.claimable(queue)
  }

  deadLetterCount(queue?: string): number {
    return this.#store.counter.deadLetters(queue ?? null)
  }

  /** Counts every row; the kept counts must say the same. For tests and repairs only. */
  recount(): Recount {
    return this.#access.read(() => this.#store.counter.recount())
  }

  queues(): readonly QueueRecord[] {
    return this.#store.queues.all()
  }

  hasQueue(name: string): boolean {
    return this.#store.queues.has(name)
  }

  async recordQueue(name: string, now: number): Promise<void> {
    if (this.#store.queues.has(name)) return
    await this.#access.write(() => this.#store.queues.record({ name, createdAt: now }))
  }

  queueIdentity(name: string): string | null {
    return this.#access.read(() => this.#store.statements.identity.get(name))?.identity ?? null
  }

  async recordIdentity(name: string, identity: string): Promise<void> {
    await this.#access.write(() => this.#store.statements.recordIdentity.run(name, identity))
  }

  written(): Promise<void> {
    return this.#access.written()
  }

  fault(): string | null {
    return this.#access.fault()
  }

  close(): Promise<void> {
    this.#watch?.stop()
    // Closing deletes the -wal at our path. Where that is another file by now, process exit closes ours.
    const isFirst = this.#access.close()
    if (isFirst) this.#storeTraffic()
    if (isFirst && this.#watch?.mayDeleteLog !== false) this.#db.close()
    return Promise.resolve()
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
      this.traffic.storeAll()
      this.#db.exec('COMMIT')
    } catch {
      if (this.#db.isTransaction() !== false) this.#db.exec('ROLLBACK')
    }
  }
}
