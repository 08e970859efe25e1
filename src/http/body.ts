import type { Request, Response } from 'express'
import { OjsError } from '../errors.ts'
import { JSON_LIMITS, parseJsonObject } from '../schemas/json-text.ts'
import { requireJson } from './media-type.ts'

/**
 * The JSON object in the body of a request (seed 001 §6.1). Throws 400, and 413 before a byte is
 * read where the length is declared, else as soon as too much has come.
 */
export async function readJson(
  request: Request,
  response: Response,
  maxBytes: number,
): Promise<Record<string, unknown>> {
  if (hasBody(request)) requireJson(request.headers)
  return parseJsonObject(await readBody(request, response, maxBytes), JSON_LIMITS)
}

/** As `readJson`, for commands with nothing to say: no body is `{}` (conformance.md §3.5, 10). */
export async function readOptionalJson(
  request: Request,
  response: Response,
  maxBytes: number,
): Promise<Record<string, unknown>> {
  return hasBody(request) ? readJson(request, response, maxBytes) : {}
}

function hasBody({ headers }: Request): boolean {
  return headers['transfer-encoding'] !== undefined || (headers['content-length'] ?? '0') !== '0'
}

function readBody(request: Request, response: Response, maxBytes: number): Promise<Buffer> {
  const declared = Number(request.headers['content-length'] ?? 0)
  if (declared > maxBytes) throw tooLarge(declared, maxBytes)
  if (request.headers.expect !== undefined && request.httpVersion === '1.1') {
    // The server leaves this to us (`checkContinue`): a refusal spares the client its body.
    response.writeContinue()
  }
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let size = 0
    request.on('data', (chunk: Buffer) => {
      size += chunk.length
      if (size <= maxBytes) chunks.push(chunk)
      else reject(tooLarge(size, maxBytes))
    })
    request.on('end', () => resolve(joined(chunks, size)))
    request.on('error', () => reject(endedEarly()))
  })
}

/** Nearly every body comes in one piece. */
function joined(chunks: readonly Buffer[], size: number): Buffer {
  const [only] = chunks
  return only !== undefined && chunks.length === 1 ? only : Buffer.concat(chunks, size)
}

/** The client is gone; nobody will read this. */
function endedEarly(): OjsError {
  return new OjsError('invalid_payload', 'The request ended before its body did.')
}

function tooLarge(size: number, maxBytes: number): OjsError {
  return new OjsError('invalid_request', `The body is larger than ${maxBytes} bytes.`, {
    status: 413,
    details: { field: 'body', actual_bytes: size, max_bytes: maxBytes },
  })
}
