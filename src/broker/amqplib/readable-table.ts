/** Deepest nesting of arrays and tables that is kept; amqplib recurses and is limited by its stack. */
const MAX_DEPTH = 32
const UNREADABLE = -1
const LENGTH_BYTES = 4

/** Size in bytes of a value after its tag. */
const FIXED = new Map<string, number>([
  ...['t', 'b', 'B'].map((tag) => [tag, 1] as const),
  ...['s', 'u'].map((tag) => [tag, 2] as const),
  ...['I', 'i', 'f'].map((tag) => [tag, 4] as const),
  ...['l', 'L', 'd', 'T'].map((tag) => [tag, 8] as const),
  ['D', 5],
  ['V', 0],
])
const LONG_OF_THE_GRAMMAR = 'L'
const LONG = 'l'.charCodeAt(0)

/**
 * Returns an AMQP field table without the headers that amqplib cannot decode: those of unknown types and
 * those nested too deeply. A signed 64-bit integer with the tag of the 0-9-1 grammar, `L` (Python's `amqp`
 * sends it), gets RabbitMQ's and amqplib's tag, `l`.
 *
 * `table`: the bytes after the length. A header whose end cannot be determined is dropped with all that
 * follow.
 */
export function readableTable(table: Buffer): Buffer {
  const copy = Buffer.from(table)
  const kept: Buffer[] = []
  let at = 0
  while (at < copy.length) {
    const value = at + 1 + (copy[at] ?? 0)
    const end = endOf(copy, value)
    if (end === UNREADABLE) break
    if (makeReadable(copy, value, 0)) kept.push(copy.subarray(at, end))
    at = end
  }
  return Buffer.concat(kept)
}

/** Where the value whose tag is at `at` ends: its own length tells, whatever it contains. */
function endOf(bytes: Buffer, at: number): number {
  const tag = tagAt(bytes, at)
  const fixed = FIXED.get(tag)
  if (fixed !== undefined) return within(bytes, at + 1 + fixed)
  if (!'SxAF'.includes(tag) || at + 1 + LENGTH_BYTES > bytes.length) return UNREADABLE
  return within(bytes, at + 1 + LENGTH_BYTES + bytes.readUInt32BE(at + 1))
}

/** False: the value cannot be made readable. */
function makeReadable(bytes: Buffer, at: number, depth: number): boolean {
  const tag = tagAt(bytes, at)
  if (tag === LONG_OF_THE_GRAMMAR) bytes[at] = LONG
  if (tag !== 'A' && tag !== 'F') return true
  if (depth === MAX_DEPTH) return false
  const inside = bytes.subarray(0, endOf(bytes, at))
  let next = at + 1 + LENGTH_BYTES
  while (next < inside.length) {
    const value = tag === 'F' ? next + 1 + (inside[next] ?? 0) : next
    const end = endOf(inside, value)
    if (end === UNREADABLE || !makeReadable(inside, value, depth + 1)) return false
    next = end
  }
  return true
}

function within(bytes: Buffer, end: number): number {
  return end <= bytes.length ? end : UNREADABLE
}

/** Past the end: '', which is no tag. */
function tagAt(bytes: Buffer, at: number): string {
  return bytes.toString('latin1', at, at + 1)
}
