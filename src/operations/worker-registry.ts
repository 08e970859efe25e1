import type { Clock } from '../clock.ts'

const MAX_WORKERS = 10_000
/** For all that workers report: 6 KiB each of 10,000 workers, or 500 that report the most allowed. */
const MAX_BYTES = 64 * 1024 * 1024
/** What a string takes in memory beside its characters, which take up to two bytes each. */
const TEXT_BYTES = 32
/** Six missed heartbeats (ojs-digest §9). */
const STALE_AFTER_MS = 30_000
const FORGOTTEN_AFTER_MS = 300_000
const MAX_SHOWN_JOBS = 100

/** From left to right only: who was told to end is not told to go on (ojs-digest §9). */
const DIRECTIVES = ['running', 'quiet', 'terminate'] as const

export type Directive = (typeof DIRECTIVES)[number]

/** Does a worker that reports `state` still have to be told `directive`? */
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
  /** The queue whose control queue the heartbeat came by: the only one known of a worker that names none. */
  heardOn?: string
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
  /**
   * As of its last heartbeat, which may be 5 s ago or never was, without those that have ended since;
   * `activeJobIds` are the first hundred.
   */
  activeJobs: number
  activeJobIds: readonly string[]
  startedAt: number
  lastHeartbeatAt: number | null
  lastSeenAt: number
}

interface KnownWorker extends Worker {
  /** What all that it says takes of memory, roughly and at most. */
  bytes: number
  /** Its heartbeats name all its queues; a FETCH perhaps only some. */
  namesQueues: boolean
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
 * back with its next request, and a directive has to be given again. Bounded, because clients say
 * what they like: of more than 10,000 those that were silent for longest are forgotten, and where
 * all together say too much, those that say most; whoever was told something after all others, so
 * that nobody undoes what an operator wants by coming under ten thousand names.
 */
export class WorkerRegistry {
  readonly #clock: Clock
  readonly #capacity: number
  readonly #maxBytes: number
  readonly #workers = new Map<string, KnownWorker>()
  #bytes = 0

  constructor(clock: Clock, capacity: number = MAX_WORKERS, maxBytes: number = MAX_BYTES) {
    this.#clock = clock
    this.#capacity = capacity
    this.#maxBytes = maxBytes
  }

  /**
   * A FETCH of this worker. False: it was told to stop fetching (seed 001 §10.4). On the hot path:
   * one look-up, and no allocation for a worker that is known.
   */
  fetched(workerId: string, queues: readonly string[]): boolean {
    const worker = this.#known(workerId) ?? this.#add(workerId)
    worker.lastSeenAt = this.#clock.now()
    if (!worker.namesQueues) {
      worker.queues = queues
      this.#measure(worker)
    }
    return worker.directive === 'running'
  }

  /**
   * A native worker begins to consume these queues; answers what it shall do. One that is about to
   * end does not begin any more: who had said so is its successor.
   */
  joined(workerId: string, queues: readonly string[]): Directive {
    if (this.#workers.get(workerId)?.reported === 'terminate') this.#add(workerId)
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
   * The worker's lease of a job is over. One that beats only for the jobs that it has would have the last
   * of them for ever; whoever runs it still says so with the next heartbeat. On the hot path, too.
   */
  ended(workerId: string, jobId: string): void {
    const worker = this.#workers.get(workerId)
    if (!worker?.activeJobIds.includes(jobId)) return
    worker.activeJobIds = worker.activeJobIds.filter((id) => id !== jobId)
    worker.activeJobs = Math.max(worker.activeJobs - 1, worker.activeJobIds.length)
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
  #processOf(report: WorkerReport): KnownWorker {
    const known = this.#known(report.workerId)
    return known === undefined || isOther(known, report) ? this.#add(report.workerId) : known
  }

  /** Five minutes of silence are its end, whether or not anybody has looked at the list since. */
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

  /** A hundredth at a time, because it takes a sort: each FETCH may come under a new name. */
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

  /** Whoever says little stays. A tenth more than has to go: it takes a sort each time. */
  #forgetLargest(): void {
    this.#forgetSilent()
    for (const worker of this.#dispensable((a, b) => b.bytes - a.bytes)) {
      if (this.#bytes <= 0.9 * this.#maxBytes) return
      this.#forget(worker)
    }
  }

  /** All of them, in the order in which they are forgotten: whoever was told something comes last. */
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

/** In a container every process is number 1: who had ended and runs again is another one, too. */
function isOther(known: Worker, { pid, hostname, state }: WorkerReport): boolean {
  const isBack = known.reported === 'terminate' && (state === 'running' || state === 'quiet')
  return isBack || differs(known.pid, pid) || differs(known.hostname, hostname)
}

function differs<T>(known: T | null, told: T | null | undefined): boolean {
  return known !== null && told != null && known !== told
}
