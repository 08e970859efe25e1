/** `JSON.parse` in slices, for texts that would block everything else. */
import {
  afterString,
  byteAt,
  COMMA,
  depthChange,
  OPEN_ARRAY,
  QUOTE,
  type Spans,
} from './json-scan.ts'

const SPACE = /^[ \t\n\r]*$/

/**
 * The value that `JSON.parse` gives for the text from `start` on, made in slices with a pause (`yield`)
 * between them. `JSON.parse` takes 10 ms for 64 KiB of `{}`, and blocks everything meanwhile. Only `spans`,
 * the large arrays and objects, are taken apart here; their small items are parsed together, as lists or
 * objects of their own. Throws `SyntaxError`.
 */
export function* slicedValue(bytes: Buffer, start: number, spans: Spans): Generator<void, unknown> {
  let open = start
  while (open < bytes.length && depthChange(byteAt(bytes, open)) === 0) open++
  const end = spans.endOf(open)
  if (end === undefined) return JSON.parse(bytes.toString('utf8', start))
  requireSpace(bytes, start, open)
  requireSpace(bytes, end + 1, bytes.length)
  return yield* nest({ bytes, spans }, open, end)
}

interface Source {
  bytes: Buffer
  spans: Spans
}

/** An array or object under construction. */
interface Nest {
  value: unknown
  /** Adds the items in a text without its brackets. Returns how many there were. */
  addAll(text: string): number
  /** Adds an item; `before`: the text between the last comma and the item. */
  addOne(before: string, item: unknown): void
}

function* nest(source: Source, open: number, end: number): Generator<void, unknown> {
  const { bytes, spans } = source
  const made = newNest(byteAt(bytes, open), byteAt(bytes, end))
  // Not yet added: the text from here on.
  let from = open + 1
  let itemFrom = from
  let isFirst = true
  const flush = (to: number) => {
    if (made.addAll(bytes.toString('utf8', from, to)) === 0) throw new SyntaxError('item missing')
    from = to + 1
  }
  for (let at = from; at < end; ) {
    const largeEnd = spans.endOf(at)
    if (largeEnd !== undefined) {
      if (itemFrom > from) flush(itemFrom - 1)
      const before = bytes.toString('utf8', itemFrom, at)
      made.addOne(before, yield* nest(source, at, largeEnd))
      const comma = commaAfter(bytes, largeEnd)
      if (comma >= end) return made.value
      isFirst = false
      from = itemFrom = at = comma + 1
      continue
    }
    if (byteAt(bytes, at) === COMMA) {
      itemFrom = at + 1
      isFirst = false
      if (at - from >= spans.minBytes) {
        flush(at)
        yield
      }
    }
    at = afterItem(bytes, at)
  }
  const isEmpty = isFirst && SPACE.test(bytes.toString('utf8', from, end))
  if (!isEmpty) flush(end)
  return made.value
}

function newNest(opening: number, closing: number): Nest {
  // `[` and `]`, `{` and `}` differ by 2.
  if (closing !== opening + 2) throw new SyntaxError('brackets differ')
  return opening === OPEN_ARRAY ? newList() : newObject()
}

function newList(): Nest {
  const list: unknown[] = []
  return {
    value: list,
    addAll(text) {
      const items: unknown[] = JSON.parse(`[${text}]`)
      for (const item of items) list.push(item)
      return items.length
    },
    addOne(before, item) {
      if (!SPACE.test(before)) throw new SyntaxError('text before an item')
      list.push(item)
    },
  }
}

function newObject(): Nest {
  const object: Record<string, unknown> = {}
  const add = (name: string, value: unknown) => {
    if (name !== '__proto__') object[name] = value
    // Assigning would change the prototype instead.
    else Object.defineProperty(object, name, { value, ...PLAIN })
  }
  return {
    value: object,
    addAll(text) {
      const members: Record<string, unknown> = JSON.parse(`{${text}}`)
      const names = Object.keys(members)
      for (const name of names) add(name, members[name])
      return names.length
    },
    addOne(before, value) {
      const [name] = Object.keys(JSON.parse(`{${before}[]}`))
      if (name === undefined) throw new SyntaxError('name missing')
      add(name, value)
    },
  }
}

const PLAIN = { writable: true, enumerable: true, configurable: true }

/** The offset after the string, the small array or object, or the byte at `at`. */
function afterItem(bytes: Buffer, at: number): number {
  if (byteAt(bytes, at) === QUOTE) return afterString(bytes, at)
  let depth = depthChange(byteAt(bytes, at))
  let next = at + 1
  while (depth > 0 && next < bytes.length) {
    const byte = byteAt(bytes, next)
    depth += depthChange(byte)
    next = byte === QUOTE ? afterString(bytes, next) : next + 1
  }
  return next
}

/** The offset of the comma or bracket behind a large item. */
function commaAfter(bytes: Buffer, itemEnd: number): number {
  let at = itemEnd + 1
  while (SPACE.test(String.fromCharCode(byteAt(bytes, at)))) at++
  const byte = byteAt(bytes, at)
  if (byte !== COMMA && depthChange(byte) !== -1) throw new SyntaxError('comma missing')
  return at
}

function requireSpace(bytes: Buffer, from: number, to: number): void {
  if (!SPACE.test(bytes.toString('utf8', from, to))) throw new SyntaxError('text beside the value')
}
