import type { Request, Response } from 'express'
import { OjsError } from '../../errors.ts'
import { partOfHeap, UNCOUNTED_BYTES } from '../../memory.ts'
import { heapOfText } from '../../schemas/json/json-heap.ts'
import {
  JSON_LIMITS,
  type JsonLimits,
  parseJsonInSlices,
  parseJsonObject,
  valueLimits,
} from '../../schemas/json/json-text.ts'
import { inSlices } from '../../slices.ts'
import { BodyBudget, type Incoming } from './body-budget.ts'
import { requireJson } from './media-type.ts'
import { Pieces } from './pieces.ts'

/** Shared by all listeners of the process, since they share its memory. */
const PROCESS_BUDGET = new BodyBudget(partOfHeap(1 / 4, 128 * 1024 * 1024))

interface Body extends Incoming {
  readonly pieces: Pieces
}

/** The longest body that is looked at for an empty list. */
const MAX_EMPTY = 64

interface Reading {
  limits?: JsonLimits
  budget?: BodyBudget
}

/**
 * Reads the JSON object in the body of a request (seed 001 §6.1). Throws 400; 503 while all requests together
 * need too much memory; 413 before a byte is read if the declared length is too large, else as soon as too
 * much has arrived. If the client disconnects before the first byte, the server has already answered, and the
 * promise may never settle.
 */
export async function readJson(
  request: Request,
  response: Response,
  maxBytes: number,
  { limits = JSON_LIMITS, budget = PROCESS_BUDGET }: Reading = {},
): Promise<Record<string, unknown>> {
  if (hasBody(request)) requireJson(request.headers)
  const body = await readBody(request, response, maxBytes, budget)
  return parsed(request, body, body.pieces.take(), { limits, budget })
}

/**
 * As `readJson`, but a request without a body yields `{}` (conformance.md §3.5, 10). So does a chunked body
 * without a byte: proxies send one for an HTTP/2 request that declares no length. And so does `[]`, which is
 * how PHP writes an object without members.
 */
export async function readOptionalJson(
  request: Request,
  response: Response,
  maxBytes: number,
): Promise<Record<string, unknown>> {
  const body = await readBody(request, response, maxBytes, PROCESS_BUDGET)
  if (body.size === 0) return {}
  try {
    requireJson(request.headers)
  } catch (error) {
    PROCESS_BUDGET.end(body)
    throw error
  }
  const bytes = body.pieces.take()
  if (bytes.length <= MAX_EMPTY && /^\s*\[\s*\]\s*$/.test(bytes.toString())) return {}
  return parsed(request, body, bytes, { limits: JSON_LIMITS, budget: PROCESS_BUDGET })
}

/** A body of this size is parsed in slices, which would cost a smaller one more than it saves. */
const SLICED_BYTES = 65_536

/** Parses the body. The route gives the heap that this takes back when it is done (`route.ts`). */
function parsed(
  request: Request,
  body: Body,
  bytes: Buffer,
  { limits, budget }: Required<Reading>,
): Record<string, unknown> | Promise<Record<string, unknown>> {
  if (bytes.length < UNCOUNTED_BYTES) return parseJsonObject(bytes, limits)
  const limited = limits.maxHeap === undefined ? valueLimits(limits, body.maxBytes) : limits
  return parseLarge(request, bytes, limited).finally(() => budget.end(body))
}

async function parseLarge({ memory }: Request, bytes: Buffer, limits: JsonLimits) {
  const afford = (heap: number) => memory.require(heap)
  afford(heapOfText(bytes))
  return bytes.length < SLICED_BYTES
    ? parseJsonObject(bytes, limits, afford)
    : await inSlices(parseJsonInSlices(bytes, limits, afford))
}

function hasBody({ headers }: Request): boolean {
  return headers['transfer-encoding'] !== undefined || (headers['content-length'] ?? '0') !== '0'
}

async function readBody(
  request: Request,
  response: Response,
  maxBytes: number,
  budget: BodyBudget,
): Promise<Body> {
  const declared = Number(request.headers['content-length'] ?? 0)
  if (declared > maxBytes) throw tooLarge(declared, maxBytes)
  if (request.headers.expect !== undefined && request.httpVersion === '1.1') {
    // Node leaves this to us (`checkContinue`). A client that is refused before need not send its body.
    response.writeContinue()
  }
  const pieces = new Pieces()
  let isOver = false
  let reject: (error: OjsError) => void = () => {}
  const refuse = (error: OjsError) => {
    if (isOver) return
    isOver = true
    budget.end(body)
    pieces.clear()
    reject(error)
  }
  const body: Body = { maxBytes, size: 0, pieces, refuse }
  await new Promise<void>((resolve, rejectIt) => {
    reject = rejectIt
    request.on('data', (chunk: Buffer) => {
      if (isOver) return
      // If the connection ends before the body, the server answers 400 (`parser-errors.ts`), and only the
      // response, not the request, emits an event. Most bodies arrive in one chunk and need no listener for
      // this.
      if (body.size === 0 && chunk.length !== declared) {
        response.once('close', () => refuse(endedEarly()))
      }
      pieces.add(chunk)
      const size = body.size + chunk.length
      if (size > maxBytes) refuse(tooLarge(size, maxBytes))
      else budget.take(body, chunk.length)
    })
    request.on('end', () => {
      if (isOver) return
      isOver = true
      // The rest is parsed at once.
      if (body.size < UNCOUNTED_BYTES) budget.end(body)
      else budget.complete(body)
      resolve()
    })
    request.on('error', () => refuse(endedEarly()))
  })
  // The request keeps its listeners, and so the pieces too, until it has been answered: they are taken out.
  return body
}

/** The client is gone and will not read this error. */
function endedEarly(): OjsError {
  return new OjsError('invalid_payload', 'The request ended before its body was complete.')
}

function tooLarge(size: number, maxBytes: number): OjsError {
  return new OjsError('invalid_request', `The body is larger than ${maxBytes} bytes.`, {
    status: 413,
    details: { field: 'body', actual_bytes: size, max_bytes: maxBytes },
  })
}
