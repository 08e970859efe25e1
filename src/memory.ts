import { getHeapStatistics } from 'node:v8'
import { resourceLimits } from 'node:worker_threads'
import { OjsError, unavailable } from './errors.ts'

const MIB = 1024 * 1024

/**
 * `limit`: V8's `heap_size_limit`. `options`: what Node was started with, the last one counts, also in a
 * worker thread. `threadMib`: what such a thread may have without them (`resourceLimits`).
 */
export function heapBytesOf(limit: number, options: string, threadMib?: number): number {
  // V8 adds the nursery to the limit, 192 MiB in Node 24: no room for what lives on.
  const named = [...options.matchAll(/--max[-_]old[-_]space[-_]size=([1-9]\d*)/g)].at(-1)?.[1]
  const mib = Number(named ?? threadMib)
  return mib > 0 ? Math.min(limit, mib * MIB) : limit
}

/** What V8 lets this process keep: `--max-old-space-size`, else a part of what machine or container have. */
const HEAP_BYTES = heapBytesOf(
  getHeapStatistics().heap_size_limit,
  [process.env['NODE_OPTIONS'], ...process.execArgv].join(' '),
  resourceLimits.maxOldGenerationSizeMb,
)

/** What the gateway has in the heap by itself, and for work that no client asks for. */
const OWN_BYTES = 100 * MIB

/** `mostBytes`, and on a small heap only this part of it. */
export function partOfHeap(part: number, mostBytes: number, heapBytes = HEAP_BYTES): number {
  return Math.min(mostBytes, Math.floor(heapBytes * part))
}

/**
 * What requests may have in the heap together while they are worked on, as far as it can be told
 * beforehand. V8 ends the process where the heap is full: nobody could refuse anything then.
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

  /** The most that one request may have, alone. */
  get maxAlone(): number {
    return this.#maxAlone
  }

  /** False: others have it now. Who is alone always gets it. */
  take(bytes: number, own: number): boolean {
    if (this.#taken > own && this.#taken + bytes > this.#maxBytes) return false
    this.#taken += bytes
    return true
  }

  giveBack(bytes: number): void {
    this.#taken -= bytes
  }
}

/** It is the memory of the process, so one for all gateways in it. */
const WORK_MEMORY = new WorkMemory()

/** More than this is never to be had, however long somebody waits. */
export const MAX_ALONE = WORK_MEMORY.maxAlone

/** What one request has of it. */
export class MemoryShare {
  readonly #all: WorkMemory
  #bytes = 0

  constructor(all: WorkMemory = WORK_MEMORY) {
    this.#all = all
  }

  /** So much more. False: there is not as much now. */
  take(bytes: number): boolean {
    if (!this.#all.take(bytes, this.#bytes)) return false
    this.#bytes += bytes
    return true
  }

  /** The same for what a request asks for. Throws 413 where there can never be as much, else 503. */
  require(bytes: number): void {
    if (this.#bytes + bytes > this.#all.maxAlone)
      throw noMemory('The request needs more memory than this gateway has.')
    if (!this.take(bytes)) throw busy()
  }

  giveBack(): void {
    this.#all.giveBack(this.#bytes)
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

/** What less than this needs is not worth counting. */
export const UNCOUNTED_BYTES = 16_384
