/** Copies any thrown value into bounded JSON. */

import { errorType } from './error-type.ts'

/** Limits for the copy of a thrown value: more does not belong in a report. */
const MAX_DEPTH = 6
const MAX_MEMBERS = 200
const MAX_TEXT = 4_096
/** Characters of all texts together. Servers drop `details` as a whole from about 64 KiB. */
const MAX_TEXTS = 8_192

/**
 * A copy of `value` that can be written as JSON, whatever `value` is: cycles, `BigInt`, getters that throw,
 * proxies. Values that JSON does not have become a text in brackets. Depth, members and text are limited.
 * Never throws.
 */
export function plainData(value: unknown): unknown {
  return new Copy().of(value, 0)
}

/** The first `max` UTF-16 units of a text at most; never splits a surrogate pair. */
export function cut(text: string, max: number): string {
  if (text.length <= max) return text
  const end = text.charCodeAt(max - 1)
  const isHalf = end >= 0xd800 && end < 0xdc00
  return text.slice(0, isHalf ? max - 1 : max)
}

class Copy {
  /** The objects around the current value, to find cycles. The same object in two places is no cycle. */
  readonly #enclosing = new Set<object>()
  #members = 0
  #charactersLeft = MAX_TEXTS

  of(value: unknown, depth: number): unknown {
    switch (typeof value) {
      case 'string':
        return this.#text(value)
      case 'number':
        return Number.isFinite(value) ? value : String(value)
      case 'boolean':
        return value
      case 'object':
        return value === null ? null : this.#object(value, depth)
      case 'undefined':
        return undefined
      case 'bigint':
        return this.#text(String(value))
      case 'symbol':
      case 'function':
        return `[${typeof value}]`
    }
  }

  #text(text: string): string {
    const kept = cut(text, Math.min(MAX_TEXT, this.#charactersLeft))
    this.#charactersLeft -= kept.length
    return kept
  }

  #object(value: object, depth: number): unknown {
    if (this.#enclosing.has(value)) return '[circular]'
    if (depth >= MAX_DEPTH) return '[too deep]'
    this.#enclosing.add(value)
    try {
      return this.#read(value, depth)
    } catch {
      return '[unreadable]'
    } finally {
      this.#enclosing.delete(value)
    }
  }

  #read(value: object, depth: number): unknown {
    if (value instanceof Error) return this.#error(value, depth)
    if (Array.isArray(value)) {
      const items = value.slice(0, Math.max(0, MAX_MEMBERS - this.#members))
      this.#members += items.length
      return items.map((item) => this.of(item, depth + 1) ?? null)
    }
    // The keys of a view, or what a Buffer's `toJSON` makes, have an entry for every byte: with 60 MB of a
    // response's body that took a minute and 2.5 GB.
    if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`
    const { toJSON } = value as { toJSON?: unknown }
    if (typeof toJSON === 'function') return this.of(toJSON.call(value, ''), depth + 1)
    return Object.fromEntries(this.#entries(value, depth))
  }

  *#entries(value: object, depth: number): Generator<[string, unknown]> {
    for (const name of Object.keys(value)) {
      if (this.#members >= MAX_MEMBERS) return
      this.#members += 1
      yield [this.#text(name), this.#member(value, name, depth)]
    }
  }

  #member(value: object, name: string, depth: number): unknown {
    try {
      return this.of((value as Record<string, unknown>)[name], depth + 1)
    } catch {
      return '[unreadable]'
    }
  }

  /** `name` and `message` of an error are not enumerable, so they are read by name. */
  #error(error: Error, depth: number): unknown {
    return {
      type: this.#text(errorType(error)),
      message: this.#text(String(error.message)),
      ...(error.cause !== undefined && { cause: this.of(error.cause, depth + 1) }),
    }
  }
}
