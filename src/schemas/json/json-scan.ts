/** Scans a JSON text before anything is built: depth, numbers, heap of its values. */
import { NINE, numberEnd, ZERO } from './exact-number.ts'

export const QUOTE = 0x22
export const COMMA = 0x2c
const MINUS = 0x2d
export const COLON = 0x3a
export const OPEN_ARRAY = 0x5b
const BACKSLASH = 0x5c
const CLOSE_ARRAY = 0x5d
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d

export const NOWHERE = -1

/** `{}` takes 64 bytes, and 64 more where its keys are no other's. */
const HEAP_OF_NEST = 72
/** A string takes this as a key that no other object has, and 32 as a value. */
const HEAP_OF_STRING = 48
const HEAP_OF_NUMBER = 16

/** What a scan may not exceed. */
export interface ScanLimits {
  /** Arrays and objects inside one another, the outermost object included. */
  maxDepth: number
  /** The heap that all values may take; absent: any. */
  maxHeap?: number
  /** The same for the values of one part. */
  maxPartHeap?: number
  /** A part is what is nested deeper than this; absent: the whole document. */
  partDepth?: number
}

/** Where each array and object of at least `minBytes` begins and ends. */
export class Spans {
  readonly minBytes: number
  readonly #open: number[] = []
  readonly #ends = new Map<number, number>()

  constructor(minBytes: number) {
    this.minBytes = minBytes
  }

  opens(at: number): void {
    this.#open.push(at)
  }

  closes(at: number): void {
    const from = this.#open.pop()
    if (from !== undefined && at - from >= this.minBytes) this.#ends.set(from, at)
  }

  /** The offset of the closing bracket; undefined if no large array or object opens at `at`. */
  endOf(at: number): number | undefined {
    return this.#ends.get(at)
  }
}

/**
 * Scans a text once, before anything is built from it: finds the place where it nests too deep or has too
 * many values, the first number that JavaScript would change, and the heap of the values. Does not check the
 * grammar; `JSON.parse` refuses what is not JSON.
 */
export class Scan {
  /** Where the scan goes on. */
  at: number
  depth = 0
  tooDeepAt = NOWHERE
  tooManyAt = NOWHERE
  inexactAt = NOWHERE
  /** The most that the values take beside their text; measured with V8 11 (Node 20). */
  heapBytes = 0
  readonly #limits: Required<ScanLimits>
  readonly #spans: Spans | null
  /** What `heapBytes` may be at the end of the present part. */
  #most: number

  /** `spans` collects the places of large arrays and objects. */
  constructor(start: number, limits: ScanLimits, spans: Spans | null = null) {
    const { maxDepth, maxHeap = Number.POSITIVE_INFINITY, maxPartHeap = maxHeap } = limits
    this.at = start
    this.#limits = { maxDepth, maxHeap, maxPartHeap, partDepth: limits.partDepth ?? 0 }
    this.#spans = spans
    this.#most = Math.min(maxHeap, maxPartHeap)
  }

  /** Scans to `until` or a little further. Returns false when there is nothing more to find. */
  go(bytes: Buffer, until: number): boolean {
    let at = this.at
    while (at < until) {
      const byte = byteAt(bytes, at)
      if (byte === QUOTE) {
        this.heapBytes += HEAP_OF_STRING
        at = afterString(bytes, at)
      } else if (byte <= NINE && (byte >= ZERO || byte === MINUS)) {
        this.heapBytes += HEAP_OF_NUMBER
        const after = numberEnd(bytes, at)
        if (after < 0 && this.inexactAt === NOWHERE) this.inexactAt = at
        at = Math.abs(after)
      } else {
        const change = depthChange(byte)
        if (change !== 0 && !this.#bracket(at, change)) return false
        at++
      }
    }
    this.at = at
    return at < bytes.length
  }

  /** False when a limit is exceeded. */
  #bracket(at: number, change: -1 | 1): boolean {
    this.depth += change
    if (change === 1) {
      this.heapBytes += HEAP_OF_NEST
      this.#spans?.opens(at)
      if (this.depth > this.#limits.maxDepth) this.tooDeepAt = at
    } else {
      this.#spans?.closes(at)
    }
    if (this.heapBytes > this.#most) this.tooManyAt = at
    if (this.tooDeepAt !== NOWHERE || this.tooManyAt !== NOWHERE) return false
    if (change === -1 && this.depth <= this.#limits.partDepth) {
      this.#most = Math.min(this.#limits.maxHeap, this.heapBytes + this.#limits.maxPartHeap)
    }
    return true
  }
}

export function depthChange(byte: number): -1 | 0 | 1 {
  // `[` and `{` differ in one bit, and so do `]` and `}`.
  const bracket = byte & ~0x20
  if (bracket === OPEN_ARRAY) return 1
  return bracket === CLOSE_ARRAY ? -1 : 0
}

/** 0 past the end, which has no meaning in JSON. */
export function byteAt(bytes: Buffer, at: number): number {
  return bytes[at] ?? 0
}

/** The offset after the string that opens at `at`. */
export function afterString(bytes: Buffer, at: number): number {
  const end = bytes.length
  for (let i = at + 1; i < end; i++) {
    const byte = byteAt(bytes, i)
    if (byte === QUOTE) return i + 1
    if (byte === BACKSLASH) i++
  }
  return end
}

const MAX_FIELD = 200

interface Place {
  from: number
  to: number
}

const NO_KEY: Place = { from: 0, to: 0 }

/** The path of an offset in the document, such as `args[0].n`. Only for error messages. */
export function fieldAt(bytes: Buffer, target: number): string {
  const open: { key: Place; index: number }[] = []
  let at = 0
  while (at < target) {
    const byte = byteAt(bytes, at)
    if (byte === QUOTE) {
      const after = afterString(bytes, at)
      const inner = open.at(-1)
      if (inner) inner.key = { from: at + 1, to: after - 1 }
      at = after
      continue
    }
    if (byte === OPEN_ARRAY) open.push({ key: NO_KEY, index: 0 })
    else if (byte === OPEN_OBJECT) open.push({ key: NO_KEY, index: NOWHERE })
    else if (byte === CLOSE_ARRAY || byte === CLOSE_OBJECT) open.pop()
    else if (byte === COMMA) {
      const inner = open.at(-1)
      if (inner && inner.index !== NOWHERE) inner.index++
    }
    at++
  }
  const name = ({ from, to }: Place) => bytes.toString('utf8', from, to)
  const path = open
    .map(({ key, index }) => (index === NOWHERE ? `.${name(key)}` : `[${index}]`))
    .join('')
  return path.replace(/^\./, '').slice(0, MAX_FIELD) || 'body'
}
