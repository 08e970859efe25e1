/** Headers that amqplib cannot decode, left out before they end the connection. */

/** AMQP 0-9-1, §2.3.5: type, channel, length of the payload, payload, end. */
const HEADER_FRAME = 2
const LENGTH_AT = 3
const FRAME_OVERHEAD = 8
/** §2.3.5.2: class, weight and length of the body; then flags; then the properties themselves. */
const FLAGS_AT = 19
const PROPERTIES_AT = 21
const CONTENT_TYPE = 0x8000
const CONTENT_ENCODING = 0x4000
const HEADERS = 0x2000
const LENGTH_BYTES = 4

/** Members of amqplib's connection that this needs; its types lack them. */
interface FrameReader {
  /** The next frame, or false when there is no complete one. Throws for a frame that it cannot decode. */
  recvFrame(): unknown
  /** Bytes that were read and do not form a complete frame yet. */
  rest: Buffer
}

/**
 * Makes amqplib's `connection` drop headers that it cannot decode. RabbitMQ accepts, stores and delivers
 * header tables that amqplib throws on, which ends the connection; RabbitMQ then redelivers the message,
 * which ends the next one. So a single message from anyone who may publish could keep a gateway from its
 * broker. A `connection` of another structure is left unchanged. Delete when amqplib delivers messages whose
 * headers it cannot decode.
 */
export function readStrangeHeaders(connection: object): void {
  if (!isFrameReader(connection)) return
  const { recvFrame } = connection
  connection.recvFrame = () => {
    const before = connection.rest
    try {
      return recvFrame.call(connection)
    } catch (error) {
      // amqplib removes the frame from `rest` before it decodes it.
      const after = connection.rest
      const frame = before.subarray(0, Math.max(0, before.length - after.length))
      const readable = withReadableHeaders(frame)
      if (readable === null) throw error
      connection.rest = Buffer.concat([readable, after])
      return recvFrame.call(connection)
    }
  }
}

function isFrameReader(connection: object): connection is FrameReader {
  return (
    'recvFrame' in connection &&
    typeof connection.recvFrame === 'function' &&
    'rest' in connection &&
    Buffer.isBuffer(connection.rest)
  )
}

/** Null: something other than the headers cannot be decoded. */
function withReadableHeaders(frame: Buffer): Buffer | null {
  const isWhole =
    frame.length > PROPERTIES_AT && frame.length === frame.readUInt32BE(LENGTH_AT) + FRAME_OVERHEAD
  if (!isWhole || frame[0] !== HEADER_FRAME) return null
  const flags = frame.readUInt16BE(FLAGS_AT)
  if ((flags & HEADERS) === 0) return null
  let at = PROPERTIES_AT
  for (const before of [CONTENT_TYPE, CONTENT_ENCODING]) {
    if ((flags & before) !== 0) at += 1 + (frame[at] ?? 0)
  }
  const end = at + LENGTH_BYTES + frame.readUInt32BE(at)
  const table = readableTable(frame.subarray(at + LENGTH_BYTES, end))
  const length = Buffer.alloc(LENGTH_BYTES)
  length.writeUInt32BE(table.length)
  const readable = Buffer.concat([frame.subarray(0, at), length, table, frame.subarray(end)])
  readable.writeUInt32BE(readable.length - FRAME_OVERHEAD, LENGTH_AT)
  return readable
}

/** Deepest nesting of arrays and tables that is kept; amqplib recurses and is limited by its stack. */
const MAX_DEPTH = 32
const UNREADABLE = -1
const FIELD_LENGTH_BYTES = 4

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
  if (!'SxAF'.includes(tag) || at + 1 + FIELD_LENGTH_BYTES > bytes.length) return UNREADABLE
  return within(bytes, at + 1 + FIELD_LENGTH_BYTES + bytes.readUInt32BE(at + 1))
}

/** False: the value cannot be made readable. */
function makeReadable(bytes: Buffer, at: number, depth: number): boolean {
  const tag = tagAt(bytes, at)
  if (tag === LONG_OF_THE_GRAMMAR) bytes[at] = LONG
  if (tag !== 'A' && tag !== 'F') return true
  if (depth === MAX_DEPTH) return false
  const inside = bytes.subarray(0, endOf(bytes, at))
  let next = at + 1 + FIELD_LENGTH_BYTES
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
