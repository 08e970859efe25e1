/** Answers: JSON, text or none, with the headers of every answer, in one write. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { OJS_MEDIA_TYPE } from '../../job/document.ts'
import { partOfHeap } from '../../memory.ts'
import type { Admission } from './admission.ts'
import { answerHeaders } from './answer-headers.ts'
import { LARGE_BYTES, UnsentResponses } from './unsent-responses.ts'

/** The part of a response that answering needs; both Express's and our own have it. */
export type Answerable = ServerResponse & {
  readonly req: IncomingMessage & { readonly requestId: string; readonly admission: Admission }
}

/** Shared by all listeners of the process, since they share its memory. */
const UNSENT = new UnsentResponses(partOfHeap(1 / 4, 512 * 1024 * 1024))

const DRY_RUNS = new WeakSet<object>()

/** Answers what a request would have done, and did not: it leaves no audit record. */
export function answerDryRun(response: Answerable, text: string): void {
  DRY_RUNS.add(response)
  answer(response, 200, text)
}

/** Whether the response has been answered by `answerDryRun`. */
export function isDryRun(response: object): boolean {
  return DRY_RUNS.has(response)
}

/**
 * Writes a whole answer: JSON text with the headers of seed 001 §6.5. One `writeHead` with a flat
 * header list and one `end` make one packet. `extra` adds headers to that list: name, value, name, value.
 */
export function answer(
  response: Answerable,
  status: number,
  text: string,
  ...extra: readonly string[]
): void {
  const bytes = Buffer.byteLength(text)
  if (bytes > LARGE_BYTES && !UNSENT.hold(response, bytes)) return
  response.writeHead(status, answerHeaders(response.req, extra, OJS_MEDIA_TYPE, bytes))
  // ASCII text, as most answers are, has the same bytes in both encodings, and Node writes latin1 faster.
  response.end(text, bytes === text.length ? 'latin1' : 'utf8')
}

/** Writes an answer that is not OJS: the metrics for Prometheus, the OpenAPI document. */
export function answerText(
  response: Answerable,
  contentType: string,
  text: string,
  ...extra: readonly string[]
): void {
  response.writeHead(200, answerHeaders(response.req, extra, contentType, Buffer.byteLength(text)))
  response.end(text)
}

/** Writes a 204: the headers of every answer except the content type, and no body (seed 001 §6.2). */
export function answerEmpty(response: Answerable, ...extra: readonly string[]): void {
  response.writeHead(204, answerHeaders(response.req, extra))
  response.end()
}

/** Writes a 304: the client has the answer already. */
export function answerUnchanged(response: Answerable, ...extra: readonly string[]): void {
  response.writeHead(304, answerHeaders(response.req, extra))
  response.end()
}

const REPLAYED = ['Idempotent-Replayed', 'true']

/** The header of an answer to a repeated request with an `Idempotency-Key`. */
export function replayHeader(isReplay: boolean | undefined): readonly string[] {
  return isReplay ? REPLAYED : []
}
