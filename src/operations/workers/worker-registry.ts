/** The workers that were heard of, what they report, and the directives given to them; in memory. */
import type { Clock } from '../../clock.ts'

const MAX_WORKERS = 10_000
/** For everything that workers report: 6 KiB each for 10,000 workers, or 500 that report the most allowed. */
const MAX_BYTES = 64 * 1024 * 1024
/** Memory of a string beside its characters, which take up to two bytes each. */
const TEXT_BYTES = 32
/** Six missed heartbeats (OJS workers). */
const STALE_AFTER_MS = 30_000
const FORGOTTEN_AFTER_MS = 300_000
const MAX_SHOWN_JOBS = 100

/** A directive only ever moves to the right: `terminate` is not taken back (OJS workers). */
const DIRECTIVES = ['running', 'quiet', 'terminate'] as const

export type Directive = (typeof DIRECTIVES)[number]

/** True when a worker that reports `state` has not followed `directive` yet. */
export function isStronger(directive: Directive, state: Directive): boolean {
  return DIRECTIVES.indexOf(directive) > DIRECTIVES.indexOf(state)
}

/** What a worker reports about itself in a heartbeat. Absent or null: the last value stays. */
export interface WorkerReport {
  workerId: string
  /** A directive's name; any other word of the worker's is ignored. */
  state?: string | null | undefined
  hostname?: string | null | undefined
  pid?: number | null | undefined
  queues?: readonly string[] | null | undefined
  /** The queue whose control queue the heartbeat came by: used for a worker that names no queues. */
  heardOn?: string
  concurrency?: number | null | undefined
  labels?: readonly string[] | null | undefined
  version?: string | null | undefined
  activeJobs: number
  activeJobIds: readonly string[]
}

/** A known worker. Null: the worker never reported the value. Instants are clock time. */
export interface Worker {
  readonly id: string
  hostname: string | null
  pid: number | null
  queues: readonly string[]
  concurrency: number | null
  labels: readonly string[]
  version: string | null
  /** The state that the worker reports itself. */
  reported: Directive | null
  directive: Directive
  /**
   * As of the last heartbeat (perhaps 5 s ago; 0 if there was none), without the jobs that have ended since.
   * `activeJobIds` has the first hundred.
   */
  activeJobs: number
  activeJobIds: readonly string[]
  startedAt: number
  lastHeartbeatAt: number | null
  lastSeenAt: number
}

interface KnownWorker extends Worker {
  /** Upper estimate of the memory that its reported values take. */
  bytes: number
  /** True: its heartbeats name all its queues, so a FETCH, which may name only some, does not change them. */
  namesQueues: boolean
}

export interface ListedWorker extends Worker {
  /** The reported state, else the directive; `stale` when nothing was heard of the worker for 30 s. */
  state: Directive | 'stale'
}

export interface WorkerList {
  workers: ListedWorker[]
  summary: { total: number } & Record<ListedWorker['state'], number>
}

/**
 * The workers that FETCH or send heartbeats, and the directives that operators gave them. In memory: after
 * a restart a worker is known again with its next request, but a directive has to be given again. Bounded,
 * because clients choose ids and values: beyond 10,000 workers it forgets those that were silent longest,
 * and beyond `maxBytes` those with the largest values. Workers with a directive are forgotten last, so that
 * nobody can undo a directive by sending requests under ten thousand names.
 */
export class WorkerRegistry {
  readonly #clock: Clock
  readonly #capacity: number
  readonly #maxBytes: number
  readonly #workers = new Map<string, KnownWorker>()
  readonly #since: number
  #bytes = 0

  constructor(clock: Clock, capacity: number = MAX_WORKERS, maxBytes: number = MAX_BYTES) {
    this.#clock = clock
    this.#since = clock.now()
    this.#capacity = capacity
    this.#maxBytes = maxBytes
  }

  /**
   * Notes a FETCH of this worker. Returns false when it was told to stop fetching (seed 001 §10.4), or has
   * said itself lately that it takes no more jobs (OJS graceful shutdown). On the hot path: one look-up, and
   * no allocation for a known worker.
   */
  fetched(workerId: string, queues: readonly string[]): boolean {
    const worker = this.#known(workerId) ?? this.#add(workerId)
    worker.lastSeenAt = this.#clock.now()
    if (!worker.namesQueues) {
      worker.queues = queues
      this.#measure(worker)
    }
    return worker.directive === 'running' && !this.#isQuiet(worker)
  }

  /**
   * Notes that a native worker begins to consume these queues; returns its directive. If the known worker
   * reported `terminate`, this is its successor under the same id, since a worker that is about to end does
   * not begin to consume: it starts without a directive.
   */
  joined(workerId: string, queues: readonly string[]): Directive {
    if (this.#workers.get(workerId)?.reported === 'terminate') this.#add(workerId)
    this.fetched(workerId, queues)
    return this.directiveOf(workerId)
  }

  /** The queues that workers named which were heard of within the last five minutes. */
  queues(): Set<string> {
    this.#forgetSilent()
    return new Set([...this.#workers.values()].flatMap((worker) => worker.queues))
  }

  /** The queues that the worker named; empty when it named none. */
  queuesOf(workerId: string): readonly string[] {
    return this.#workers.get(workerId)?.queues ?? []
  }

  /** What operators told the worker; `running`: nothing. */
  directiveOf(workerId: string): Directive {
    return this.#known(workerId)?.directive ?? 'running'
  }

  /** Records a heartbeat, also of a new worker; returns the worker's directive. */
  beaten(report: WorkerReport): Directive {
    const worker = this.#processOf(report)
    worker.lastSeenAt = this.#clock.now()
    worker.lastHeartbeatAt = worker.lastSeenAt
    worker.reported = DIRECTIVES.find((known) => known === report.state) ?? worker.reported
    worker.hostname = report.hostname ?? worker.hostname
    worker.pid = report.pid ?? worker.pid
    worker.queues = report.queues ?? queuesAfter(worker, report)
    worker.namesQueues ||= report.queues != null
    worker.concurrency = report.concurrency ?? worker.concurrency
    worker.labels = report.labels ?? worker.labels
    worker.version = report.version ?? worker.version
    worker.activeJobs = report.activeJobs
    worker.activeJobIds = report.activeJobIds.slice(0, MAX_SHOWN_JOBS)
    this.#measure(worker)
    return worker.directive
  }

  /**
   * Removes a job whose lease has ended from the worker's active jobs. A worker that sends heartbeats only
   * while it has jobs would otherwise show its last job for ever; if it still runs the job, its next
   * heartbeat lists it again. On the hot path.
   */
  ended(workerId: string, jobId: string): void {
    const worker = this.#workers.get(workerId)
    if (!worker?.activeJobIds.includes(jobId)) return
    worker.activeJobIds = worker.activeJobIds.filter((id) => id !== jobId)
    worker.activeJobs = Math.max(worker.activeJobs - 1, worker.activeJobIds.length)
  }

  /** Gives one worker a directive, perhaps again. `too-late`: it already has a stronger one. */
  direct(workerId: string, directive: Directive): ListedWorker | 'unknown' | 'too-late' {
    this.#forgetSilent()
    const worker = this.#workers.get(workerId)
    if (worker === undefined) return 'unknown'
    return tell(worker, directive) ? this.#listed(worker) : 'too-late'
  }

  /** Gives the directive to every worker that has no stronger one; returns how many got it. */
  directAll(directive: Directive): number {
    this.#forgetSilent()
    return [...this.#workers.values()].filter((worker) => tell(worker, directive)).length
  }

  /** Takes the directive `quiet` back from every worker that has it; returns how many. */
  undirectAll(): number {
    this.#forgetSilent()
    const quiet = [...this.#workers.values()].filter(({ directive }) => directive === 'quiet')
    for (const worker of quiet) worker.directive = 'running'
    return quiet.length
  }

  /** A worker and its state; null: nobody knows it. */
  find(id: string): ListedWorker | null {
    const worker = this.#known(id)
    return worker === undefined ? null : this.#listed(worker)
  }

  /** Workers that were silent for as long as that are stale, although nobody here has heard of them. */
  get isSettled(): boolean {
    return this.#clock.now() - this.#since > STALE_AFTER_MS
  }

  /** Forgets a worker that is still stale. */
  removeStale(id: string): boolean {
    const worker = this.#known(id)
    if (worker === undefined || this.#stateOf(worker) !== 'stale') return false
    this.#forget(worker)
    return true
  }

  /** Lists workers in the order in which they were first seen. */
  list({ limit, offset }: { limit: number; offset: number }): WorkerList {
    this.#forgetSilent()
    const all = [...this.#workers.values()]
    const summary = { total: all.length, running: 0, quiet: 0, terminate: 0, stale: 0 }
    for (const worker of all) summary[this.#stateOf(worker)] += 1
    const workers = all.slice(offset, offset + limit).map((worker) => this.#listed(worker))
    return { workers, summary }
  }

  /** Counts the workers that are not stale, and those of them that have active jobs. */
  gauges(): { active: number; busy: number } {
    let active = 0
    let busy = 0
    for (const worker of this.#workers.values()) {
      if (this.#silenceMs(worker) > STALE_AFTER_MS) continue
      active += 1
      if (worker.activeJobs > 0) busy += 1
    }
    return { active, busy }
  }

  /** The reporting process's entry; another process under the same id gets a new one, without a directive. */
  #processOf(report: WorkerReport): KnownWorker {
    const known = this.#known(report.workerId)
    return known === undefined || isOther(known, report) ? this.#add(report.workerId) : known
  }

  /** Ignores a worker after five minutes of silence, even if `#forgetSilent` has not removed it yet. */
  #known(id: string): KnownWorker | undefined {
    const worker = this.#workers.get(id)
    if (worker !== undefined && this.#silenceMs(worker) > FORGOTTEN_AFTER_MS) return undefined
    return worker
  }

  #add(id: string): KnownWorker {
    this.#forget(this.#workers.get(id))
    if (this.#workers.size >= this.#capacity) this.#forgetMostSilent()
    const now = this.#clock.now()
    const worker: KnownWorker = {
      id,
      hostname: null,
      pid: null,
      queues: [],
      concurrency: null,
      labels: [],
      version: null,
      reported: null,
      directive: 'running',
      activeJobs: 0,
      activeJobIds: [],
      startedAt: now,
      lastHeartbeatAt: null,
      lastSeenAt: now,
      bytes: 0,
      namesQueues: false,
    }
    this.#workers.set(id, worker)
    return worker
  }

  #forgetSilent(): void {
    const since = this.#clock.now() - FORGOTTEN_AFTER_MS
    for (const worker of this.#workers.values()) {
      if (worker.lastSeenAt < since) this.#forget(worker)
    }
  }

  /** Forgets a hundredth at a time, because it takes a sort: each FETCH may come under a new id. */
  #forgetMostSilent(): void {
    this.#forgetSilent()
    if (this.#workers.size < this.#capacity) return
    const bySilence = this.#dispensable((a, b) => a.lastSeenAt - b.lastSeenAt)
    const count = Math.ceil(this.#capacity / 100)
    for (const worker of bySilence.slice(0, count)) this.#forget(worker)
  }

  #measure(worker: KnownWorker): void {
    const bytes = bytesOf(worker)
    this.#bytes += bytes - worker.bytes
    worker.bytes = bytes
    if (this.#bytes > this.#maxBytes) this.#forgetLargest()
  }

  /** Forgets the largest workers, down to 90 % of the limit, because it takes a sort each time. */
  #forgetLargest(): void {
    this.#forgetSilent()
    for (const worker of this.#dispensable((a, b) => b.bytes - a.bytes)) {
      if (this.#bytes <= 0.9 * this.#maxBytes) return
      this.#forget(worker)
    }
  }

  /** All workers in the order in which they may be forgotten: those with a directive last. */
  #dispensable(compare: (a: KnownWorker, b: KnownWorker) => number): KnownWorker[] {
    const all = [...this.#workers.values()]
    return all.sort((a, b) => Number(isTold(a)) - Number(isTold(b)) || compare(a, b))
  }

  #forget(worker: KnownWorker | undefined): void {
    if (worker === undefined || !this.#workers.delete(worker.id)) return
    this.#bytes -= worker.bytes
  }

  #silenceMs(worker: Worker): number {
    return this.#clock.now() - worker.lastSeenAt
  }

  /** Only for as long as its heartbeats last: a successor under the same id may not send any. */
  #isQuiet({ reported, lastHeartbeatAt }: Worker): boolean {
    if (reported !== 'quiet' || lastHeartbeatAt === null) return false
    return this.#clock.now() - lastHeartbeatAt <= STALE_AFTER_MS
  }

  #stateOf(worker: Worker): ListedWorker['state'] {
    if (this.#silenceMs(worker) > STALE_AFTER_MS) return 'stale'
    return worker.reported ?? worker.directive
  }

  #listed({ bytes: _bytes, namesQueues: _named, ...worker }: KnownWorker): ListedWorker {
    return { ...worker, state: this.#stateOf(worker) }
  }
}

/** A worker that names no queues has at least the one whose control queue it writes to. */
function queuesAfter({ queues }: Worker, { heardOn }: WorkerReport): readonly string[] {
  return queues.length === 0 && heardOn !== undefined ? [heardOn] : queues
}

function bytesOf({ id, hostname, version, queues, labels, activeJobIds }: Worker): number {
  const own = textBytes(id) + textBytes(hostname) + textBytes(version)
  return own + listBytes(queues) + listBytes(labels) + listBytes(activeJobIds)
}

function listBytes(texts: readonly string[]): number {
  let bytes = 0
  for (const text of texts) bytes += textBytes(text)
  return bytes
}

function textBytes(text: string | null): number {
  return text === null ? 0 : TEXT_BYTES + 2 * text.length
}

function isTold({ directive }: Worker): boolean {
  return directive !== 'running'
}

function tell(worker: Worker, directive: Directive): boolean {
  if (isStronger(worker.directive, directive)) return false
  worker.directive = directive
  return true
}

/**
 * True when the report is from another process than `known`. The pid is not enough, since in containers it
 * is always 1: a worker that reported `terminate` and now runs again is another process too.
 */
function isOther(known: Worker, { pid, hostname, state }: WorkerReport): boolean {
  const isBack = known.reported === 'terminate' && (state === 'running' || state === 'quiet')
  return isBack || differs(known.pid, pid) || differs(known.hostname, hostname)
}

function differs<T>(known: T | null, told: T | null | undefined): boolean {
  return known !== null && told != null && known !== told
}
