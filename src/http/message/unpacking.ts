/** Bodies in gzip: which coding a request names, and its unpacking, which stops where it is refused. */
import type { IncomingHttpHeaders } from 'node:http'
import type { Readable } from 'node:stream'
import { createGunzip } from 'node:zlib'
import type { Request } from 'express'
import { echoed, OjsError } from '../../errors.ts'

/** The codings that requests may have, for `Accept-Encoding` in the answer to any other. */
export const ACCEPTED_CODINGS = 'gzip'

/** What zlib keeps for a stream: its window of 32 KiB, tables, and the piece that it writes next. */
export const UNPACKER_BYTES = 65_536

/** How much longer than its content a packed body may be. More of it would be empty members without end. */
const MAX_OVERHEAD = 65_536

/** True for gzip, by both of its names; false for none. Throws 415 for any other coding, or several. */
export function isPacked(headers: IncomingHttpHeaders): boolean {
  const coding = headers['content-encoding']
  if (!coding) return false
  const name = coding.trim().toLowerCase()
  if (name === 'identity') return false
  // RFC 9110 §8.4.1.3.
  if (name === 'gzip' || name === 'x-gzip') return true
  throw new OjsError('invalid_request', 'A body may be in gzip, or in no coding.', {
    status: 415,
    details: {
      field: 'Content-Encoding',
      reason: 'unsupported_compression',
      expected: ['gzip', 'identity'],
      received: echoed(coding),
    },
  })
}

export interface Unpacking {
  /** What is in the body; ends after its last byte. */
  content: Readable
  /** Stops inflating. What is still to come of the body is read and dropped. */
  stop(): void
}

/**
 * Unpacks the body of a request, piece by piece as its reader takes them: a body that inflates without end is
 * stopped by whoever counts what comes out. `refuse`: called with a 400 for what is not gzip, and for anything
 * behind it. `maxBytes`: of the content.
 */
export function unpack(
  request: Request,
  maxBytes: number,
  refuse: (error: OjsError) => void,
): Unpacking {
  const content = createGunzip()
  let packed = 0
  let isWhole = false
  request.on('data', (chunk: Buffer) => {
    if (content.destroyed) return
    packed += chunk.length
    if (content.readableEnded || packed > maxBytes + MAX_OVERHEAD) refuse(notGzip())
    else if (!content.write(chunk)) request.pause()
  })
  content.on('drain', () => request.resume())
  request.on('end', () => {
    isWhole = true
    content.end()
  })
  content.on('error', (cause) => refuse(notGzip(cause)))
  // zlib ends, without an error, before bytes that do not belong to gzip.
  content.prependListener('end', () => {
    if (!isWhole || content.bytesWritten !== packed) refuse(notGzip())
  })
  const stop = () => {
    content.destroy()
    request.resume()
  }
  return { content, stop }
}

function notGzip(cause?: unknown): OjsError {
  const message = 'The body is not what its Content-Encoding says: it cannot be unpacked as gzip.'
  return new OjsError('invalid_payload', message, { details: { field: 'body' }, cause })
}
