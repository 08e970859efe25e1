import { createRequire } from 'node:module'

/** One frame: `fields` of a method or of content properties, `content` of a body. */
export interface Frame {
  /** Id of the method, or of `BasicProperties`; absent in a body or a heartbeat. */
  id?: number
  channel: number
  /** Bytes of the body that follows, in a content header. */
  size?: number
  fields?: Record<string, unknown>
  content?: Buffer
}

// amqplib's own codec, which its package does not export.
const load = createRequire(import.meta.url)

export const defs = load('../../../node_modules/amqplib/lib/defs.js') as Record<string, number> & {
  encodeMethod(id: number, channel: number, fields: object): Buffer
  encodeProperties(id: number, channel: number, size: number, fields: object): Buffer
  info(id: number): { name: string }
}

const frames = load('../../../node_modules/amqplib/lib/frame.js') as {
  parseFrame(bytes: Buffer, max: number): { rest: Buffer } | false
  decodeFrame(frame: object): Frame
}

/** Returns the complete frames, and the bytes of an incomplete one. */
export function takeFrames(bytes: Buffer): { taken: Frame[]; rest: Buffer } {
  const taken: Frame[] = []
  let rest = bytes
  for (;;) {
    const parsed = frames.parseFrame(rest, 0)
    if (!parsed) return { taken, rest }
    rest = parsed.rest
    taken.push(frames.decodeFrame(parsed))
  }
}
