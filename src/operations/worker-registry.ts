import type { Clock } from '../clock.ts'

const MAX_WORKERS = 10_000
/** Six missed heartbeats (ojs-digest §9). */
const STALE_AFTER_MS = 30_000
const FORGOTTEN_AFTER_MS = 300_000
const MAX_SHOWN_JOBS = 100

/** From left to right only: who was told to end is not told to go on (ojs-digest §9). */
const DIRECTIVES = ['running', 'quiet', 'terminate'] as const

export type Directive = (typeof DIRECTIVES)[number]

/** Has a worker that reports `state` still something to be told? */
export function isStronger(directive: Directive, state: Directive): boolean {
  return DIRECTIVES.indexOf(directive) > DIRECTIVES.indexOf(state)
}

/** What a worker says of itself in a heartbeat. What it does not say stays as it was. */
export interface WorkerReport {
  workerId: string
  /** One of ours, or a word of its own, which says nothing to us. */
  state?: string | null | undefined
  hostname?: string | null | undefined
  pid?: number | null | undefined
  queues?: readonly string[] | null | undefined
  concurrency?: number | null | undefined
  labels?: readonly string[] | null | undefined
  version?: string | null | undefined
  activeJobs: number
  activeJobIds: readonly string[]
}

/** Null: the worker never said. Instants are clock time. */
export interface Worker {
  readonly id: string
  hostname: string | null
  pid: number | null
  queues: readonly string[]
  concurrency: number | null
  labels: readonly string[]
  version: string | null
  /** As it says itself. */
  reported: Directive | null
  directive: Directive
  /** As of its last heartbeat; `activeJobIds` are the first hundred of them. */
  activeJobs: number
  activeJobIds: readonly string[]
  startedAt: number
  lastHeartbeatAt: number | null
  lastSeenAt: number
}

export interface ListedWorker extends Worker {
  /** What it reports, or else was told; `stale` when nothing was heard of it for 30 s. */
  state: Directive | 'stale'
}

export interface WorkerList {
  workers: ListedWorker[]
  summary: { total: number } & Record<ListedWorker['state'], number>
}

/**
 * Who fetches and beats, and what operators want of them. In memory: after a restart a worker is
 * back with its next request, and a directive has to be given again. Bounded, because the ids come
 * from clients: of more than 10,000 the one that was silent for longest is forgotten.
 */
export class WorkerRegistry {
  readonly #clock: Clock
  readonly #capacity: number
  readonly #workers = new Map<string, Worker>()

  constructor(clock: Clock, capacity: number = MAX_WORKERS) {
    this.#clock = clock
    this.#capacity = capacity
  }

  /**
   * A FETCH of this worker. False: it was told to stop fetching (seed 001 §10.4). On the hot path:
   * one look-up, and no allocation for a worker that is known.
   */
  fetched(workerId: string, queues: readonly string[]): boolean {
    const worker = this.#workers.get(workerId) ?? this.#add(workerId)
    worker.lastSeenAt = this.#clock.now()
    // A heartbeat names all its queues, a FETCH perhaps only some.
    if (worker.lastHeartbeatAt === null) worker.queues = queues
    return worker.directive === 'running'
  }

  /** A native worker begins to consume these queues; answers what it shall do. */
  joined(workerId: string, queues: readonly string[]): Directive {
    this.fetched(workerId, queues)
    return this.#workers.get(workerId)?.directive ?? 'running'
  }

  /** As it says itself; empty when it never did. */
  queuesOf(workerId: string): readonly string[] {
    return this.#workers.get(workerId)?.queues ?? []
  }

  /** A heartbeat. A worker that nobody knew is known from now on; answers what it shall do. */
  beaten(report: WorkerReport): Directive {
    const worker = this.#processOf(report)
    worker.lastSeenAt = this.#clock.now()
    worker.lastHeartbeatAt = worker.lastSeenAt
    worker.reported = DIRECTIVES.find((known) => known === report.state) ?? worker.reported
    worker.hostname = report.hostname ?? worker.hostname
    worker.pid = report.pid ?? worker.pid
    worker.queues = report.queues ?? worker.queues
    worker.concurrency = report.concurrency ?? worker.concurrency
    worker.labels = report.labels ?? worker.labels
    worker.version = report.version ?? worker.version
    worker.activeJobs = report.activeJobs
    worker.activeJobIds = report.activeJobIds.slice(0, MAX_SHOWN_JOBS)
    return worker.directive
  }

  /** Tells one worker. The same again is fine; `too-late`: it was told more already. */
  direct(workerId: string, directive: Directive): ListedWorker | 'unknown' | 'too-late' {
    this.#forgetSilent()
    const worker = this.#workers.get(workerId)
    if (worker === undefined) return 'unknown'
    return tell(worker, directive) ? this.#listed(worker) : 'too-late'
  }

  /** Tells every worker that was not told more already; how many. */
  directAll(directive: Directive): number {
    this.#forgetSilent()
    return [...this.#workers.values()].filter((worker) => tell(worker, directive)).length
  }

  /** In the order in which they were first seen. */
  list({ limit, offset }: { limit: number; offset: number }): WorkerList {
    this.#forgetSilent()
    const all = [...this.#workers.values()]
    const summary = { total: all.length, running: 0, quiet: 0, terminate: 0, stale: 0 }
    for (const worker of all) summary[this.#stateOf(worker)] += 1
    const workers = all.slice(offset, offset + limit).map((worker) => this.#listed(worker))
    return { workers, summary }
  }

  /** Workers that are not stale, and those of them that have work. */
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

  /** Another process under the same id: what its predecessor was told does not concern it. */
  #processOf({ workerId, pid, hostname }: WorkerReport): Worker {
    const known = this.#workers.get(workerId)
    if (known === undefined) return this.#add(workerId)
    const isOther = differs(known.pid, pid) || differs(known.hostname, hostname)
    return isOther ? this.#add(workerId) : known
  }

  #add(id: string): Worker {
    this.#workers.delete(id)
    if (this.#workers.size >= this.#capacity) this.#forgetSilent()
    if (this.#workers.size >= this.#capacity) this.#forgetMostSilent()
    const now = this.#clock.now()
    const worker: Worker = {
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
    }
    this.#workers.set(id, worker)
    return worker
  }

  #forgetSilent(): void {
    for (const worker of this.#workers.values()) {
      if (this.#silenceMs(worker) > FORGOTTEN_AFTER_MS) this.#workers.delete(worker.id)
    }
  }

  #forgetMostSilent(): void {
    let oldest: Worker | undefined
    for (const worker of this.#workers.values()) {
      if (oldest === undefined || worker.lastSeenAt < oldest.lastSeenAt) oldest = worker
    }
    if (oldest) this.#workers.delete(oldest.id)
  }

  #silenceMs(worker: Worker): number {
    return this.#clock.now() - worker.lastSeenAt
  }

  #stateOf(worker: Worker): ListedWorker['state'] {
    if (this.#silenceMs(worker) > STALE_AFTER_MS) return 'stale'
    return worker.reported ?? worker.directive
  }

  #listed(worker: Worker): ListedWorker {
    return { ...worker, state: this.#stateOf(worker) }
  }
}

function tell(worker: Worker, directive: Directive): boolean {
  if (isStronger(worker.directive, directive)) return false
  worker.directive = directive
  return true
}

function differs<T>(known: T | null, told: T | null | undefined): boolean {
  return known !== null && told != null && known !== told
}
