/** How much heap this process has, and how much of it requests may use together. */
import { getHeapStatistics } from 'node:v8'
import { resourceLimits } from 'node:worker_threads'
import { OjsError, unavailable } from './errors.ts'

const MIB = 1024 * 1024

/**
 * Returns how many bytes may live in the heap. `limit`: V8's `heap_size_limit`. `options`: Node's start
 * options, of which the last counts, in worker threads too. `threadMib`: a worker thread's limit
 * (`resourceLimits`), used when the options set none.
 */
export function heapBytesOf(limit: number, options: string, threadMib?: number): number {
  // `heap_size_limit` includes the nursery (192 MiB in Node 24), where long-lived objects have no room.
  const named = [...options.matchAll(/--max[-_]old[-_]space[-_]size=([1-9]\d*)/g)].at(-1)?.[1]
  const mib = Number(named ?? threadMib)
  return mib > 0 ? Math.min(limit, mib * MIB) : limit
}

/** What V8 lets this process keep: `--max-old-space-size`, else a share of the machine or container. */
const HEAP_BYTES = heapBytesOf(
  getHeapStatistics().heap_size_limit,
  [process.env['NODE_OPTIONS'], ...process.execArgv].join(' '),
  resourceLimits.maxOldGenerationSizeMb,
)

/** What the gateway itself needs in the heap, without any client's request. */
const OWN_BYTES = 100 * MIB

/** Returns `mostBytes`, but on a small heap no more than the fraction `part` of the heap. */
export function partOfHeap(part: number, mostBytes: number, heapBytes = HEAP_BYTES): number {
  return Math.min(mostBytes, Math.floor(heapBytes * part))
}

/**
 * Limits the heap that all requests may use together while they are processed, as far as it can be estimated
 * beforehand. When the heap is full, V8 ends the process: it is too late to refuse anything then.
 */
export class WorkMemory {
  readonly #maxBytes: number
  readonly #maxAlone: number
  #taken = 0

  constructor(heapBytes = HEAP_BYTES) {
    this.#maxBytes = Math.floor(heapBytes / 2)
    this.#maxAlone = Math.max(this.#maxBytes, heapBytes - OWN_BYTES)
  }

  get taken(): number {
    return this.#taken
  }

  /** The most that one request may take when there is no other. */
  get maxAlone(): number {
    return this.#maxAlone
  }

  /**
   * Takes `bytes` for a request that holds `own`. False if others hold too much; one alone always gets them.
   */
  take(bytes: number, own: number): boolean {
    if (this.#taken > own && this.#taken + bytes > this.#maxBytes) return false
    this.#taken += bytes
    return true
  }

  giveBack(bytes: number): void {
    this.#taken -= bytes
  }
}

/** Shared by all gateways of the process, since they share its heap. */
const WORK_MEMORY = new WorkMemory()

/** A request that needs more than this cannot succeed, however long it waits. */
export const MAX_ALONE = WORK_MEMORY.maxAlone

/** What one request holds of the `WorkMemory`. */
export class MemoryShare {
  readonly #memory: WorkMemory
  #bytes = 0

  constructor(memory: WorkMemory = WORK_MEMORY) {
    this.#memory = memory
  }

  /** Takes `bytes` more. False when that is not available now. */
  take(bytes: number): boolean {
    if (!this.#memory.take(bytes, this.#bytes)) return false
    this.#bytes += bytes
    return true
  }

  /** Takes `bytes` more. Throws 413 if that much can never be available, 503 if it is not available now. */
  require(bytes: number): void {
    if (this.#bytes + bytes > this.#memory.maxAlone)
      throw noMemory('The request needs more memory than this gateway has.')
    if (!this.take(bytes)) throw busy()
  }

  giveBack(): void {
    this.#memory.giveBack(this.#bytes)
    this.#bytes = 0
  }
}

export function busy(): OjsError {
  return unavailable('All requests together need too much memory now.', 'busy')
}

export function noMemory(message: string): OjsError {
  const details = { field: 'body', reason: 'memory' }
  return new OjsError('invalid_request', message, { status: 413, details })
}

/** The memory that smaller bodies need is not worth counting. */
export const UNCOUNTED_BYTES = 16_384
