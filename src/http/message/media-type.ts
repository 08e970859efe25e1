import type { IncomingHttpHeaders } from 'node:http'
import { echoed, invalidField } from '../../errors.ts'
import { OJS_MEDIA_TYPE } from '../../job/media-type.ts'

const ACCEPTED = new Set([OJS_MEDIA_TYPE, 'application/json'])

/**
 * Throws 400 if the headers declare a body that is not plain JSON in UTF-8 (seed 001 §4.1: 400, not 415). A
 * missing content type means JSON. `Accept` is ignored, because the answer is the same for every value
 * (§4.3).
 */
export function requireJson(headers: IncomingHttpHeaders): void {
  const type = headers['content-type']
  if (type && !ACCEPTED.has(type)) requireJsonType(type)
  const encoding = headers['content-encoding']
  if (encoding && encoding.trim().toLowerCase() !== 'identity') {
    throw invalidField('Content-Encoding', 'Compressed bodies are not accepted.', {
      expected: 'identity',
      received: echoed(encoding),
    })
  }
}

const CHARSET = /;\s*charset\s*=\s*"?([^\s;"]*)/i

function requireJsonType(received: string): void {
  const [essence = ''] = received.split(';', 1)
  if (!ACCEPTED.has(essence.trim().toLowerCase())) {
    throw invalidField('Content-Type', `The content type must be ${[...ACCEPTED].join(' or ')}.`, {
      expected: [...ACCEPTED],
      received: echoed(received),
    })
  }
  const charset = CHARSET.exec(received)?.[1]?.toLowerCase()
  if (charset === undefined || charset === 'utf-8' || charset === 'utf8') return
  throw invalidField('Content-Type', 'The body must be in UTF-8.', {
    expected: 'utf-8',
    received: echoed(charset),
  })
}
