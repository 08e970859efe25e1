import type { IncomingMessage, ServerResponse } from 'node:http'
import { OJS_MEDIA_TYPE } from '../job/media-type.ts'
import { partOfHeap } from '../memory.ts'
import type { Admission } from './gate.ts'
import { LARGE_BYTES, UnsentAnswers } from './unsent.ts'

export const OJS_VERSION = '1.0'

/** What an answer needs of a response: Express's and our own both have it. */
export type Answerable = ServerResponse & {
  readonly req: IncomingMessage & { readonly requestId: string; readonly admission: Admission }
}

/** It is the memory of the process, so one for all listeners in it. */
const UNSENT = new UnsentAnswers(partOfHeap(1 / 4, 512 * 1024 * 1024))

/**
 * Writes a whole answer: JSON text with the three headers of seed 001 §6.5. One `writeHead` with a
 * flat list, one `end`, one packet; `extra` is more of that list: name, value, name, value.
 */
export function answer(
  response: Answerable,
  status: number,
  text: string,
  ...extra: readonly string[]
): void {
  const bytes = Buffer.byteLength(text)
  if (bytes > LARGE_BYTES && !UNSENT.hold(response, bytes)) return
  response.writeHead(status, answerHeaders(response, OJS_MEDIA_TYPE, bytes, extra))
  // Pure ASCII, as most answers are, is the same in both, and faster to write in one of them.
  response.end(text, bytes === text.length ? 'latin1' : 'utf8')
}

/** An answer that is not OJS: what Prometheus reads. */
export function answerText(response: Answerable, contentType: string, text: string): void {
  response.writeHead(200, answerHeaders(response, contentType, Buffer.byteLength(text), []))
  response.end(text)
}

/** 204: the headers of every answer but the content type, and no body (seed 001 §6.2). */
export function answerEmpty(response: Answerable, ...extra: readonly string[]): void {
  response.writeHead(204, [
    'OJS-Version',
    OJS_VERSION,
    'X-Request-Id',
    response.req.requestId,
    ...response.req.admission.headers,
    ...extra,
  ])
  response.end()
}

function answerHeaders(
  response: Answerable,
  contentType: string,
  bytes: number,
  extra: readonly string[],
): string[] {
  return [
    'OJS-Version',
    OJS_VERSION,
    'Content-Type',
    contentType,
    'X-Request-Id',
    response.req.requestId,
    'Content-Length',
    String(bytes),
    ...response.req.admission.headers,
    ...extra,
  ]
}
