/** A buffer for AMQP 0-9-1 frames with plain values, written in one pass. */
import { MAX_SHORT_BYTES } from '../messages/headers.ts'

const FRAME_HEAD_BYTES = 7
const SIZE_AT = 3
const END = 0xce
const TEXT = 'S'.charCodeAt(0)
const INT32 = 'I'.charCodeAt(0)
const BOOLEAN = 't'.charCodeAt(0)

/**
 * Writes AMQP 0-9-1 frames (§2.3.5, §4.2) into one buffer, in one pass. It supports plain values only. A text
 * beyond ASCII, a header that is neither text nor int32 nor boolean, or content that does not fit makes it
 * unusable until `beginAnew`.
 */
export class FrameWriter {
  readonly #bytes: Buffer
  #at = 0
  #frameAt = 0
  #flagsAt = 0
  #flags = 0
  #isPlain = true

  constructor(capacity: number) {
    this.#bytes = Buffer.alloc(capacity)
  }

  /**
   * False after a value that is not plain, or when the buffer was too small: writes beyond its end do
   * nothing, so one check at the end suffices. Leaves room for the frame head that `withFrame` adds.
   */
  get isUsable(): boolean {
    return this.#isPlain && this.#at + FRAME_HEAD_BYTES <= this.#bytes.length
  }

  beginAnew(): void {
    this.#at = 0
    this.#isPlain = true
  }

  beginFrame(type: number, channel: number): void {
    this.#frameAt = this.#at
    this.uint8(type)
    this.uint16(channel)
    this.#at += FRAME_HEAD_BYTES - SIZE_AT
  }

  endFrame(): void {
    this.#sizeIs(this.#at - this.#frameAt - FRAME_HEAD_BYTES)
    this.uint8(END)
  }

  /** Returns the written bytes and one more frame, in a new buffer. */
  withFrame(type: number, channel: number, payload: Buffer): Buffer {
    this.beginFrame(type, channel)
    this.#sizeIs(payload.length)
    const head = this.#at
    const all = Buffer.allocUnsafe(head + payload.length + 1)
    this.#bytes.copy(all, 0, 0, head)
    payload.copy(all, head)
    all[all.length - 1] = END
    return all
  }

  /** Returns a copy of the written bytes. */
  taken(): Buffer {
    return Buffer.from(this.#bytes.subarray(0, this.#at))
  }

  uint8(value: number): void {
    this.#bytes[this.#at++] = value
  }

  uint16(value: number): void {
    this.uint8(value >>> 8)
    this.uint8(value)
  }

  uint32(value: number): void {
    this.uint16(value >>> 16)
    this.uint16(value)
  }

  shortText(value: unknown): void {
    if (typeof value !== 'string' || value.length > MAX_SHORT_BYTES) this.#isPlain = false
    else {
      this.uint8(value.length)
      this.#ascii(value)
    }
  }

  /** Properties of a content header: first the flags of those present, then each that is not undefined. */
  beginProperties(): void {
    this.#flags = 0
    this.#flagsAt = this.#at
    this.#at += 2
  }

  endProperties(): void {
    this.#bytes[this.#flagsAt] = this.#flags >>> 8
    this.#bytes[this.#flagsAt + 1] = this.#flags
  }

  shortTextProperty(flag: number, value: unknown): void {
    if (value === undefined) return
    this.#flags |= flag
    this.shortText(value)
  }

  octetProperty(flag: number, value: unknown): void {
    if (value === undefined) return
    this.#flags |= flag
    if (isUint(value, 0xff)) this.uint8(value)
    else this.#isPlain = false
  }

  timestampProperty(flag: number, value: unknown): void {
    if (value === undefined) return
    this.#flags |= flag
    if (!isUint(value, Number.MAX_SAFE_INTEGER)) this.#isPlain = false
    else {
      this.uint32(Math.floor(value / 2 ** 32))
      this.uint32(value % 2 ** 32)
    }
  }

  /** Includes inherited members, as amqplib does. */
  tableProperty(flag: number, table: Readonly<Record<string, unknown>>): void {
    this.#flags |= flag
    const sizeAt = this.#at
    this.#at += 4
    for (const name in table) {
      const value = table[name]
      if (value !== undefined) this.#field(name, value)
    }
    this.#setUint32(sizeAt, this.#at - sizeAt - 4)
  }

  #field(name: string, value: unknown): void {
    this.shortText(name)
    if (typeof value === 'string') {
      this.uint8(TEXT)
      this.uint32(value.length)
      this.#ascii(value)
    } else if (isInt32(value)) {
      this.uint8(INT32)
      this.uint32(value.value)
    } else if (typeof value === 'boolean') {
      this.uint8(BOOLEAN)
      this.uint8(value ? 1 : 0)
    } else this.#isPlain = false
  }

  #ascii(text: string): void {
    const bytes = this.#bytes
    const at = this.#at
    const { length } = text
    let seen = 0
    for (let i = 0; i < length; i++) {
      const code = text.charCodeAt(i)
      seen |= code
      bytes[at + i] = code
    }
    if (seen > 0x7f) this.#isPlain = false
    this.#at = at + length
  }

  #sizeIs(size: number): void {
    this.#setUint32(this.#frameAt + SIZE_AT, size)
  }

  #setUint32(at: number, value: number): void {
    const end = this.#at
    this.#at = at
    this.uint32(value)
    this.#at = end
  }
}

function isUint(value: unknown, max: number): value is number {
  return Number.isInteger(value) && Number(value) >= 0 && Number(value) <= max
}

/** amqplib's notation (`job-message.ts`). */
function isInt32(value: unknown): value is { '!': 'int32'; value: number } {
  if (typeof value !== 'object' || value === null) return false
  const typed = value as { '!'?: unknown; value?: unknown }
  return typed['!'] === 'int32' && (Number(typed.value) | 0) === typed.value
}
