/** The headers of every answer: one that all answers shall have is added here, and only here. */
import type { Admission } from './admission.ts'

const OJS_VERSION = '1.0'

/** The part of a request that its answer repeats. A request that nobody could read gets a new id. */
export interface Answered {
  readonly requestId: string
  readonly admission: Pick<Admission, 'headers'>
}

/** How many entries `answerHeaders` spends on the content. */
const OF_CONTENT = 4

/**
 * The headers of an answer: name, value, name, value. Every answer gets its headers here, the raw one to a
 * request that Node's parser refuses too. The hot path builds one array, so the content comes first: an
 * answer without (`contentType` undefined) leaves it out with one cut. `extra`: what this answer has besides.
 */
export function answerHeaders(
  { requestId, admission }: Answered,
  extra: readonly string[],
  contentType?: string,
  bytes = 0,
): string[] {
  const headers = [
    'Content-Type',
    contentType ?? '',
    'Content-Length',
    String(bytes),
    'OJS-Version',
    OJS_VERSION,
    'X-Request-Id',
    requestId,
    'X-Content-Type-Options',
    'nosniff',
    ...admission.headers,
    ...extra,
  ]
  return contentType === undefined ? headers.slice(OF_CONTENT) : headers
}
