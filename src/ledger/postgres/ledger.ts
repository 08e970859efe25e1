/** The ledger on PostgreSQL: forwards each method of the contract to its write. */
import type { Cause } from '../../job/history/changes.ts'
import type { JobRow, NewJob } from '../../job/job.ts'
import type { ReportedEvent } from '../../job/native/report.ts'
import { retryQueueKey } from '../../job/retry/backoff.ts'
import type { Stale } from '../../job/stale.ts'
import { returned } from '../../job/transitions/end.ts'
import type { Logger } from '../../logger.ts'
import type { Cancelled, CompletedJob, Expired } from '../ended.ts'
import type { EnqueueTerms, Inserted, InsertedAll } from '../enqueued.ts'
import type { Known, RetryQueue } from '../known.ts'
import type {
  Beat,
  BeatFate,
  ClaimedMessage,
  ClaimResult,
  ClaimTerms,
  Completion,
  DecideFailure,
  EndedLease,
  FailedLease,
  LeaseFence,
  OverdueTerms,
  ReleaseFence,
  SettleFence,
  Undecided,
} from '../leases.ts'
import type {
  DueTerms,
  Ledger,
  Prioritized,
  PruneCutoffs,
  Purged,
  PurgeTerms,
  WithdrawFence,
} from '../ledger.ts'
import type {
  BeatResult,
  DeadMessage,
  DeadOutcome,
  NativeAnswer,
  NativeBeat,
  ReportResult,
  ReportTerms,
} from '../native.ts'
import type { LostQueues, UnwrittenQueues } from '../queues.ts'
import type { Reads } from '../reads.ts'
import type { Statement } from './connection.ts'
import type { Draft, Wants } from './group/draft.ts'
import { Groups } from './group/groups.ts'
import type { Memory } from './group/memory.ts'
import { CHECKPOINTS, RESULT_ENDS } from './group/notes.ts'
import { type SideTable, type SideWant, wanted } from './group/side.ts'
import { lookUpActive, lookUpLines } from './keyed/lines.ts'
import { partsOf } from './parts/all.ts'
import { bulkLedger } from './parts/bulk.ts'
import { concurrencyLedger } from './parts/concurrency.ts'
import { cronLedger } from './parts/cron.ts'
import { checkpointLedger, historyLedger, progressLedger } from './parts/notes.ts'
import { endStep } from './parts/workflow-rows.ts'
import { workflowLedger } from './parts/workflows.ts'
import type { PostgresTraffic } from './queues/traffic.ts'
import type { Reader } from './reader.ts'
import type { Slot } from './slot.ts'
import { knownOf, readsOf } from './views.ts'
import { purgeOne } from './writes/act.ts'
import { claimedMessage } from './writes/claim.ts'
import { Confirms } from './writes/confirms.ts'
import {
  dueRows,
  endOverdue,
  expireDue,
  overdueRows,
  promoteDue,
  rowsAhead,
  sendAhead,
} from './writes/due.ts'
import { cancelAny, cancelJob, discardDead } from './writes/end.ts'
import { activate, enqueueNative, withdraw, withdrawAll } from './writes/insert.ts'
import * as leases from './writes/leases.ts'
import { rearmQueue, rearmRetryQueue } from './writes/lost.ts'
import { claimNative } from './writes/native-claims.ts'
import { beatJob } from './writes/native-heartbeats.ts'
import { applyReports } from './writes/native-reports.ts'
import { prioritizeJob } from './writes/priority.ts'
import { recordRetryQueue } from './writes/queues.ts'
import { hasEnding, pruneResults } from './writes/results.ts'
import { pruneBatch, pruneDeadLetters } from './writes/retention.ts'
import { boundEnds, boundWaits, extendLeases } from './writes/times.ts'
import { type AdmitTerms, pushMany, pushOne, wantsOf } from './writes/unique.ts'

export interface PostgresLedgerParts {
  schema: string
  /** Taken. */
  slot: Slot
  slotId: number
  reader: Reader
  /** For searches. */
  searcher: Reader
  memory: Memory
  logger: Logger
  /** What operators are told of PostgreSQL and of the other gateways. */
  standing: Pick<Known, 'replication' | 'warnings'>
  onFenced?: (() => void) | undefined
  /** What ends with the ledger. */
  onClose?: () => void
}

/** Incomplete: what is missing throws when it is called. See `openPostgresLedger`. */
export class PostgresLedger implements Ledger {
  readonly known: Known
  readonly read: Reads
  readonly cron: Ledger['cron']
  readonly schemas: Ledger['schemas']
  readonly pauses: Ledger['pauses']
  readonly maintenance: Ledger['maintenance']
  readonly queueSettings: Ledger['queueSettings']
  readonly audit: Ledger['audit']
  readonly epochs: Ledger['epochs']
  readonly idle: Ledger['idle']
  readonly lostMessages: Ledger['lostMessages']
  readonly workflows: Ledger['workflows']
  readonly idempotency: Ledger['idempotency']
  readonly history: Ledger['history']
  readonly progress: Ledger['progress']
  readonly checkpoints: Ledger['checkpoints']
  readonly bulk: Ledger['bulk']
  readonly concurrency: Ledger['concurrency']
  readonly lost: LostQueues
  readonly unwritten: UnwrittenQueues
  readonly #schema: string
  readonly #groups: Groups
  readonly #reader: Reader
  readonly #readers: readonly Reader[]
  readonly #memory: Memory
  readonly #confirms: Confirms
  readonly #traffic: PostgresTraffic
  readonly #onClose: () => void

  constructor(deps: PostgresLedgerParts) {
    const { schema, reader, searcher, memory, slotId, onClose = () => {} } = deps
    this.#onClose = onClose
    this.#schema = schema
    this.#reader = reader
    this.#readers = [reader, searcher]
    this.#memory = memory
    const groups = new Groups({ ...deps, endStep })
    this.#groups = groups
    this.#confirms = new Confirms(groups, memory)
    const parts = partsOf({ schema, reader, memory, groups }, slotId, () => this.known)
    this.#traffic = parts.traffic
    this.schemas = parts.schemas
    this.pauses = parts.pauses
    this.maintenance = parts.maintenance
    this.queueSettings = parts.queueSettings
    this.audit = parts.audit
    this.epochs = parts.epochs
    this.idle = parts.idle
    this.lostMessages = parts.lostMessages
    this.idempotency = parts.idempotency
    this.cron = cronLedger({ groups, schema, memory })
    this.workflows = workflowLedger(groups)
    this.concurrency = concurrencyLedger({ groups, schema, memory, reader })
    this.history = historyLedger(groups)
    this.progress = progressLedger(groups)
    this.checkpoints = checkpointLedger(groups)
    this.bulk = bulkLedger(groups, schema)
    this.known = knownOf(parts, memory, () => groups.fault(), deps.standing)
    this.read = readsOf({ schema, reader, searcher, memory }, parts)
    this.lost = { mark: (queue, now) => this.#markLost(queue, now) }
    this.unwritten = {
      mark: (queue) => this.#markUnwritten(queue, true),
      settle: (queue) => this.#markUnwritten(queue, false),
    }
  }

  async insert(job: NewJob, now: number, terms: EnqueueTerms = {}): Promise<Inserted> {
    const admit = { ...terms, now, wall: this.#memory.wall() }
    const run = (draft: Draft) => pushOne(draft, job, admit)
    return await this.#groups.write({ wants: this.#wantsOf([job], admit), run })
  }

  async insertAll(
    jobs: readonly NewJob[],
    now: number,
    terms: EnqueueTerms = {},
  ): Promise<InsertedAll> {
    const admit = { ...terms, now, wall: this.#memory.wall() }
    const run = (draft: Draft) => pushMany(draft, jobs, admit)
    const wants = this.#wantsOf(jobs, admit)
    return await this.#groups.write({ wants, run, weight: jobs.length })
  }

  confirmed(outbox: number): void {
    this.#confirms.add(outbox)
  }

  copyConfirmed(id: string, outbox: number): void {
    this.#confirms.addCopy(id, outbox)
  }

  adoptSchedule(job: NewJob, now: number): ReturnType<Ledger['adoptSchedule']> {
    return this.#of([job.id], (draft) => enqueueNative(draft, job, now))
  }

  withdraw(id: string, outbox: number, key?: string): Promise<boolean> {
    return this.#short([id], (draft) => withdraw(draft, id, outbox, key))
  }

  withdrawAll(rows: readonly WithdrawFence[], key?: string): Promise<string[]> {
    const ids = idsOf(rows)
    return this.#short(ids, (draft) => {
      lookUpLines(draft, ids)
      return withdrawAll(draft, rows, key)
    })
  }

  activate(id: string, now: number, wall: number, cause: Cause = {}): Promise<JobRow | Stale> {
    return this.#of([id], (draft) => activate(draft, id, { now, wall }, cause))
  }

  promote(now: number, wall: number, limit: number): Promise<JobRow[]> {
    const schema = this.#schema
    const run = (draft: Draft) => promoteDue(draft, schema, { now, wall }, limit)
    return this.#ifAny(dueRows(schema, { now, wall }, 1), limit, run, [])
  }

  sendAhead(until: number, limit: number): Promise<number> {
    const schema = this.#schema
    const run = (draft: Draft) => sendAhead(draft, schema, until, limit)
    return this.#ifAny(rowsAhead(schema, until, 1), limit, run, 0)
  }

  expire(terms: DueTerms): Promise<Expired[]> {
    return this.#alone(terms.limit, (draft) => expireDue(draft, this.#schema, terms))
  }

  claim(jobMessages: readonly ClaimedMessage[], terms: ClaimTerms): Promise<ClaimResult[]> {
    const ids = idsOf(jobMessages)
    return this.#groups.write({
      wants: { ids, sides: this.#sides(CHECKPOINTS, ids) },
      run: (draft) => {
        lookUpActive(draft, ids)
        return draft.each(jobMessages, (jobMessage) => claimedMessage(draft, jobMessage, terms))
      },
      weight: ids.length,
    })
  }

  release(id: string, fence: ReleaseFence): Promise<EndedLease | Stale> {
    return this.#of([id], (draft) => leases.release(draft, id, fence))
  }

  complete(id: string, fence: SettleFence, change: Completion): Promise<CompletedJob | Stale> {
    return this.#of([id], (draft) => leases.complete(draft, id, fence, change))
  }

  fail(
    id: string,
    fence: SettleFence,
    decide: DecideFailure,
  ): Promise<FailedLease | Stale | Undecided> {
    return this.#of([id], (draft) => leases.fail(draft, id, fence, decide))
  }

  endOverdue(terms: OverdueTerms, decide: DecideFailure): Promise<(FailedLease | Undecided)[]> {
    const schema = this.#schema
    const run = (draft: Draft) => endOverdue(draft, schema, terms, decide)
    return this.#ifAny(overdueRows(schema, { ...terms, limit: 1 }), terms.limit, run, [])
  }

  extend(ids: readonly string[], beat: Beat): Promise<BeatFate[]> {
    return this.#short(ids, (draft) => draft.each(ids, (id) => leases.beat(draft, id, beat)))
  }

  handOver(fences: readonly LeaseFence[]): Promise<number> {
    return this.#short(idsOf(fences), (draft) => leases.handOver(draft, fences))
  }

  handBack(fences: readonly LeaseFence[]): Promise<number> {
    return this.#short(idsOf(fences), (draft) => leases.handBack(draft, fences))
  }

  extendLeases(now: number): Promise<number> {
    return this.#alone(1, (draft) => extendLeases(draft, this.#schema, now))
  }

  boundWaits(now: number): Promise<number> {
    return this.#alone(1, (draft) => boundWaits(draft, this.#schema, now))
  }

  boundEnds(now: number, limit: number): Promise<number> {
    return this.#alone(limit, (draft) => boundEnds(draft, this.#schema, now, limit))
  }

  discardDead(jobMessage: DeadMessage, times: { now: number; wall: number }): Promise<DeadOutcome> {
    return this.#of([jobMessage.id], (draft) => discardDead(draft, jobMessage, times))
  }

  cancel(id: string, now: number, cause?: Cause): Promise<Cancelled | Stale> {
    return this.#of([id], (draft) => cancelJob(draft, id, now, cause))
  }

  prune(cutoffs: PruneCutoffs, now: number, limit: number): Promise<number> {
    return this.#alone(limit, (draft) => pruneBatch(draft, this.#schema, cutoffs, { now, limit }))
  }

  pruneDeadLetters(queue: string, max: number, now: number, limit: number): Promise<number> {
    return this.#alone(limit, (draft) =>
      pruneDeadLetters(draft, this.#schema, { queue, max }, { now, limit }),
    )
  }

  swept(queue: string, mark: number): Promise<void> {
    return this.#groups.write({ wants: {}, run: (draft) => draft.swept(queue, mark) })
  }

  messageReturned(id: string, generation: number, attempt: number | null = null): void {
    const run = (draft: Draft) => {
      const row = draft.row(id)
      const change = row && returned(row, generation, attempt)
      if (row && change) draft.change(row, change)
    }
    this.#groups.lazily({ wants: { short: [id] }, run })
  }

  async recordQueue(name: string, now: number): Promise<void> {
    if (this.#memory.queues.has(name)) return
    await this.#groups.write({ wants: {}, run: (draft) => draft.recordQueue(name, now) })
  }

  recordIdentity(name: string, identity: string): Promise<void> {
    const text = `UPDATE ${this.#schema}.queues SET identity = $2 WHERE name = $1`
    return this.#store(text, [name, identity])
  }

  async recordRetryQueue(retryQueue: RetryQueue): Promise<void> {
    const key = retryQueueKey(retryQueue.queue, retryQueue.delayMs)
    if (this.#memory.retryQueues.has(key)) return
    const run = (draft: Draft) => recordRetryQueue(draft, retryQueue)
    await this.#groups.write({ wants: {}, run })
  }

  async rearm(queue: string, now: number): Promise<number> {
    const rearmed = await rearmQueue(this.#groups, this.#schema, queue, now)
    this.#memory.lost.delete(queue)
    return rearmed
  }

  rearmRetryQueue(retryQueue: RetryQueue, now: number): Promise<number> {
    return rearmRetryQueue(this.#groups, this.#schema, retryQueue, now)
  }

  written(): Promise<void> {
    return this.#groups.written()
  }

  async close(): Promise<void> {
    this.#onClose()
    if (!(await this.#groups.close(() => this.#traffic.last()))) return
    await Promise.all(this.#readers.map((reader) => reader.close()))
  }

  applyReports(events: readonly ReportedEvent[], terms: ReportTerms): Promise<ReportResult[]> {
    const ids = idsOf(events)
    return this.#of(ids, (draft) => {
      lookUpLines(draft, ids)
      return applyReports(draft, events, terms)
    })
  }

  beatNative(ids: readonly string[], beat: NativeBeat): Promise<BeatResult[]> {
    return this.#short(ids, (draft) => draft.each(ids, (id) => beatJob(draft, id, beat)))
  }

  cancelAny(...[id, queue, now, isScoped = false, cause]: Parameters<Ledger['cancelAny']>) {
    return this.#of([id], (draft) => cancelAny(draft, id, { queue, isScoped, now }, cause))
  }

  purge(ids: readonly string[], terms: PurgeTerms): Promise<Purged[]> {
    return this.#of(ids, (draft) => {
      lookUpLines(draft, ids)
      return draft.each(ids, (id) => purgeOne(draft, id, terms) ?? []).flat()
    })
  }

  claimNative(...[question, terms]: Parameters<Ledger['claimNative']>): Promise<NativeAnswer> {
    const ids = [question.id]
    return this.#groups.write({
      wants: { ids, sides: this.#sides(CHECKPOINTS, ids) },
      run: (draft) => claimNative(draft, question, terms),
    })
  }

  prioritize(...[id, priority, terms]: Parameters<Ledger['prioritize']>): Promise<Prioritized> {
    return this.#of([id], (draft) => prioritizeJob(draft, id, priority, terms))
  }

  async pruneResults(now: number, limit: number): Promise<number> {
    if (!this.#memory.usedSides.has(RESULT_ENDS.name)) return 0
    const ending = { text: hasEnding(this.#schema), values: [now] }
    const run = (draft: Draft) => pruneResults(draft, this.#schema, now, limit)
    return await this.#ifAny(ending, limit, run, 0)
  }

  #wantsOf(jobs: readonly NewJob[], terms: AdmitTerms): Wants {
    return wantsOf(jobs, terms, { schema: this.#schema, memory: this.#memory })
  }

  /** A write of these rows, which sees their texts. */
  #of<T>(ids: readonly string[], run: (draft: Draft) => T): Promise<T> {
    return this.#groups.write({ wants: { ids }, run, weight: ids.length })
  }

  /** None of a table that has no rows: nobody looks for one. */
  #sides<T extends object>(table: SideTable<T>, keys: readonly string[]): SideWant[] {
    return this.#memory.usedSides.has(table.name) ? [wanted(table, keys)] : []
  }

  /** A write of these rows, which does not. */
  #short<T>(ids: readonly string[], run: (draft: Draft) => T): Promise<T> {
    return this.#groups.write({ wants: { short: ids }, run, weight: ids.length })
  }

  #alone<T>(weight: number, run: (draft: Draft) => T): Promise<T> {
    return this.#groups.write({ wants: {}, run, weight, isAlone: true })
  }

  /** Looks first: this runs all the time, and a group that changes nothing costs a commit all the same. */
  async #ifAny<T>(
    { text, values }: Statement,
    weight: number,
    run: (draft: Draft) => T,
    none: T,
  ): Promise<T> {
    const found = await this.#reader.rows(text, values)
    return found.length === 0 ? none : await this.#alone(weight, run)
  }

  #store(text: string, values: readonly unknown[], effect?: () => void): Promise<void> {
    const run = (draft: Draft) => draft.changes.store({ text, values }, effect)
    return this.#groups.write({ wants: {}, run })
  }

  #markLost(queue: string, now: number): Promise<void> {
    this.#memory.lost.add(queue)
    return this.#store(`UPDATE ${this.#schema}.queues SET lost_at = $2 WHERE name = $1`, [
      queue,
      now,
    ])
  }

  #markUnwritten(queue: string, isUnwritten: boolean): Promise<void> {
    const table = `${this.#schema}.unwritten_queues`
    const { unwritten } = this.#memory
    if (!isUnwritten)
      return this.#store(`DELETE FROM ${table} WHERE name = $1`, [queue], () =>
        unwritten.delete(queue),
      )
    const text = `INSERT INTO ${table} VALUES ($1) ON CONFLICT DO NOTHING`
    return this.#store(text, [queue], () => unwritten.add(queue))
  }
}

function idsOf(rows: readonly { id: string }[]): string[] {
  return rows.map(({ id }) => id)
}
